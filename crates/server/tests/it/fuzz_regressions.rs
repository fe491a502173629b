//! Regressions found by `cargo xtask api-fuzz`.

use crate::rig::{call, start};

/// A request without a topic must not break the metrics.
#[tokio::test]
async fn metrics_survive_a_send_without_a_topic() {
    let server = start().await;
    let wrong = r#"{"topic":"","idem_key":"k","payload_b64":""}"#;
    let response = call(&server, "POST", "/v1/send", wrong).await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    let batch = format!(r#"{{"messages":[{wrong}]}}"#);
    let response = call(&server, "POST", "/v1/queues/mailbox/send", &batch).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let response = call(&server, "GET", "/metrics", "").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

/// An invalid key is an error, whatever the lease.
#[tokio::test]
async fn a_blank_key_is_rejected_also_with_an_invalid_lease() {
    let server = start().await;
    for path in ["/v1/inbox/mark-processed", "/v1/inbox/release"] {
        let response = call(&server, "POST", path, r#"{"key":" ","leaseId":"none"}"#).await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{path}: {response}");
        let response = call(&server, "POST", path, r#"{"key":"k","leaseId":"none"}"#).await;
        assert!(response.ends_with("{\"status\":\"LeaseLost\"}\n"), "{path}: {response}");
    }
}

/// RFC 9110: a 405 response lists the allowed methods.
#[tokio::test]
async fn a_405_response_lists_the_allowed_methods() {
    let server = start().await;
    for (path, allowed) in [
        ("/healthz", "GET,HEAD"),
        ("/v1/send", "POST"),
        ("/v1/inbox/release", "POST,GET,HEAD"),
        ("/v1/ack/x", "POST"),
    ] {
        let response = call(&server, "DELETE", path, "").await;
        assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
        assert!(response.contains(&format!("\r\nallow: {allowed}\r\n")), "{response}");
    }
}

/// The OpenAPI document allows a nack with an empty or `null` body.
#[tokio::test]
async fn a_nack_needs_no_body() {
    let server = start().await;
    for body in ["", "null", "{}"] {
        let path = "/v1/nack/01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let response = call(&server, "POST", path, body).await;
        assert!(
            response.starts_with("HTTP/1.1 404 ") && response.contains("E_LEASE_LOST"),
            "{body}: {response}"
        );
    }
}
