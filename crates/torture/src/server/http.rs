//! A minimal HTTP/1.1 client over one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A server that sends nothing for this long hangs.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Value,
}

/// How the length of a response body is given.
enum Length {
    Bytes(usize),
    Chunks,
}

impl Connection {
    pub(super) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_owned() })
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> io::Result<Response> {
        self.send_request("POST", path, &body.to_string())?;
        self.read_response()
    }

    pub(super) fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send_request("GET", path, "")?;
        self.read_response()
    }

    /// Requests a stream and calls `each` with every line as it arrives. Returns the response if its status is not 200.
    pub(super) fn lines<E: From<io::Error>>(
        &mut self,
        path: &str,
        body: &Value,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Option<Response>, E> {
        self.send_request("POST", path, &body.to_string())?;
        let (status, length) = self.head()?;
        if status != 200 {
            return Ok(Some(Response { status, body: self.body(&length)? }));
        }
        let mut rest = Vec::new();
        while let Some(mut chunk) = self.chunk()? {
            rest.append(&mut chunk);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                each(&line)?;
            }
        }
        if rest.is_empty() { Ok(None) } else { Err(protocol_error("the stream ends within a line").into()) }
    }

    fn send_request(&mut self, method: &str, path: &str, body: &str) -> io::Result<()> {
        let (host, length) = (&self.host, body.len());
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{kind}content-length: {length}\r\n\r\n");
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes())
    }

    fn read_response(&mut self) -> io::Result<Response> {
        let (status, length) = self.head()?;
        Ok(Response { status, body: self.body(&length)? })
    }

    fn head(&mut self) -> io::Result<(u16, Length)> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| protocol_error("the response has no status"))?;
        let mut length = Length::Bytes(0);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                None if line.is_empty() => return Ok((status, length)),
                Some(("content-length", value)) => {
                    length = Length::Bytes(
                        value.parse().map_err(|_| protocol_error("the content-length is invalid"))?,
                    );
                }
                Some(("transfer-encoding", _)) => length = Length::Chunks,
                _ => {}
            }
        }
    }

    fn body(&mut self, length: &Length) -> io::Result<Value> {
        let mut bytes = Vec::new();
        match length {
            Length::Bytes(count) => {
                bytes.resize(*count, 0);
                self.stream.read_exact(&mut bytes)?;
            }
            Length::Chunks => {
                while let Some(mut chunk) = self.chunk()? {
                    bytes.append(&mut chunk);
                }
            }
        }
        serde_json::from_slice(&bytes).map_err(|_| protocol_error("the body is not JSON"))
    }

    /// The next chunk of a body; none at its end.
    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line()?, 16)
            .map_err(|_| protocol_error("the chunk size is invalid"))?;
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
    }

    /// A line without its line break.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        line.strip_suffix("\r\n")
            .map(str::to_owned)
            .ok_or_else(|| protocol_error("the connection was closed"))
    }
}

fn protocol_error(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}
