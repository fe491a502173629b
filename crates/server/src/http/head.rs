//! Heads of requests: what is refused before anything of a request is carried out, whatever it is for.

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use oncebox_wire::{Code, header};

use super::authority::Authority;
use super::gate::Door;
use super::percent;
use super::refusal::Refusal;

/// Where a browser says that a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers of which one value counts: who sends two may mean either.
const SINGLE: [HeaderName; 13] = [
    HOST,
    CONTENT_TYPE,
    HeaderName::from_static(header::CORR_ID),
    HeaderName::from_static(header::IDEMPOTENCY_MODE),
    HeaderName::from_static(header::ACTOR),
    HeaderName::from_static(header::TOPIC),
    HeaderName::from_static(header::IDEM_KEY),
    HeaderName::from_static(header::PARTITION),
    HeaderName::from_static(header::SHARD_KEY),
    HeaderName::from_static(header::DUE_IN_MS),
    HeaderName::from_static(header::EXPIRES_IN_MS),
    HeaderName::from_static(header::PAYLOAD_HASH),
    HeaderName::from_static(header::ATTRS),
];

/// Refuses what no client of ours sends.
pub(super) fn check(door: Door, request: &Request) -> Result<(), Refusal> {
    let (uri, headers) = (request.uri(), request.headers());
    refuse_pages(headers)?;
    refuse_repeated(headers)?;
    refuse_foreign(door, uri, headers)?;
    refuse_codings(headers)?;
    if !percent::is_sound(uri.path()) || !uri.query().is_none_or(percent::is_sound) {
        return Err(Refusal::schema(
            "the address is not percent-encoded UTF-8: write a byte as `%` and two hex digits, and `%` itself as `%25`",
        ));
    }
    Ok(())
}

/// Without capabilities, everybody who reaches the port is trusted. A web page in a browser of this machine reaches it too, so
/// what a browser sends on behalf of a page is refused: any `Origin`, and what is said to come from another site.
fn refuse_pages(headers: &HeaderMap) -> Result<(), Refusal> {
    let by_itself = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if headers.contains_key(ORIGIN) || !headers.get_all(SEC_FETCH_SITE).iter().all(by_itself) {
        return Err(Refusal::new(
            Code::CapScope,
            "web pages may not call this server: it trusts everybody on this machine",
        ));
    }
    Ok(())
}

fn refuse_repeated(headers: &HeaderMap) -> Result<(), Refusal> {
    // Mostly no header comes twice.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    match SINGLE.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => {
            Err(Refusal::schema(format!("the header `{name}` is there more than once: send it once")))
        }
        None => Ok(()),
    }
}

/// A name that was made to point here is not ours: `Host`, and the target if it names a host, must name this machine.
fn refuse_foreign(door: Door, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let host = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    let host = host.and_then(Authority::parse);
    if let Some(target) = uri.authority()
        && Authority::parse(target.as_str()).is_none_or(|target| Some(target) != host)
    {
        return Err(Refusal::schema(
            "the address names another host than the header `host`: send a path alone, or the same host in both",
        ));
    }
    match (door, host) {
        (Door::Unix, _) => Ok(()),
        (Door::Tcp, Some(host)) if host.is_local() => Ok(()),
        (Door::Tcp, _) => Err(Refusal::new(
            Code::CapScope,
            "this server only answers to `localhost` and loopback addresses: call it by one of these",
        )),
    }
}

