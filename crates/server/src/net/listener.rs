//! Listeners on TCP and on sockets of the file system.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::config::Listen;
use crate::http::Door;

/// A stream of bytes, both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Somewhere that connections come in.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The name of a socket, removed when nobody listens any more.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed by somebody else, and there is nobody to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    pub(crate) async fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Listen::Unix(path) => {
                remove_stale(path).await?;
                let listener = bind_private(path)?;
                Ok(Self::Unix(listener, SocketFile(path.clone())))
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Door)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are small and must not wait for each other.
                stream.set_nodelay(true)?;
                Ok((Box::new(stream), Door::Tcp))
            }
            Self::Unix(listener, _) => Ok((Box::new(listener.accept().await?.0), Door::Unix)),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "http://{address}"),
                Err(_) => f.write_str("tcp"),
            },
            Self::Unix(_, SocketFile(path)) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Only who runs the server may call it, for whoever reaches it is trusted: from the first moment, so the mask decides and
/// not a change afterwards.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let bound = UnixListener::bind(path);
    umask(before);
    bound
}

/// A server that was killed leaves its socket behind; one that lives answers on it.
async fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;

    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is no socket is in the way: remove it",
        ));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
        Err(_) => std::fs::remove_file(path),
    }
}
