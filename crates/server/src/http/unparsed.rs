//! Responses to requests with a malformed head. The HTTP parser answers these by itself, without a body; its response
//! is turned into one in our error format.

use std::fmt::Write as _;

use hyper::StatusCode;
use oncebox_wire::{ErrorCode, header};

use super::api_error::{ApiError, ErrorFormat};

/// Returns the error and the full response that replaces that of the parser; `None` if the parser did not report a
/// client error.
pub(super) fn response(parser_response: &[u8], corr_id: &str) -> Option<(ApiError, Vec<u8>)> {
    let head = std::str::from_utf8(parser_response).ok()?.strip_suffix("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let error = api_error(StatusCode::from_u16(status).ok().filter(StatusCode::is_client_error)?);
    // The `Accept` header is unknown: it is part of the malformed head.
    let (body, content_type) = error.body(corr_id, ErrorFormat::Plain);
    let mut response = String::new();
    // The status line, `date` and `connection` are kept.
    for line in head.split("\r\n").filter(|line| !is_length(line)) {
        response += line;
        response += "\r\n";
    }
    let _ = write!(
        response,
        "content-type: {content_type}\r\nx-content-type-options: nosniff\r\n{}: {corr_id}\r\ncontent-length: {}\r\n\r\n",
        header::CORR_ID,
        body.len()
    );
    Some((error, [response.as_bytes(), &body].concat()))
}

fn is_length(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("content-length"))
}

fn api_error(status: StatusCode) -> ApiError {
    let (code, text) = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            ErrorCode::FrameTooLarge,
            "the request head is larger than 64 KiB or has more than 100 headers: send fewer or shorter headers",
        ),
        StatusCode::URI_TOO_LONG => {
            (ErrorCode::FrameTooLarge, "the URL is longer than 64 KiB: send long values in the body")
        }
        _ => (
            ErrorCode::Schema,
            "the request head is not valid HTTP/1.1: check the request line, the names and values of the headers, `content-length` and `transfer-encoding`",
        ),
    };
    ApiError::new(code, text).with_status(status)
}

#[cfg(test)]
mod tests {
    use oncebox_wire::ErrorBody;

    use super::response;

    const CORR_ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    /// Holds: MBX-C-10, MBX-P-8.
    #[test]
    fn the_response_of_the_parser_becomes_an_api_error() {
        for (status, code) in [
            ("400 Bad Request", "E_SCHEMA"),
            ("414 URI Too Long", "E_FRAME_TOO_LARGE"),
            ("431 Request Header Fields Too Large", "E_FRAME_TOO_LARGE"),
        ] {
            let parser_response = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n"
            );
            let (error, response) = response(parser_response.as_bytes(), CORR_ID).unwrap();
            assert_eq!(error.code.as_str(), code);
            let response = String::from_utf8(response).unwrap();
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
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
            let parsed: ErrorBody = serde_json::from_str(body).unwrap();
            assert_eq!((parsed.code.as_str(), parsed.corr_id.as_str()), (code, CORR_ID));
            assert!(body.ends_with("}\n") && !parsed.message.is_empty(), "{body}");
        }
    }

    #[test]
    fn other_responses_are_not_replaced() {
        for other in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-le",
            "HTTP/1.1\r\n\r\n",
            "400\r\n\r\n",
        ] {
            assert!(response(other.as_bytes(), CORR_ID).is_none(), "{other}");
        }
        assert!(response(b"HTTP/1.1 400 \xFF\r\n\r\n", CORR_ID).is_none());
    }
}
