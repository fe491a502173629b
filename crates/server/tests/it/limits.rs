//! Limits: exactly so much is taken, and a byte or an item more is refused.

use std::fmt::Write as _;

use crate::rig::{ask, ask_raw, start_with};

const LIMIT: usize = 8 * 1024;

/// The smallest limits that go together.
const SMALL: [(&str, &str); 5] = [
    ("mailbox.topic.payload_bytes_max", "1KiB"),
    ("mailbox.bytes_default", "1KiB"),
    ("http.body_bytes_max", "8KiB"),
    ("http.batch_bytes_max", "8KiB"),
    ("http.batch_items_max", "3"),
];

/// How a body comes.
#[derive(Debug, Clone, Copy)]
enum Way {
    Announced,
    InOneChunk,
    /// Each of so many bytes.
    InChunks(usize),
}

/// A request whose body has exactly so many bytes, padded with blanks.
fn request(path: &str, json: &str, bytes: usize, way: Way) -> String {
    let body = format!("{json}{}", " ".repeat(bytes - json.len()));
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
    );
    let chunk = match way {
        Way::Announced => {
            let _ = write!(request, "content-length: {bytes}\r\n\r\n{body}");
            return request;
        }
        Way::InOneChunk => bytes,
        Way::InChunks(chunk) => chunk,
    };
    request.push_str("transfer-encoding: chunked\r\n\r\n");
    for piece in body.as_bytes().chunks(chunk) {
        let _ = write!(request, "{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece));
    }
    request.push_str("0\r\n\r\n");
    request
}

/// Holds: MBX-G-4, RULE-19.
#[tokio::test]
async fn a_body_of_exactly_the_limit_is_taken_and_a_byte_more_is_not() {
    let server = start_with(&SMALL).await;
    let message = r#"{"topic":"limits","idem_key":"k","payload_b64":"eA=="}"#;
    let batch = format!(r#"{{"messages":[{message}]}}"#);
    for way in [Way::Announced, Way::InOneChunk, Way::InChunks(1_000), Way::InChunks(LIMIT)] {
        for (path, json) in [("/v1/send", message), ("/v1/send/batch", batch.as_str())] {
            let answer = ask_raw(&server, &request(path, json, LIMIT, way)).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{path} {way:?}: {answer}");
            let answer = ask_raw(&server, &request(path, json, LIMIT + 1, way)).await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{path} {way:?}: {answer}");
            assert!(answer.contains("E_FRAME_TOO_LARGE") && answer.contains("8192 bytes"), "{answer}");
        }
    }
}

/// Holds: MBX-G-4.
#[tokio::test]
async fn a_batch_of_exactly_the_limit_is_taken_and_one_more_is_not() {
    let server = start_with(&SMALL).await;
    let items = |count: usize| {
        let item = |key| format!(r#"{{"topic":"items","idem_key":"{key}","payload_b64":"eA=="}}"#);
        format!(r#"{{"messages":[{}]}}"#, (0..count).map(item).collect::<Vec<_>>().join(","))
    };
    let answer = ask(&server, "POST", "/v1/send/batch", &items(3)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask(&server, "POST", "/v1/send/batch", &items(4)).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("more than 3 messages"), "{answer}");
}

/// Holds: MBX-I-6, RULE-19.
#[tokio::test]
async fn a_payload_of_exactly_the_limit_is_taken_and_a_byte_more_is_not() {
    let server = start_with(&SMALL).await;
    let send = |key: &str, bytes: usize| {
        let head = format!(
            "POST /v1/send HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/octet-stream\r\n\
             x-topic: payloads\r\nx-idem-key: {key}\r\ncontent-length: {bytes}\r\n\r\n"
        );
        head + &"x".repeat(bytes)
    };
    let answer = ask_raw(&server, &send("fits", 1_024)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = ask_raw(&server, &send("too large", 1_025)).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("E_FRAME_TOO_LARGE"), "{answer}");
}