/// What is coded twice would be taken for what it is not.
fn refuse_codings(headers: &HeaderMap) -> Result<(), Refusal> {
    let chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if codings.next().is_some_and(|first| !chunked(first) || codings.next().is_some()) {
        return Err(Refusal::new(
            Code::Unsupported,
            "the only transfer coding that this server knows is `chunked`: send the body without any other",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use oncebox_wire::Code;

    use super::{Door, SINGLE, check};

    /// Whether a request passes, or the code that it is refused with.
    fn checked(door: Door, uri: &str, headers: &[(&str, &str)]) -> Result<(), Code> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(door, &request.body(Body::empty()).unwrap()).map_err(|refusal| refusal.code)
    }

    const LOCAL: (&str, &str) = ("host", "localhost:7420");

    /// Holds: RULE-21.
    #[test]
    fn only_who_calls_it_by_a_local_name_is_answered() {
        assert_eq!(checked(Door::Tcp, "/", &[LOCAL]), Ok(()));
        assert_eq!(checked(Door::Tcp, "/", &[]), Err(Code::CapScope), "no host at all");
        assert_eq!(checked(Door::Tcp, "/", &[("host", "example.com")]), Err(Code::CapScope));
        assert_eq!(checked(Door::Tcp, "/", &[("host", "localhost:1.evil.com")]), Err(Code::CapScope));
        assert_eq!(
            checked(Door::Unix, "/", &[("host", "example.com")]),
            Ok(()),
            "no browser reaches a socket"
        );
        assert_eq!(checked(Door::Unix, "/", &[]), Ok(()));
        for door in [Door::Tcp, Door::Unix] {
            assert_eq!(checked(door, "/", &[LOCAL, LOCAL]), Err(Code::Schema), "two hosts");
        }
    }

    /// Holds: RULE-21.
    #[test]
    fn a_target_that_names_a_host_names_the_same() {
        for door in [Door::Tcp, Door::Unix] {
            let target = |uri| checked(door, uri, &[LOCAL]);
            assert_eq!(target("http://localhost:7420/healthz"), Ok(()));
            assert_eq!(target("http://LOCALHOST:7420/healthz"), Ok(()));
            for foreign in [
                "http://example.com/healthz",
                "http://localhost/healthz",
                "http://127.0.0.1:7420/healthz",
                "http://user@localhost:7420/healthz",
                "localhost:80",
            ] {
                assert_eq!(target(foreign), Err(Code::Schema), "{foreign}");
            }
            assert_eq!(checked(door, "http://localhost:7420/", &[]), Err(Code::Schema), "no host beside it");
        }
        let foreign = checked(Door::Tcp, "http://example.com/", &[("host", "example.com")]);
        assert_eq!(foreign, Err(Code::CapScope), "the same, and not ours");
    }

    /// Holds: RULE-21.
    #[test]
    fn what_a_browser_sends_for_a_page_is_refused() {
        for door in [Door::Tcp, Door::Unix] {
            let with = |name, value| checked(door, "/", &[LOCAL, (name, value)]);
            assert_eq!(with("origin", "null"), Err(Code::CapScope));
            for site in ["cross-site", "same-site", "Cross-Site", "", "none, cross-site", "later"] {
                assert_eq!(with("sec-fetch-site", site), Err(Code::CapScope), "{site}");
            }
            for site in ["none", "same-origin"] {
                assert_eq!(
                    with("sec-fetch-site", site),
                    Ok(()),
                    "{site}: an address that was typed, a link on /docs"
                );
            }
            let two = [LOCAL, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
            assert_eq!(checked(door, "/", &two), Err(Code::CapScope));
        }
    }

    #[test]
    fn headers_of_which_one_counts_come_once() {
        for name in &SINGLE {
            let twice = [LOCAL, (name.as_str(), "localhost:7420"), (name.as_str(), "localhost:7420")];
            assert_eq!(checked(Door::Tcp, "/", &twice), Err(Code::Schema), "{name}");
        }
        let lists = [LOCAL, ("accept", "text/html"), ("accept", "application/json")];
        assert_eq!(checked(Door::Tcp, "/", &lists), Ok(()), "others may come twice");
    }

    #[test]
    fn addresses_are_percent_encoded_by_the_letter() {
        for uri in ["/v1/inbox/%41%2F%C3%BC", "/v1/counts?topic=%25zz&x=%20", "/v1/inbox/a+b"] {
            assert_eq!(checked(Door::Tcp, uri, &[LOCAL]), Ok(()), "{uri}");
        }
        for uri in
            ["/v1/inbox/%zz", "/v1/inbox/%FF", "/v1/inbox/%4", "/v1/counts?topic=%zz", "/?%FF", "/?a=1&b=%"]
        {
            assert_eq!(checked(Door::Tcp, uri, &[LOCAL]), Err(Code::Schema), "{uri}");
        }
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        let coded = |coding| checked(Door::Tcp, "/", &[LOCAL, ("transfer-encoding", coding)]);
        assert_eq!((coded("chunked"), coded("Chunked")), (Ok(()), Ok(())));
        for coding in ["gzip, chunked", "gzip", "chunked, chunked", ""] {
            assert_eq!(coded(coding), Err(Code::Unsupported), "{coding}");
        }
    }
}
