//! The stream of a connection, which reports reads and writes to its activity.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;
use super::listener::Stream;

pub(super) struct ActivityStream {
    stream: Box<dyn Stream>,
    activity: Arc<Activity>,
}

impl ActivityStream {
    pub(super) fn new(stream: Box<dyn Stream>, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }

    fn wrote(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(Ok(bytes)) => self.activity.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.write_blocked(),
        }
        polled
    }

    fn flushed(&self, polled: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        match &polled {
            Poll::Ready(_) => self.activity.flushed(),
            Poll::Pending => self.activity.write_blocked(),
        }
        polled
    }
}

impl AsyncRead for ActivityStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if !matches!(polled, Poll::Ready(Ok(()))) || buffer.capacity() == before {
            return polled;
        }
        if buffer.filled().len() > before {
            self.activity.bytes_received();
        } else if !self.activity.received_eof(cx.waker()) {
            return Poll::Pending;
        }
        polled
    }
}

impl AsyncWrite for ActivityStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.flushed(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.flushed(polled)
    }
}
