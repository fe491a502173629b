//! A stream that gives up on who is too slow: with the rest of a head that has begun, and with taking what is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::listener::Stream;

/// Whether a request is being answered. Then it is not the head that is waited for.
#[derive(Clone, Default)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(super) fn set(&self, busy: bool) {
        self.0.store(busy, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// How long somebody may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) head: Duration,
    pub(super) write: Duration,
}

pub(super) struct Paced {
    stream: Box<dyn Stream>,
    limits: Limits,
    busy: Busy,
    /// Runs from the first byte of a head.
    head: Option<Pin<Box<Sleep>>>,
    /// Runs while nobody takes what is written.
    write: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(super) fn new(stream: Box<dyn Stream>, limits: Limits, busy: Busy) -> Self {
        Self { stream, limits, busy, head: None, write: None }
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.write = None;
            return polled;
        }
        let limit = self.limits.write;
        let timer = self.write.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        ready!(timer.as_mut().poll(cx));
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
        if this.busy.get() {
            this.head = None;
        }
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(done) => {
                if this.head.is_none() && !this.busy.get() {
                    this.head = Some(Box::pin(sleep_until(Instant::now() + this.limits.head)));
                }
                Poll::Ready(done)
            }
            Poll::Pending => {
                let Some(timer) = &mut this.head else { return Poll::Pending };
                ready!(timer.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the head of a request did not arrive in time",
                )))
            }
        }
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
