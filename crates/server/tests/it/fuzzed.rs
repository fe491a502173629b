//! What `cargo xtask api-fuzz` has found.

use crate::rig::{ask, start};

/// A request that names no topic must not spoil the metrics of the others.
#[tokio::test]
async fn metrics_survive_a_send_without_a_topic() {
    let server = start().await;
    let wrong = r#"{"topic":"","idem_key":"k","payload_b64":""}"#;
    let answer = ask(&server, "POST", "/v1/send", wrong).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let batch = format!(r#"{{"messages":[{wrong}]}}"#);
    let answer = ask(&server, "POST", "/v1/send/batch", &batch).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask(&server, "GET", "/metrics", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// A wrong key is a mistake, whatever the lease.
#[tokio::test]
async fn a_blank_key_is_refused_also_with_a_lease_that_is_none() {
    let server = start().await;
    for path in ["/v1/inbox/mark-processed", "/v1/inbox/release"] {
        let answer = ask(&server, "POST", path, r#"{"key":" ","leaseId":"none"}"#).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
        let answer = ask(&server, "POST", path, r#"{"key":"k","leaseId":"none"}"#).await;
        assert!(answer.ends_with("{\"status\":\"LeaseLost\"}\n"), "{path}: {answer}");
    }
}

/// RFC 9110: who asks by a wrong method is told the right ones.
#[tokio::test]
async fn a_wrong_method_is_answered_with_the_right_ones() {
    let server = start().await;
    for (path, allowed) in [("/healthz", "GET,HEAD"), ("/v1/send", "POST")] {
        let answer = ask(&server, "DELETE", path, "").await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains(&format!("\r\nallow: {allowed}\r\n")), "{answer}");
    }
}

/// The document says that the reason of a nack may be left out as a whole, in either way.
#[tokio::test]
async fn a_nack_needs_no_body() {
    let server = start().await;
    for body in ["", "null", "{}"] {
        let path = "/v1/nack/01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let answer = ask(&server, "POST", path, body).await;
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("E_LEASE_LOST"), "{body}: {answer}");
    }
}
