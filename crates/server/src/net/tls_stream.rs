//! The server's end of a TLS connection. The handshake is a part of the first read, so that the timeouts and limits of the
//! connection apply to it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use super::listener::Stream;

type OpenStream = TlsStream<Box<dyn Stream>>;

pub(super) enum ServerTlsStream {
    Handshake(Box<Accept<Box<dyn Stream>>>),
    Open(Box<OpenStream>),
    /// The handshake failed.
    Failed,
}

impl ServerTlsStream {
    pub(super) fn new(stream: Box<dyn Stream>, config: Arc<ServerConfig>) -> Self {
        Self::Handshake(Box::new(TlsAcceptor::from(config).accept(stream)))
    }

    /// The stream, once the handshake is complete.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut OpenStream>>> {
        if let Self::Handshake(handshake) = self {
            match ready!(Pin::new(handshake.as_mut()).poll(cx)) {
                Ok(stream) => *self = Self::Open(Box::new(stream)),
                Err(error) => {
                    *self = Self::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        match self {
            Self::Open(stream) => Poll::Ready(Ok(Pin::new(stream.as_mut()))),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for ServerTlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for ServerTlsStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Open(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            // The handshake writes by itself.
            Self::Handshake(_) | Self::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Open(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            Self::Handshake(_) | Self::Failed => Poll::Ready(Ok(())),
        }
    }
}
