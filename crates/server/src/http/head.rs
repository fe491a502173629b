//! Checks of request heads that apply to all endpoints.

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use hyper::{HeaderMap, Uri};
use oncebox_wire::{ErrorCode, header};

use super::api_error::ApiError;
use super::authority::Authority;
use super::percent;

/// Browsers report the origin of a request in this header.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that must not be repeated, because it would be unclear which value counts.
const SINGLE_VALUE_HEADERS: [HeaderName; 14] = [
    HOST,
    AUTHORIZATION,
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

/// The hosts that a request may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowedHosts {
    /// Those of this machine: without tokens, every client that reaches the port is trusted.
    Local,
    /// All: no web page has a token, and none reaches a unix socket.
    Any,
}

/// Rejects requests that no legitimate client sends.
pub(super) fn check(hosts: AllowedHosts, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    reject_web_pages(headers)?;
    reject_repeated_headers(headers)?;
    reject_foreign_host(hosts, uri, headers)?;
    reject_transfer_codings(headers)?;
    if !percent::is_valid(uri.path()) || !uri.query().is_none_or(percent::is_valid) {
        return Err(ApiError::schema(
            "the URL is not percent-encoded UTF-8: encode a byte as `%` and two hex digits, and `%` itself as `%25`",
        ));
    }
    Ok(())
}

/// Without access control, every client that reaches the port is trusted. A web page in a browser on this machine
/// reaches it too, so requests that a browser sends on behalf of a page are rejected: those with an `Origin`, and those
/// from another site.
fn reject_web_pages(headers: &HeaderMap) -> Result<(), ApiError> {
    let user_initiated = |site: &HeaderValue| matches!(site.as_bytes(), b"none" | b"same-origin");
    if headers.contains_key(ORIGIN) || !headers.get_all(SEC_FETCH_SITE).iter().all(user_initiated) {
        return Err(ApiError::new(
            ErrorCode::CapScope,
            "requests from web pages are not allowed: call the server from a program",
        ));
    }
    Ok(())
}

fn reject_repeated_headers(headers: &HeaderMap) -> Result<(), ApiError> {
    // Most requests repeat no header.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    match SINGLE_VALUE_HEADERS.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => {
            Err(ApiError::schema(format!("the header `{name}` occurs more than once: send it once")))
        }
        None => Ok(()),
    }
}

/// Protects against DNS rebinding: `Host`, and the request target if it contains a host, must name this machine.
fn reject_foreign_host(hosts: AllowedHosts, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(HOST).map(|host| host.to_str().unwrap_or_default());
    let host = host.and_then(Authority::parse);
    if let Some(target) = uri.authority()
        && Authority::parse(target.as_str()).is_none_or(|target| Some(target) != host)
    {
        return Err(ApiError::schema(
            "the host in the URL differs from the header `host`: send only a path, or the same host in both",
        ));
    }
    match (hosts, host) {
        (AllowedHosts::Any, _) => Ok(()),
        (AllowedHosts::Local, Some(host)) if host.is_local() => Ok(()),
        (AllowedHosts::Local, _) => Err(ApiError::new(
            ErrorCode::CapScope,
            "the header `host` must name `localhost` or a loopback address",
        )),
    }
}

