//! Listeners on TCP and on unix sockets.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::config::ListenAddress;

/// A bidirectional byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The transport of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) transport: Transport,
    /// Its address; none on a unix socket.
    pub(crate) address: Option<IpAddr>,
}

/// The scheme of the URL of a TCP listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// A bound listener.
pub(crate) enum Listener {
    Tcp(TcpListener, Scheme),
    Unix(UnixListener, SocketFile),
}

/// The path of a unix socket, removed on drop.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may already have been removed, and `drop` cannot report an error.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub(crate) async fn bind(listen: &ListenAddress, scheme: Scheme) -> io::Result<Self> {
        match listen {
            ListenAddress::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?, scheme)),
            ListenAddress::Unix(path) => {
                remove_stale(path).await?;
                let listener = bind_private(path)?;
                Ok(Self::Unix(listener, SocketFile(path.clone())))
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Peer)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, address) = listener.accept().await?;
                // Responses are small and must not wait for each other.
                stream.set_nodelay(true)?;
                let peer = Peer { transport: Transport::Tcp, address: Some(address.ip()) };
                Ok((Box::new(stream), peer))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Box::new(stream), Peer { transport: Transport::Unix, address: None }))
            }
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(listener, scheme) => match listener.local_addr() {
                Ok(address) => write!(f, "{}://{address}", scheme.as_str()),
                Err(_) => f.write_str("tcp"),
            },
            Self::Unix(_, SocketFile(path)) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Creates the socket for the owner only, because every client that reaches it is trusted. The umask makes it private
/// from the start; changing the mode afterwards would leave a gap.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let bound = UnixListener::bind(path);
    umask(before);
    bound
}

/// Removes the socket of a server that was killed. A running server accepts a connection on it.
async fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;

    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the path exists and is not a socket: remove it",
        ));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens on this socket")),
        Err(_) => std::fs::remove_file(path),
    }
}
