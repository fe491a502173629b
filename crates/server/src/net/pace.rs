//! A stream that gives up on who is too slow: with the next request, with the rest of a head that has begun, and with taking
//! what is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::alarm::Alarm;
use super::listener::Stream;

/// Whether a request is being answered, up to the last byte of its answer. Then it is not the head that is waited for.
#[derive(Clone, Default)]
pub(super) struct Busy(Arc<AtomicU64>);

impl Busy {
    /// A request begins to be answered, or has been.
    pub(super) fn turn(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Turns until now.
    fn turns(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// How long somebody may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Until the first byte of the next request.
    pub(super) idle: Duration,
    /// From there to the end of its head.
    pub(super) head: Duration,
    pub(super) write: Duration,
}

/// What is waited for while no request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Nothing yet.
    Nothing,
    Request {
        until: Instant,
    },
    Head {
        until: Instant,
    },
}

pub(super) struct Paced {
    stream: Box<dyn Stream>,
    limits: Limits,
    busy: Busy,
    /// Turns when `wait` was last right.
    turns: u64,
    wait: Wait,
    read: Alarm,
    /// Since when nobody takes what is written; none while somebody does.
    stuck: Option<Instant>,
    write: Alarm,
}

impl Paced {
    pub(super) fn new(stream: Box<dyn Stream>, limits: Limits, busy: Busy) -> Self {
        let turns = busy.turns();
        Self {
            stream,
            limits,
            busy,
            turns,
            wait: Wait::Nothing,
            read: Alarm::default(),
            stuck: None,
            write: Alarm::default(),
        }
    }

    /// Whether a request is being answered; what was waited for before is over then.
    fn is_busy(&mut self) -> bool {
        let turns = self.busy.turns();
        if turns != self.turns {
            (self.turns, self.wait) = (turns, Wait::Nothing);
        }
        turns % 2 == 1
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let since = *self.stuck.get_or_insert_with(Instant::now);
        ready!(self.write.poll_until(cx, since + self.limits.write));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if this.is_busy() {
            return polled;
        }
        let begun = matches!(this.wait, Wait::Head { .. });
        if polled.is_ready() {
            if !begun {
                this.wait = Wait::Head { until: Instant::now() + this.limits.head };
            }
            return polled;
        }
        if this.wait == Wait::Nothing {
            this.wait = Wait::Request { until: Instant::now() + this.limits.idle };
        }
        let (until, late) = match this.wait {
            Wait::Nothing => return Poll::Pending,
            Wait::Request { until } => (until, "no further request came in time"),
            Wait::Head { until } => (until, "the head of a request did not arrive in time"),
        };
        ready!(this.read.poll_until(cx, until));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late)))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.written(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::ErrorKind;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, advance, timeout};

    use super::{Busy, Limits, Paced};

    const LIMITS: Limits = Limits {
        idle: Duration::from_secs(60),
        head: Duration::from_secs(5),
        write: Duration::from_secs(10),
    };

    fn paced() -> (Paced, DuplexStream, Busy) {
        let (near, far) = duplex(16);
        let busy = Busy::default();
        (Paced::new(Box::new(near), LIMITS, busy.clone()), far, busy)
    }

    /// How many seconds it waits for a byte until it gives up.
    async fn gives_up_after(paced: &mut Paced) -> u64 {
        let start = Instant::now();
        assert_eq!(paced.read_u8().await.unwrap_err().kind(), ErrorKind::TimedOut);
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_is_waited_for_as_long_as_a_connection_may_idle() {
        let (mut paced, _far, _) = paced();
        assert_eq!(gives_up_after(&mut paced).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_has_its_own_limit_whenever_it_began() {
        let (mut paced, mut far, _) = paced();
        assert!(timeout(Duration::from_secs(59), paced.read_u8()).await.is_err(), "not yet");
        far.write_all(b"GE").await.unwrap();
        paced.read_u8().await.unwrap();
        advance(Duration::from_secs(3)).await;
        paced.read_u8().await.unwrap();
        assert_eq!(gives_up_after(&mut paced).await, 2, "the second byte gives it no more time");
    }

    #[tokio::test(start_paused = true)]
    async fn every_answer_begins_a_new_wait() {
        let (mut paced, mut far, busy) = paced();
        for _ in 0..3 {
            far.write_all(b"G").await.unwrap();
            paced.read_u8().await.unwrap();
            busy.turn();
            let long = timeout(Duration::from_secs(600), paced.read_u8()).await;
            assert!(long.is_err(), "while it is answered, the rest is somebody else's to limit");
            busy.turn();
            assert!(timeout(Duration::from_secs(40), paced.read_u8()).await.is_err(), "it may idle");
        }
        assert_eq!(gives_up_after(&mut paced).await, 20, "since the last answer");
        far.write_all(b"G").await.unwrap();
        paced.read_u8().await.unwrap();
        busy.turn();
        busy.turn();
        assert_eq!(gives_up_after(&mut paced).await, 60, "an answer that nobody saw being made is one too");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_take_an_answer_is_given_up_and_who_takes_it_slowly_is_not() {
        let (mut paced, mut far, _) = paced();
        for _ in 0..4 {
            paced.write_all(&[0; 16]).await.unwrap();
            assert!(timeout(Duration::from_secs(8), paced.write_u8(1)).await.is_err(), "it is full");
            far.read_exact(&mut [0; 16]).await.unwrap();
            // A write that nobody waits for any more may still have been under way.
            poll_fn(|cx| tokio::io::AsyncWrite::poll_flush(std::pin::Pin::new(&mut paced), cx))
                .await
                .unwrap();
        }
        paced.write_all(&[0; 16]).await.unwrap();
        let start = Instant::now();
        assert_eq!(paced.write_u8(1).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 10);
    }
}
