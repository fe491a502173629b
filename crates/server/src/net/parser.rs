//! A stream that brings what the HTTP parser answers by itself into the shape of all other answers.
//!
//! A head that cannot be read never becomes a request: the parser writes an answer without a body, and ends. It can be told from
//! all others by when it is written, which is while no request is under way.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What a refused client still sends is taken in for this long, and up to this size: one that is cut off while it writes would not
/// see why.
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1024 * 1024;
/// It is thrown away in pieces of this size.
const LINGER_PIECE: usize = 4 * 1024;

/// The requests of one connection.
#[derive(Clone, Default)]
pub(super) struct Requests(Arc<Counts>);

#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A request that is under way: from when it is read until the last piece of its answer is given to be written.
pub(super) struct UnderWay(Arc<Counts>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl Requests {
    /// A request was read.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.0.clone())
    }

    /// How many there were until now, unless one is under way.
    fn ended(&self) -> Option<u64> {
        let (begun, ended) = (self.0.begun.load(Ordering::Acquire), self.0.ended.load(Ordering::Acquire));
        (begun == ended).then_some(ended)
    }
}

/// Where answers go through. `answer` makes ours of the parser's, or leaves that as it is.
pub(super) struct Shaped<S, F> {
    stream: S,
    requests: Requests,
    answer: F,
    /// Requests whose answers are written as a whole.
    answered: u64,
    ours: Option<Ours>,
}

/// Our answer, while it is written and until the connection is closed.
struct Ours {
    rest: Vec<u8>,
    written: usize,
    /// From when the connection is closed on our side.
    lingering: Option<Pin<Box<Sleep>>>,
    lingered: usize,
}

impl<S, F> Shaped<S, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
{
    pub(super) fn new(stream: S, requests: Requests, answer: F) -> Self {
        Self { stream, requests, answer, answered: 0, ours: None }
    }

    /// Whether these bytes are the parser's own answer; then ours is written in its place.
    fn replaces(&mut self, bytes: &[u8]) -> bool {
        if self.ours.is_some() || self.requests.ended() != Some(self.answered) {
            return false;
        }
        let Some(rest) = (self.answer)(bytes) else { return false };
        self.ours = Some(Ours { rest, written: 0, lingering: None, lingered: 0 });
        true
    }

    /// Writes our answer, if there is one.
    fn poll_ours(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(ours) = &mut self.ours else { return Poll::Ready(Ok(())) };
        while ours.written < ours.rest.len() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &ours.rest[ours.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            ours.written += written;
        }
        Poll::Ready(Ok(()))
    }

    /// After our answer: takes in what still comes. What is left unread when a connection is closed resets it, and the answer
    /// might be lost on its way.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ours) = &mut self.ours else { return Poll::Ready(()) };
        let lingering = ours.lingering.get_or_insert_with(|| Box::pin(sleep(LINGER_TIME_MAX)));
        let mut piece = [0; LINGER_PIECE];
        while ours.lingered < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => ours.lingered += buffer.filled().len(),
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return lingering.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }
}

impl<S, F> AsyncRead for Shaped<S, F>
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

