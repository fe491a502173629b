//! Strict parsing: ambiguous requests are refused, and every error has the same format.

mod address;
mod host;
mod json;
mod parser;

use std::fmt::Write as _;

use super::http::Answer;
use super::rig::Server;

/// The bytes of a request with these header lines.
fn wire(line: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let mut request = format!("{line} HTTP/1.1\r\n");
    for header in headers {
        request += header;
        request += "\r\n";
    }
    if !body.is_empty() {
        let _ = write!(request, "content-length: {}\r\n", body.len());
    }
    format!("{request}\r\n{body}").into_bytes()
}

/// Sends bytes over a new connection.
fn call(server: &Server, bytes: &[u8]) -> Answer {
    let mut connection = server.connect();
    // The server may close the connection before it has read everything.
    connection.try_write(bytes).ok();
    connection.try_answer().unwrap_or_else(|error| panic!("{error}: {}", shown(bytes)))
}

/// Asserts that the request is refused with this status and code, in the format of every error; returns the message.
#[track_caller]
fn refused(server: &Server, bytes: &[u8], status: u16, code: &str) -> String {
    let (answer, shown) = (call(server, bytes), shown(bytes));
    assert_eq!(answer.status, status, "{shown}: {} {}", answer.head, String::from_utf8_lossy(&answer.body));
    let message = answer.refused(status, code);
    assert!(!message.is_empty(), "{shown}");
    let names: Vec<_> = answer.json().as_object().expect("an object").keys().cloned().collect();
    assert_eq!(names, ["code", "corr_id", "message"], "{shown}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{shown}: {}", answer.head);
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{shown}: {}", answer.head);
    assert!(answer.text().ends_with("}\n"), "{shown}: {}", answer.text());
    message
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}