/// A body with several codings would be misinterpreted.
fn reject_transfer_codings(headers: &HeaderMap) -> Result<(), ApiError> {
    let chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if codings.next().is_some_and(|first| !chunked(first) || codings.next().is_some()) {
        return Err(ApiError::new(
            ErrorCode::Unsupported,
            "unsupported transfer coding: only `chunked` is supported",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use oncebox_wire::ErrorCode;

    use super::{AllowedHosts, SINGLE_VALUE_HEADERS, check};

    /// Returns the error code of a request, if it is rejected.
    fn checked(hosts: AllowedHosts, uri: &str, headers: &[(&str, &str)]) -> Result<(), ErrorCode> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        check(hosts, request.uri(), request.headers()).map_err(|error| error.code)
    }

    const LOCAL: (&str, &str) = ("host", "localhost:7420");

    /// Holds: RULE-21.
    #[test]
    fn only_local_host_names_are_accepted() {
        assert_eq!(checked(AllowedHosts::Local, "/", &[LOCAL]), Ok(()));
        assert_eq!(checked(AllowedHosts::Local, "/", &[]), Err(ErrorCode::CapScope), "no host header");
        assert_eq!(checked(AllowedHosts::Local, "/", &[("host", "example.com")]), Err(ErrorCode::CapScope));
        assert_eq!(
            checked(AllowedHosts::Local, "/", &[("host", "localhost:1.evil.com")]),
            Err(ErrorCode::CapScope)
        );
        assert_eq!(
            checked(AllowedHosts::Any, "/", &[("host", "example.com")]),
            Ok(()),
            "over a unix socket, or with a token"
        );
        assert_eq!(checked(AllowedHosts::Any, "/", &[]), Ok(()));
        for hosts in [AllowedHosts::Local, AllowedHosts::Any] {
            assert_eq!(checked(hosts, "/", &[LOCAL, LOCAL]), Err(ErrorCode::Schema), "two host headers");
        }
    }

    /// Holds: RULE-21.
    #[test]
    fn the_host_in_the_target_must_match_the_host_header() {
        for hosts in [AllowedHosts::Local, AllowedHosts::Any] {
            let target = |uri| checked(hosts, uri, &[LOCAL]);
            assert_eq!(target("http://localhost:7420/healthz"), Ok(()));
            assert_eq!(target("http://LOCALHOST:7420/healthz"), Ok(()));
            for foreign in [
                "http://example.com/healthz",
                "http://localhost/healthz",
                "http://127.0.0.1:7420/healthz",
                "http://user@localhost:7420/healthz",
                "localhost:80",
            ] {
                assert_eq!(target(foreign), Err(ErrorCode::Schema), "{foreign}");
            }
            assert_eq!(
                checked(hosts, "http://localhost:7420/", &[]),
                Err(ErrorCode::Schema),
                "no host header"
            );
        }
        let foreign = checked(AllowedHosts::Local, "http://example.com/", &[("host", "example.com")]);
        assert_eq!(foreign, Err(ErrorCode::CapScope), "the hosts match, but are not local");
    }

    /// Holds: RULE-21.
    #[test]
    fn requests_of_web_pages_are_rejected() {
        for hosts in [AllowedHosts::Local, AllowedHosts::Any] {
            let with = |name, value| checked(hosts, "/", &[LOCAL, (name, value)]);
            assert_eq!(with("origin", "null"), Err(ErrorCode::CapScope));
            for site in ["cross-site", "same-site", "Cross-Site", "", "none, cross-site", "later"] {
                assert_eq!(with("sec-fetch-site", site), Err(ErrorCode::CapScope), "{site}");
            }
            for site in ["none", "same-origin"] {
                assert_eq!(with("sec-fetch-site", site), Ok(()), "{site}: a typed URL, or a link on /docs");
            }
            let two = [LOCAL, ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")];
            assert_eq!(checked(hosts, "/", &two), Err(ErrorCode::CapScope));
        }
    }

    #[test]
    fn single_value_headers_must_not_be_repeated() {
        for name in &SINGLE_VALUE_HEADERS {
            let twice = [LOCAL, (name.as_str(), "localhost:7420"), (name.as_str(), "localhost:7420")];
            assert_eq!(checked(AllowedHosts::Local, "/", &twice), Err(ErrorCode::Schema), "{name}");
        }
        let lists = [LOCAL, ("accept", "text/html"), ("accept", "application/json")];
        assert_eq!(checked(AllowedHosts::Local, "/", &lists), Ok(()), "other headers may be repeated");
    }

    #[test]
    fn urls_must_be_percent_encoded() {
        for uri in ["/v1/inbox/%41%2F%C3%BC", "/v1/admin/counts?topic=%25zz&x=%20", "/v1/inbox/a+b"] {
            assert_eq!(checked(AllowedHosts::Local, uri, &[LOCAL]), Ok(()), "{uri}");
        }
        for uri in [
            "/v1/inbox/%zz",
            "/v1/inbox/%FF",
            "/v1/inbox/%4",
            "/v1/admin/counts?topic=%zz",
            "/?%FF",
            "/?a=1&b=%",
        ] {
            assert_eq!(checked(AllowedHosts::Local, uri, &[LOCAL]), Err(ErrorCode::Schema), "{uri}");
        }
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        let coded = |coding| checked(AllowedHosts::Local, "/", &[LOCAL, ("transfer-encoding", coding)]);
        assert_eq!((coded("chunked"), coded("Chunked")), (Ok(()), Ok(())));
        for coding in ["gzip, chunked", "gzip", "chunked, chunked", ""] {
            assert_eq!(coded(coding), Err(ErrorCode::Unsupported), "{coding}");
        }
    }
}