impl<S, F> AsyncWrite for Shaped<S, F>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Fn(&[u8]) -> Option<Vec<u8>> + Unpin,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_ours(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The parser's answer has no body: it is one piece.
        if let [head] = pieces
            && self.replaces(head)
        {
            return Poll::Ready(Ok(head.len()));
        }
        ready!(self.poll_ours(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ours(cx))?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        // Everything that was given to be written is written, or this would not be called.
        if let Some(ended) = self.requests.ended() {
            self.answered = ended;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ours(cx))?;
        if self.ours.as_ref().is_none_or(|ours| ours.lingering.is_none()) {
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

    use super::{LINGER_BYTES_MAX, Requests, Shaped};

    const OURS: &str = "HTTP/1.1 400 Ours\r\ncontent-length: 0\r\n\r\n";
    /// Looks like an answer of the parser.
    const PAYLOAD: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    /// Longer than anything takes here.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The real parser over a stream with a small buffer, which answers every request with a payload.
    fn served(buffer: usize, pieces: usize) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (near, far) = duplex(buffer);
        let requests = Requests::default();
        let ours = |parsers: &[u8]| {
            let parsers = std::str::from_utf8(parsers).unwrap();
            assert!(parsers.starts_with("HTTP/1.1 4") && parsers.ends_with("\r\n\r\n"), "{parsers}");
            Some(OURS.as_bytes().to_vec())
        };
        let io = TokioIo::new(Shaped::new(near, requests.clone(), ours));
        let served = tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let under_way = requests.begin();
                async move {
                    request.into_body().collect().await.ok();
                    let body = Full::new(Bytes::from(PAYLOAD.repeat(pieces)));
                    let body = body.map_frame(move |frame| {
                        let _ = &under_way;
                        frame
                    });
                    Ok::<_, Infallible>(Response::new(body))
                }
            });
            let mut http = http1::Builder::new();
            http.half_close(true).max_buf_size(8 * 1024);
            http.serve_connection(io, service).await.ok();
        });
        (far, served)
    }

    /// Everything that comes for these bytes.
    async fn answers(buffer: usize, pieces: usize, request: &[u8]) -> String {
        let (mut far, served) = served(buffer, pieces);
        let asked = async {
            let (mut read, mut write) = tokio::io::split(&mut far);
            let mut answers = String::new();
            let written = async {
                write.write_all(request).await.unwrap();
                write.shutdown().await.unwrap();
            };
            tokio::join!(written, async { read.read_to_string(&mut answers).await.unwrap() });
            answers
        };
        let answers = timeout(PATIENCE, asked).await.expect("it ends");
        timeout(PATIENCE, served).await.expect("the server ends").unwrap();
        answers
    }

    const GOOD: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

    /// Heads that the parser refuses by itself.
    fn wrong_heads() -> Vec<Vec<u8>> {
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
    async fn a_head_that_cannot_be_read_is_answered_by_us() {
        for head in wrong_heads() {
            for buffer in [1, 16, 64 * 1024] {
                let shown = String::from_utf8_lossy(&head[..head.len().min(60)]).into_owned();
                assert_eq!(answers(buffer, 1, &head).await, OURS, "{shown}");
            }
        }
    }

    #[tokio::test]
    async fn it_is_so_after_other_requests_on_the_connection() {
        let wrong = b"nonsense\r\n\r\n";
        for (buffer, pieces) in [(1, 0), (1, 1), (100, 3), (64 * 1024, 2)] {
            let request = [GOOD.as_bytes(), GOOD.as_bytes(), wrong].concat();
            let answers = answers(buffer, pieces, &request).await;
            assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
            assert!(answers.ends_with(OURS), "{answers}");
            assert_eq!(answers.matches(PAYLOAD).count(), 2 * pieces, "{answers}");
        }
    }

    /// However the writes are cut: a payload begins like an answer of the parser, again and again.
    #[tokio::test]
    async fn what_a_request_is_answered_with_stays_as_it_is() {
        for buffer in [1, 7, PAYLOAD.len(), 1_000, 64 * 1024] {
            for pieces in [0, 1, 500] {
                let twice = GOOD.repeat(2);
                let answers = answers(buffer, pieces, twice.as_bytes()).await;
                assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2);
                assert_eq!(answers.matches(PAYLOAD).count(), 2 * pieces);
                assert!(!answers.contains("Ours"));
            }
        }
        let expect =
            "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx";
        let answers = answers(64, 1, expect.as_bytes()).await;
        assert!(answers.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{answers}");
    }

    /// What still comes is taken in, so that the answer is not lost; not for ever, and not any amount.
    #[tokio::test(start_paused = true)]
    async fn the_rest_of_what_a_refused_client_sends_is_taken_in() {
        let (mut far, served) = served(64 * 1024, 1);
        far.write_all(b"nonsense\r\n\r\n").await.unwrap();
        let mut answer = vec![0; OURS.len()];
        far.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, OURS.as_bytes());
        let start = Instant::now();
        far.write_all(&vec![b'x'; 256 * 1024]).await.unwrap();
        served.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 2, "who does not leave is left");

        let (mut far, served) = self::served(64 * 1024, 1);
        far.write_all(b"nonsense\r\n\r\n").await.unwrap();
        let start = Instant::now();
        let endless = far.write_all(&vec![b'x'; 3 * LINGER_BYTES_MAX]).await;
        assert!(endless.is_err(), "who does not stop is stopped");
        served.await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 0);
    }
}
