//! A minimal HTTP/1.1 client, independent of the project's own client.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// Longer than any call takes that completes by itself.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// A bidirectional stream.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A request builder.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: &str) -> Self {
        let host = Some("localhost".to_owned());
        Self { method, path: path.to_owned(), host, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn post(path: &str, json: &Value) -> Self {
        Self::new("POST", path).header("content-type", "application/json").body(json.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn host(mut self, host: Option<&str>) -> Self {
        self.host = host.map(str::to_owned);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The request line and headers, with this content length.
    pub(crate) fn head(&self, length: usize) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if let Some(host) = &self.host {
            let _ = write!(head, "host: {host}\r\n");
        }
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "content-length: {length}\r\n\r\n");
        head.into_bytes()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [self.head(self.body.len()), self.body.clone()].concat()
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a response that must have status 200.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Asserts that the request was refused with this status and code; returns the message.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let json = self.json();
        assert_eq!((self.status, json["code"].as_str()), (status, Some(code)), "{json}");
        assert_eq!(json["corr_id"].as_str(), self.header("x-corr-id"), "{json}");
        json["message"].as_str().expect("a message").to_owned()
    }
}

/// One connection.
pub(crate) struct Connection(BufReader<Box<dyn Stream>>);

impl Connection {
    pub(crate) fn tcp(address: &str) -> Self {
        Self::over(TcpStream::connect(address).expect("the server listens"))
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(TIMEOUT)).expect("an option");
        stream.set_write_timeout(Some(TIMEOUT)).expect("an option");
        Self(BufReader::new(Box::new(stream)))
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("an option");
        Self(BufReader::new(Box::new(stream)))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).expect("the server reads");
    }

    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    pub(crate) fn call(&mut self, request: &Request) -> Answer {
        self.write(&request.to_bytes());
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().expect("a response")
    }

    /// The next response, unless the server closes the connection first.
    pub(crate) fn try_answer(&mut self) -> io::Result<Answer> {
        let head = self.head()?;
        let mut answer = Answer { status: status(&head), head, body: Vec::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                answer.body.extend(chunk);
            }
            return Ok(answer);
        }
        let length = answer.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        answer.body.resize(length, 0);
        self.0.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    /// The head of a response.
    pub(crate) fn head(&mut self) -> io::Result<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(head)
    }

    /// The next chunk of a chunked body; `None` at its end.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut length = String::new();
        self.0.read_line(&mut length)?;
        let length = usize::from_str_radix(length.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Everything until the server closes or resets the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Err(error) if !is_reset(&error) => panic!("the server does not close the connection: {error}"),
            _ => rest,
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}

fn status(head: &str) -> u16 {
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("a status: {head:?}"))
}
