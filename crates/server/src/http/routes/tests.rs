//! The complete list of paths, and which requests reach them.

use std::collections::BTreeSet;

use hyper::Method;
use oncebox_capability::ApiOperation;
use oncebox_wire::ErrorCode;

use super::{Listener, ROUTES, Route};
use crate::http::document;

/// Paths are for ever: none is added or moved without a change here. The ledger owns `/v1/inbox/`, to which nothing is
/// added, and `/v1/send` to `/v1/dlq` are the mailbox's design. What is ours is below `/v1/queues/` and `/v1/admin/`.
/// Holds: RULE-31.
#[test]
fn these_are_all_routes() {
    const EVERYWHERE: &str = "
        GET /docs
        GET /health/live
        GET /health/ready
        GET /healthz
        GET /metrics
        GET /openapi.json
        GET /readyz
        GET /v1/admin/counts
        GET /v1/admin/messages
        GET /v1/admin/messages/by-key
        GET /v1/admin/messages/{msg_id}
        GET /v1/admin/revocations
        GET /v1/admin/stats
        GET /v1/admin/topics
        GET /v1/admin/topics/paused
        GET /v1/dlq
        GET /v1/dlq/{msg_id}
        POST /v1/admin/messages/purge
        POST /v1/admin/messages/redrive
        POST /v1/admin/revocations
        POST /v1/admin/topics/pause
        POST /v1/admin/topics/resume
        POST /v1/dlq/redrive
        POST /v1/dlq/reprocess";
    const PUBLIC_ONLY: &str = "
        GET /v1/inbox/mark-processed
        GET /v1/inbox/release
        GET /v1/inbox/try-begin
        GET /v1/inbox/{key}
        POST /v1/ack/{delivery}
        POST /v1/extend/{delivery}
        POST /v1/inbox/mark-processed
        POST /v1/inbox/release
        POST /v1/inbox/try-begin
        POST /v1/nack/{delivery}
        POST /v1/queues/mailbox/send
        POST /v1/recv
        POST /v1/recv/stream
        POST /v1/send
        POST /v1/settle
        POST /v1/work";
    let of = |listener| {
        let mut routes: Vec<_> = ROUTES.iter().filter(|route| route.listener == listener).map(name).collect();
        routes.sort_unstable();
        routes
    };
    let expected =
        |list: &str| -> Vec<_> { list.trim().lines().map(|line| line.trim().to_owned()).collect() };
    assert_eq!(of(Listener::Admin), expected(EVERYWHERE));
    assert_eq!(of(Listener::Public), expected(PUBLIC_ONLY));
}

fn name(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

/// The operation of a request, or the error.
fn find(listener: Listener, method: &Method, path: &str) -> Result<usize, ErrorCode> {
    listener.route(method, path).map(|route| route.operation as usize).map_err(|error| error.code)
}

#[test]
fn each_route_is_reached_by_its_method_and_path() {
    for (index, route) in ROUTES.iter().enumerate() {
        assert_eq!(route.operation as usize, index, "metrics are indexed by operation");
        let path = route
            .path
            .split_once('{')
            .map_or(route.path.to_owned(), |(before, _)| before.to_owned() + "a%2Fb");
        assert_eq!(find(Listener::Public, &route.method, &path), Ok(index), "{}", name(route));
        let on_admin = if route.listener == Listener::Admin { Ok(index) } else { Err(ErrorCode::NotFound) };
        assert_eq!(find(Listener::Admin, &route.method, &path), on_admin, "{}", name(route));
        assert_eq!(find(Listener::Public, &Method::PUT, &path), Err(ErrorCode::Method), "{}", name(route));
        for other in
            [path.clone() + "/", path.clone() + "/x/y", "/x".to_owned() + &path, path.replacen('/', "//", 1)]
        {
            assert_eq!(find(Listener::Public, &route.method, &other), Err(ErrorCode::NotFound), "{other}");
        }
    }
    let head = |path| find(Listener::Public, &Method::HEAD, path);
    assert_eq!(head("/healthz"), find(Listener::Public, &Method::GET, "/healthz"));
    assert_eq!(head("/v1/send"), Err(ErrorCode::Method));
    assert_eq!(head("/v1/ack/"), Err(ErrorCode::NotFound), "a parameter is not empty");
}

/// What shows no messages: whether the server lives, and its documentation. Every operation is used.
/// Holds: MBX-I-8.
#[test]
fn every_other_route_demands_a_token() {
    let open: BTreeSet<_> = ROUTES.iter().filter(|route| route.requirement.is_none()).map(name).collect();
    let expected = ["/docs", "/health/live", "/health/ready", "/healthz", "/openapi.json", "/readyz"];
    assert_eq!(open, expected.map(|path| format!("GET {path}")).into());
    let demanded: BTreeSet<_> =
        ROUTES.iter().filter_map(|route| Some(route.requirement?.operation)).collect();
    assert_eq!(demanded, ApiOperation::ALL.iter().copied().collect());
}

/// Nothing but webhooks is to be below this path, so nothing is there yet.
/// Holds: RULE-31.
#[test]
fn hooks_are_reserved() {
    assert!(ROUTES.iter().all(|route| !route.path.starts_with("/hooks")));
    for listener in [Listener::Public, Listener::Admin] {
        for path in ["/hooks", "/hooks/", "/hooks/stripe", "/hooks/v1/send"] {
            assert_eq!(find(listener, &Method::POST, path), Err(ErrorCode::NotFound), "{path}");
        }
    }
}

#[test]
fn every_route_is_described_on_its_listener() {
    for listener in [Listener::Public, Listener::Admin] {
        let document = serde_json::to_value(document::of(listener)).unwrap();
        let described = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        let mut described: BTreeSet<_> = described.collect();
        described.extend(["GET /docs", "GET /openapi.json"].map(str::to_owned));
        let served: BTreeSet<_> = ROUTES.iter().filter(|route| listener.serves(route)).map(name).collect();
        assert_eq!(described, served, "{listener:?}");
    }
}
