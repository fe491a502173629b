//! Headers and error formats of responses.

use crate::rig::{send_raw, start, start_with};

const UUID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

/// Returns the value of a header.
fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = response.lines().take_while(|line| !line.is_empty());
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Holds: MBX-P-8.
#[tokio::test]
async fn every_response_has_a_correlation_id_that_of_the_request_if_given() {
    let server = start().await;
    for path in ["/healthz", "/nowhere", "/metrics"] {
        let response = send_raw(&server, &get(path, &format!("x-corr-id: {UUID}\r\n"))).await;
        assert_eq!(header(&response, "x-corr-id"), Some(UUID), "{path}");
        let response = send_raw(&server, &get(path, "")).await;
        assert_eq!(header(&response, "x-corr-id").map(str::len), Some(UUID.len()), "{path}: {response}");
    }
    let response = send_raw(&server, &get("/healthz", "x-corr-id: mine\r\n")).await;
    assert!(
        response.starts_with("HTTP/1.1 400 ") && response.contains("X-Corr-Id is not a UUID"),
        "{response}"
    );
    assert_ne!(header(&response, "x-corr-id"), Some("mine"));
}

/// The body of an error contains the correlation id and has the requested format.
/// Holds: MBX-C-10.
#[tokio::test]
async fn an_error_has_the_requested_format() {
    let server = start().await;
    let headers = format!("x-corr-id: {UUID}\r\n");
    let response = send_raw(&server, &get("/nowhere", &headers)).await;
    assert!(
        response.starts_with("HTTP/1.1 404 ") && response.contains(r#""code":"E_NOT_FOUND""#),
        "{response}"
    );
    assert!(response.contains(&format!(r#""corr_id":"{UUID}""#)), "{response}");
    assert_eq!(header(&response, "content-type"), Some("application/json"));
    let headers = "accept: application/problem+json\r\n";
    let response = send_raw(&server, &get("/nowhere", headers)).await;
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    assert!(
        response.contains(r#""status":404"#) && response.contains(r#""title":"E_NOT_FOUND""#),
        "{response}"
    );
}

/// Holds: MBX-I-9.
#[tokio::test]
async fn connections_stay_open_unless_amnesia_is_on() {
    for (set, closes) in [(&[][..], None), (&[("amnesia", "true")][..], Some("close"))] {
        let server = start_with(set).await;
        // Of two pipelined requests, the second is answered too, unless the first response closes the connection.
        let first = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let responses = send_raw(&server, &format!("{first}{}", get("/healthz", ""))).await;
        assert_eq!(header(&responses, "connection"), closes, "{responses}");
        let count = responses.matches("HTTP/1.1 200 ").count();
        assert_eq!(count, if closes.is_some() { 1 } else { 2 }, "{responses}");
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = start().await;
    let response = send_raw(&server, &get("/healthz", "")).await;
    let head = send_raw(&server, &get("/healthz", "").replacen("GET", "HEAD", 1)).await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    for name in ["content-length", "content-type"] {
        assert_eq!(header(&head, name), header(&response, name), "{head}");
    }
}
