//! HTTP/1.1 on one keep-alive connection, for our server and the bare endpoint.

use std::io;
use std::sync::LazyLock;

use super::connection::{Connection, number};
use super::unexpected;

/// The variable with the token of all requests of this process.
pub(crate) const TOKEN: &str = "ONCEBOX_BENCH_TOKEN";

/// The header with the token; empty if there is none.
static AUTHORIZATION: LazyLock<String> = LazyLock::new(|| {
    std::env::var(TOKEN).map_or_else(|_| String::new(), |token| format!("authorization: Bearer {token}\r\n"))
});

pub(super) struct Http {
    connection: Connection,
    /// The body of a chunked response.
    body: Vec<u8>,
}

/// The length of a body.
enum Length {
    Known(usize),
    Chunked,
}

impl Http {
    pub(super) async fn open(port: u16) -> io::Result<Self> {
        Ok(Self { connection: Connection::open(port).await?, body: Vec::new() })
    }

    pub(super) async fn get(&mut self, path: &str) -> io::Result<&[u8]> {
        self.connection.put(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{}\r\n", *AUTHORIZATION));
        self.answer(path).await
    }

    pub(super) async fn post(&mut self, path: &str, body: &[u8]) -> io::Result<&[u8]> {
        self.put_post(path, body);
        self.answer(path).await
    }

    /// Sends a request with a streaming response; see [`Http::next_chunk`].
    pub(super) async fn post_streaming(&mut self, path: &str, body: &[u8]) -> io::Result<()> {
        self.put_post(path, body);
        match self.head().await? {
            (200, Length::Chunked) => Ok(()),
            (status, _) => Err(unexpected(path, status.to_string().as_bytes())),
        }
    }

    /// The next chunk of a streaming response; `None` at its end.
    pub(super) async fn next_chunk(&mut self) -> io::Result<Option<&[u8]>> {
        let Some(size) = self.chunk_size().await? else { return Ok(None) };
        self.body.clear();
        self.body.extend_from_slice(self.connection.bytes(size).await?);
        self.connection.line().await?;
        Ok(Some(&self.body))
    }

    fn put_post(&mut self, path: &str, body: &[u8]) {
        let length = body.len();
        self.connection.put(format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{}content-type: application/json\r\ncontent-length: {length}\r\n\r\n",
            *AUTHORIZATION
        ));
        self.connection.put(body);
    }

    /// Sends the buffered request and reads the body of the response; fails unless the status is 2xx.
    async fn answer(&mut self, path: &str) -> io::Result<&[u8]> {
        let (status, length) = self.head().await?;
        self.body.clear();
        let body = match length {
            Length::Known(length) => self.connection.bytes(length).await?,
            Length::Chunked => {
                while let Some(size) = self.chunk_size().await? {
                    self.body.extend_from_slice(self.connection.bytes(size).await?);
                    self.connection.line().await?;
                }
                &self.body
            }
        };
        if !(200..300).contains(&status) {
            return Err(unexpected(&format!("{path} ({status})"), body));
        }
        Ok(body)
    }

    /// Sends the buffered request and reads the status and headers of the response.
    async fn head(&mut self) -> io::Result<(usize, Length)> {
        self.connection.flush().await?;
        let status = self.connection.line().await?;
        let status = number(status.get(9..12).unwrap_or(status), 10)?;
        Ok((status, self.length().await?))
    }

    /// Reads the headers up to the body.
    async fn length(&mut self) -> io::Result<Length> {
        let mut length = Length::Known(0);
        loop {
            let line = self.connection.line().await?;
            if line.is_empty() {
                return Ok(length);
            }
            if let Some(value) = header_value(line, b"content-length:") {
                length = Length::Known(number(value, 10)?);
            } else if header_value(line, b"transfer-encoding:").is_some() {
                length = Length::Chunked;
            }
        }
    }

    /// The size of the next chunk; `None` after the last one.
    async fn chunk_size(&mut self) -> io::Result<Option<usize>> {
        let size = number(self.connection.line().await?, 16)?;
        if size == 0 {
            self.connection.line().await?;
        }
        Ok((size > 0).then_some(size))
    }
}

/// The value of a header, if the line has this name, ignoring case.
fn header_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(rest)
}
