//! A stream that replaces the responses that the HTTP parser writes by itself with responses in our error format.
//!
//! A malformed head never becomes a request: the parser writes a response without a body and ends the connection. Such
//! a response is recognized by its time: it is written while no request is in progress.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// After a rejection, the rest of what the client sends is read for at most this long and up to this size: a client
/// that is cut off while it writes would not see the response.
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1024 * 1024;
/// Size of the buffer that discarded bytes are read into.
const LINGER_CHUNK_BYTES: usize = 4 * 1024;

/// Counts the requests of one connection.
#[derive(Clone, Default)]
pub(super) struct RequestCounter(Arc<Counts>);

#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Guard of a request in progress: from when it is parsed until the last chunk of its response is passed on for
/// writing.
pub(super) struct InProgress(Arc<Counts>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl RequestCounter {
    /// Marks the beginning of a request.
    pub(super) fn begin(&self) -> InProgress {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        InProgress(self.0.clone())
    }

    /// The number of completed requests, or `None` while one is in progress.
    fn ended(&self) -> Option<u64> {
        let (begun, ended) = (self.0.begun.load(Ordering::Acquire), self.0.ended.load(Ordering::Acquire));
        (begun == ended).then_some(ended)
    }
}

/// The stream that responses are written to. `rewrite` returns the replacement of a response of the parser, or `None`
/// to leave it unchanged.
pub(super) struct ParseErrorRewriter<S, F> {
    stream: S,
    requests: RequestCounter,
    rewrite: F,
    /// Number of requests whose responses are written completely.
    responses_written: u64,
    replacement: Option<Replacement>,
}

/// The replacement response, while it is written and until the connection is closed.
struct Replacement {
    rest: Vec<u8>,
    written: usize,
    /// Started when our side of the connection is closed.
    linger_timer: Option<Pin<Box<Sleep>>>,
    lingered_bytes: usize,
}

impl<S, F> ParseErrorRewriter<S, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
{
    pub(super) fn new(stream: S, requests: RequestCounter, rewrite: F) -> Self {
        Self { stream, requests, rewrite, responses_written: 0, replacement: None }
    }

    /// Whether these bytes are a response of the parser; if so, its replacement is written instead.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        if self.replacement.is_some() || self.requests.ended() != Some(self.responses_written) {
            return false;
        }
        let Some(rest) = (self.rewrite)(bytes) else { return false };
        self.replacement = Some(Replacement { rest, written: 0, linger_timer: None, lingered_bytes: 0 });
        true
    }

    /// Writes the replacement, if there is one.
    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(replacement) = &mut self.replacement else { return Poll::Ready(Ok(())) };
        while replacement.written < replacement.rest.len() {
            let written =
                ready!(Pin::new(&mut self.stream).poll_write(cx, &replacement.rest[replacement.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            replacement.written += written;
        }
        Poll::Ready(Ok(()))
    }

    /// After the replacement, reads and discards what the client still sends: closing a connection with unread data
    /// resets it, and the response might be lost.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(replacement) = &mut self.replacement else { return Poll::Ready(()) };
        let linger_timer = replacement.linger_timer.get_or_insert_with(|| Box::pin(sleep(LINGER_TIME_MAX)));
        let mut chunk = [0; LINGER_CHUNK_BYTES];
        while replacement.lingered_bytes < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut chunk);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    replacement.lingered_bytes += buffer.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return linger_timer.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }
}

