//! Heads and shapes of answers.

use crate::rig::{ask_raw, start, start_with};

const UUID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

/// The value of a header.
fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = answer.lines().take_while(|line| !line.is_empty());
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Holds: MBX-P-8.
#[tokio::test]
async fn every_answer_has_a_correlation_id_the_senders_if_it_has_one() {
    let server = start().await;
    for path in ["/healthz", "/nowhere", "/metrics"] {
        let answer = ask_raw(&server, &get(path, &format!("x-corr-id: {UUID}\r\n"))).await;
        assert_eq!(header(&answer, "x-corr-id"), Some(UUID), "{path}");
        let answer = ask_raw(&server, &get(path, "")).await;
        assert_eq!(header(&answer, "x-corr-id").map(str::len), Some(UUID.len()), "{path}: {answer}");
    }
    let answer = ask_raw(&server, &get("/healthz", "x-corr-id: mine\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("X-Corr-Id is not a UUID"), "{answer}");
    assert_ne!(header(&answer, "x-corr-id"), Some("mine"));
}

/// The body of a refusal names the request, and has the shape that was asked for.
/// Holds: MBX-C-10.
#[tokio::test]
async fn a_refusal_has_the_shape_that_was_asked_for() {
    let server = start().await;
    let headers = format!("x-corr-id: {UUID}\r\n");
    let answer = ask_raw(&server, &get("/nowhere", &headers)).await;
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains(r#""code":"E_NOT_FOUND""#), "{answer}");
    assert!(answer.contains(&format!(r#""corr_id":"{UUID}""#)), "{answer}");
    assert_eq!(header(&answer, "content-type"), Some("application/json"));
    let headers = "accept: application/problem+json\r\n";
    let answer = ask_raw(&server, &get("/nowhere", headers)).await;
    assert_eq!(header(&answer, "content-type"), Some("application/problem+json"));
    assert!(answer.contains(r#""status":404"#) && answer.contains(r#""title":"E_NOT_FOUND""#), "{answer}");
}

/// Holds: MBX-I-9.
#[tokio::test]
async fn connections_are_kept_but_with_amnesia() {
    for (set, closes) in [(&[][..], None), (&[("amnesia", "true")][..], Some("close"))] {
        let server = start_with(set).await;
        // Of two requests at once the second is answered too, unless the first answer closes.
        let first = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let answers = ask_raw(&server, &format!("{first}{}", get("/healthz", ""))).await;
        assert_eq!(header(&answers, "connection"), closes, "{answers}");
        let count = answers.matches("HTTP/1.1 200 ").count();
        assert_eq!(count, if closes.is_some() { 1 } else { 2 }, "{answers}");
    }
}
