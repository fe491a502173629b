//! Answers to requests whose head cannot be read. The parser answers these by itself, with a head and no body; here that becomes
//! a refusal like any other.

use std::fmt::Write as _;

use axum::http::StatusCode;
use oncebox_wire::{Code, header};

use super::refusal::{Refusal, Shape};

/// Our answer in place of the parser's, and what it says; none if that is no answer to a wrong request.
pub(super) fn answer(parsers: &[u8], corr_id: &str) -> Option<(Refusal, Vec<u8>)> {
    let head = std::str::from_utf8(parsers).ok()?.strip_suffix("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let refusal = refusal(StatusCode::from_u16(status).ok().filter(StatusCode::is_client_error)?);
    // What was asked to be accepted is not known: it stands in what could not be read.
    let (body, content_type) = refusal.body(corr_id, Shape::Plain);
    let mut answer = String::new();
    // The status, the date and that the connection is closed stay as they are.
    for line in head.split("\r\n").filter(|line| !is_length(line)) {
        answer += line;
        answer += "\r\n";
    }
    let _ = write!(
        answer,
        "content-type: {content_type}\r\nx-content-type-options: nosniff\r\n{}: {corr_id}\r\ncontent-length: {}\r\n\r\n",
        header::CORR_ID,
        body.len()
    );
    Some((refusal, [answer.as_bytes(), &body].concat()))
}

fn is_length(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("content-length"))
}

fn refusal(status: StatusCode) -> Refusal {
    let (code, text) = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            Code::FrameTooLarge,
            "the head of the request is larger than 64 KiB, or has more than 100 headers: send fewer and shorter ones",
        ),
        StatusCode::URI_TOO_LONG => {
            (Code::FrameTooLarge, "the address is longer than 64 KiB: send what is long in the body")
        }
        _ => (
            Code::Schema,
            "the head of the request is not HTTP/1.1: check the request line, the names and values of the headers, `content-length` and `transfer-encoding`",
        ),
    };
    Refusal::new(code, text).with_status(status)
}

#[cfg(test)]
mod tests {
    use oncebox_wire::ErrorBody;

    use super::answer;

    const CORR_ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    /// Holds: MBX-C-10, MBX-P-8.
    #[test]
    fn the_parsers_answer_becomes_a_refusal() {
        for (status, code) in [
            ("400 Bad Request", "E_SCHEMA"),
            ("414 URI Too Long", "E_FRAME_TOO_LARGE"),
            ("431 Request Header Fields Too Large", "E_FRAME_TOO_LARGE"),
        ] {
            let parsers = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
            );
            let (refusal, ours) = answer(parsers.as_bytes(), CORR_ID).unwrap();
            assert_eq!(refusal.code.as_str(), code);
            let ours = String::from_utf8(ours).unwrap();
            let (head, body) = ours.split_once("\r\n\r\n").unwrap();
            let mut lines: Vec<_> = head.split("\r\n").collect();
            assert_eq!(lines.remove(0), format!("HTTP/1.1 {status}"));
            lines.sort_unstable();
            let length = format!("content-length: {}", body.len());
            let corr_id = format!("x-corr-id: {CORR_ID}");
            assert_eq!(
                lines,
                [
                    "connection: close",
                    &length,
                    "content-type: application/json",
                    "date: Thu, 01 Jan 1970 00:00:00 GMT",
                    "x-content-type-options: nosniff",
                    &corr_id,
                ]
            );
            let said: ErrorBody = serde_json::from_str(body).unwrap();
            assert_eq!((said.code.as_str(), said.corr_id.as_str()), (code, CORR_ID));
            assert!(body.ends_with("}\n") && !said.message.is_empty(), "{body}");
        }
    }

    #[test]
    fn what_is_no_such_answer_stays() {
        for other in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-le",
            "HTTP/1.1\r\n\r\n",
            "400\r\n\r\n",
        ] {
            assert!(answer(other.as_bytes(), CORR_ID).is_none(), "{other}");
        }
        assert!(answer(b"HTTP/1.1 400 \xFF\r\n\r\n", CORR_ID).is_none());
    }
}