impl<S, F> AsyncRead for ParseErrorRewriter<S, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S, F> AsyncWrite for ParseErrorRewriter<S, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_replacement(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A response of the parser has no body, so it is a single slice.
        if let [head] = slices
            && self.replaces(head)
        {
            return Poll::Ready(Ok(head.len()));
        }
        ready!(self.poll_replacement(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_replacement(cx))?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // A flush is complete only if everything passed on for writing is written.
        if let Some(ended) = self.requests.ended() {
            self.responses_written = ended;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_replacement(cx))?;
        if self.replacement.as_ref().is_none_or(|replacement| replacement.linger_timer.is_none()) {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        }
        self.poll_linger(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Write as _;
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response, body::Incoming};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::{LINGER_BYTES_MAX, ParseErrorRewriter, RequestCounter};

    const REPLACEMENT: &str = "HTTP/1.1 400 Replacement\r\ncontent-length: 0\r\n\r\n";
    /// Identical to a response of the parser.
    const PAYLOAD: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    /// Longer than any step of these tests takes.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Runs the real parser over a stream with a small buffer; every request is answered with a payload.
    fn served(buffer: usize, copies: usize) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (server_side, client_side) = duplex(buffer);
        let requests = RequestCounter::default();
        let replacement = |parser_response: &[u8]| {
            let parser_response = std::str::from_utf8(parser_response).unwrap();
            assert!(
                parser_response.starts_with("HTTP/1.1 4") && parser_response.ends_with("\r\n\r\n"),
                "{parser_response}"
            );
            Some(REPLACEMENT.as_bytes().to_vec())
        };
        let io = TokioIo::new(ParseErrorRewriter::new(server_side, requests.clone(), replacement));
        let served = tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let in_progress = requests.begin();
                async move {
                    request.into_body().collect().await.ok();
                    let body = Full::new(Bytes::from(PAYLOAD.repeat(copies)));
                    let body = body.map_frame(move |frame| {
                        let _ = &in_progress;
                        frame
                    });
                    Ok::<_, Infallible>(Response::new(body))
                }
            });
            let mut http = http1::Builder::new();
            http.half_close(true).max_buf_size(8 * 1024);
            http.serve_connection(io, service).await.ok();
        });
        (client_side, served)
    }

    /// Returns all responses to these bytes.
    async fn responses(buffer: usize, copies: usize, request: &[u8]) -> String {
        let (mut client_side, served) = served(buffer, copies);
        let exchange = async {
            let (mut read, mut write) = tokio::io::split(&mut client_side);
            let mut responses = String::new();
            let written = async {
                write.write_all(request).await.unwrap();
                write.shutdown().await.unwrap();
            };
            tokio::join!(written, async { read.read_to_string(&mut responses).await.unwrap() });
            responses
        };
        let responses = timeout(TIMEOUT, exchange).await.expect("the connection is closed");
        timeout(TIMEOUT, served).await.expect("the server task ends").unwrap();
        responses
    }

    const GOOD: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

    /// Heads that the parser rejects by itself.
    fn malformed_heads() -> Vec<Vec<u8>> {
        let mut large = b"GET / HTTP/1.1\r\n".to_vec();
        for number in 0..200 {
            write!(large, "x-{number}: {}\r\n", "x".repeat(100)).unwrap();
        }
        let mut many = b"GET / HTTP/1.1\r\n".to_vec();
        for number in 0..101 {
            write!(many, "x-{number}: x\r\n").unwrap();
        }
        many.extend(b"\r\n");
        let lines = ["G@T / HTTP/1.1", "GET /\x01 HTTP/1.1", "GET / HTTP/1.2", "GET /", "nonsense"];
        let headers = ["x y: z", "content-length: x", "content-length: -1", "transfer-encoding: gzip", ": x"];
        let lines = lines.map(|line| format!("{line}\r\nhost: localhost\r\n\r\n").into_bytes());
        let headers = headers.map(|line| format!("POST / HTTP/1.1\r\n{line}\r\n\r\n").into_bytes());
        [vec![large, many], lines.to_vec(), headers.to_vec()].concat()
    }

    #[tokio::test]
    async fn responses_to_malformed_heads_are_replaced() {
        for head in malformed_heads() {
            for buffer in [1, 16, 64 * 1024] {
                let shown = String::from_utf8_lossy(&head[..head.len().min(60)]).into_owned();
                assert_eq!(responses(buffer, 1, &head).await, REPLACEMENT, "{shown}");
            }
        }
    }

    #[tokio::test]
    async fn responses_to_malformed_heads_are_replaced_after_other_requests() {
        let wrong = b"nonsense\r\n\r\n";
        for (buffer, copies) in [(1, 0), (1, 1), (100, 3), (64 * 1024, 2)] {
            let request = [GOOD.as_bytes(), GOOD.as_bytes(), wrong].concat();
            let responses = responses(buffer, copies, &request).await;
            assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 2, "{responses}");
            assert!(responses.ends_with(REPLACEMENT), "{responses}");
            assert_eq!(responses.matches(PAYLOAD).count(), 2 * copies, "{responses}");
        }
    }

    /// However the writes are split: a payload begins like a response of the parser, repeatedly.
    #[tokio::test]
    async fn responses_to_requests_are_not_replaced() {
        for buffer in [1, 7, PAYLOAD.len(), 1_000, 64 * 1024] {
            for copies in [0, 1, 500] {
                let twice = GOOD.repeat(2);
                let responses = responses(buffer, copies, twice.as_bytes()).await;
                assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 2);
                assert_eq!(responses.matches(PAYLOAD).count(), 2 * copies);
                assert!(!responses.contains("Replacement"));
            }
        }
        let expect =
            "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx";
        let responses = responses(64, 1, expect.as_bytes()).await;
        assert!(responses.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{responses}");
    }

    /// What the client still sends is read so that the response is not lost, within limits of time and size.
    #[tokio::test(start_paused = true)]
    async fn the_rest_of_what_a_rejected_client_sends_is_read() {
        let (mut client_side, served) = served(64 * 1024, 1);
        client_side.write_all(b"nonsense\r\n\r\n").await.unwrap();
        let mut response = vec![0; REPLACEMENT.len()];
        client_side.read_exact(&mut response).await.unwrap();
        assert_eq!(response, REPLACEMENT.as_bytes());
        let start = Instant::now();
        client_side.write_all(&vec![b'x'; 256 * 1024]).await.unwrap();
        served.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 2, "the connection is closed after the linger time");

        let (mut client_side, served) = self::served(64 * 1024, 1);
        client_side.write_all(b"nonsense\r\n\r\n").await.unwrap();
        let start = Instant::now();
        let endless = client_side.write_all(&vec![b'x'; 3 * LINGER_BYTES_MAX]).await;
        assert!(endless.is_err(), "the connection is closed after the linger limit");
        served.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 0);
    }
}
