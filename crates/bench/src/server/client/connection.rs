//! A connection with buffered input and output: reads lines and byte counts, writes everything on flush.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const INPUT_BYTES: usize = 64 << 10;

pub(super) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Number of input bytes that are already consumed.
    consumed: usize,
    /// Bytes for the next [`Connection::flush`].
    pub(super) output: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::with_capacity(INPUT_BYTES), consumed: 0, output: Vec::new() })
    }

    pub(super) fn put(&mut self, bytes: impl AsRef<[u8]>) {
        self.output.extend_from_slice(bytes.as_ref());
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    /// The next line, without its line ending.
    pub(super) async fn line(&mut self) -> io::Result<&[u8]> {
        let mut searched = 0;
        let length = loop {
            let input = &self.input[self.consumed..];
            if let Some(found) = input[searched..].iter().position(|byte| *byte == b'\n') {
                break searched + found;
            }
            searched = input.len();
            self.fill().await?;
        };
        let line = self.consumed..self.consumed + length;
        self.consumed = line.end + 1;
        let line = &self.input[line];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The next `count` bytes.
    pub(super) async fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.input.len() - self.consumed < count {
            self.fill().await?;
        }
        let bytes = self.consumed..self.consumed + count;
        self.consumed = bytes.end;
        Ok(&self.input[bytes])
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        self.input.reserve(INPUT_BYTES);
        if self.stream.read_buf(&mut self.input).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        Ok(())
    }
}

/// Parses a number.
pub(super) fn number(digits: &[u8], radix: u32) -> io::Result<usize> {
    let text = str::from_utf8(digits).ok();
    let number = text.and_then(|text| usize::from_str_radix(text.trim(), radix).ok());
    number.ok_or_else(|| super::unexpected("a request for a number", digits))
}
