//! Limits: values up to the limit are accepted, one byte or item more is rejected.

use std::fmt::Write as _;

use crate::rig::{call, send_raw, start_with};

const LIMIT: usize = 8 * 1024;

/// The smallest limits that are valid together.
const SMALL: [(&str, &str); 5] = [
    ("mailbox.topic.payload_bytes_max", "1KiB"),
    ("mailbox.bytes_default", "1KiB"),
    ("http.body_bytes_max", "8KiB"),
    ("http.batch_bytes_max", "8KiB"),
    ("http.batch_items_max", "3"),
];

/// Transfer of a request body.
#[derive(Debug, Clone, Copy)]
enum Transfer {
    ContentLength,
    OneChunk,
    /// Chunks of this many bytes.
    Chunks(usize),
}

/// Builds a request whose body is padded with spaces to this many bytes.
fn request(path: &str, json: &str, bytes: usize, transfer: Transfer) -> String {
    let body = format!("{json}{}", " ".repeat(bytes - json.len()));
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
    );
    let chunk = match transfer {
        Transfer::ContentLength => {
            let _ = write!(request, "content-length: {bytes}\r\n\r\n{body}");
            return request;
        }
        Transfer::OneChunk => bytes,
        Transfer::Chunks(chunk) => chunk,
    };
    request.push_str("transfer-encoding: chunked\r\n\r\n");
    for data in body.as_bytes().chunks(chunk) {
        let _ = write!(request, "{:x}\r\n{}\r\n", data.len(), String::from_utf8_lossy(data));
    }
    request.push_str("0\r\n\r\n");
    request
}

/// Holds: MBX-G-4, RULE-19.
#[tokio::test]
async fn a_body_up_to_the_limit_is_accepted_and_a_larger_one_rejected() {
    let server = start_with(&SMALL).await;
    let message = r#"{"topic":"limits","idem_key":"k","payload_b64":"eA=="}"#;
    let batch = format!(r#"{{"messages":[{message}]}}"#);
    for transfer in
        [Transfer::ContentLength, Transfer::OneChunk, Transfer::Chunks(1_000), Transfer::Chunks(LIMIT)]
    {
        for (path, json) in [("/v1/send", message), ("/v1/queues/mailbox/send", batch.as_str())] {
            let response = send_raw(&server, &request(path, json, LIMIT, transfer)).await;
            assert!(response.starts_with("HTTP/1.1 200 "), "{path} {transfer:?}: {response}");
            let response = send_raw(&server, &request(path, json, LIMIT + 1, transfer)).await;
            assert!(response.starts_with("HTTP/1.1 413 "), "{path} {transfer:?}: {response}");
            assert!(response.contains("E_FRAME_TOO_LARGE") && response.contains("8192 bytes"), "{response}");
        }
    }
}

/// Holds: MBX-G-4.
#[tokio::test]
async fn a_batch_up_to_the_limit_is_accepted_and_a_larger_one_rejected() {
    let server = start_with(&SMALL).await;
    let items = |count: usize| {
        let item = |key| format!(r#"{{"topic":"items","idem_key":"{key}","payload_b64":"eA=="}}"#);
        format!(r#"{{"messages":[{}]}}"#, (0..count).map(item).collect::<Vec<_>>().join(","))
    };
    let response = call(&server, "POST", "/v1/queues/mailbox/send", &items(3)).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let response = call(&server, "POST", "/v1/queues/mailbox/send", &items(4)).await;
    assert!(response.starts_with("HTTP/1.1 400 ") && response.contains("more than 3 messages"), "{response}");
}

/// Holds: MBX-I-6, RULE-19.
#[tokio::test]
async fn a_payload_up_to_the_limit_is_accepted_and_a_larger_one_rejected() {
    let server = start_with(&SMALL).await;
    let send = |key: &str, bytes: usize| {
        let head = format!(
            "POST /v1/send HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/octet-stream\r\n\
             x-topic: payloads\r\nx-idem-key: {key}\r\ncontent-length: {bytes}\r\n\r\n"
        );
        head + &"x".repeat(bytes)
    };
    let response = send_raw(&server, &send("fits", 1_024)).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let response = send_raw(&server, &send("too large", 1_025)).await;
    assert!(response.starts_with("HTTP/1.1 413 ") && response.contains("E_FRAME_TOO_LARGE"), "{response}");
}
