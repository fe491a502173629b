//! The `webhook_receiver` example, with real requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// A receiver on a free port; killed if a test fails.
struct Receiver {
    process: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Receiver {
    fn start_in(directory: &Path) -> Self {
        Self::start(&format!("embedded:{}", directory.display()))
    }

    fn start(store: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_webhook_receiver"))
            .args(["127.0.0.1:0", store])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut output = BufReader::new(process.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in `{line}`"));
        Self { process, output, address }
    }

    /// Status and body of the response.
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = self.request(path, body);
        (status, body)
    }

    /// Status, head and body of the response.
    fn request(&self, path: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it responds");
        let status = response.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let (head, body) = response.split_once("\r\n\r\n").expect("a body");
        (status, head.to_owned(), body.to_owned())
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints another line");
        line.trim().to_owned()
    }

    /// Stops it with Ctrl-C, and returns the rest of its output.
    #[cfg(unix)]
    fn stop(mut self) -> String {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it ends");
        assert!(self.process.wait().expect("it ends").success());
        rest
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const EVENT: &str = r#"{"id": "evt_1", "type": "payment.received", "cents": 1250}"#;

#[cfg(unix)]
#[test]
fn an_event_is_accepted_once_handled_and_a_duplicate_after_a_restart() {
    let directory = TempDir::new().unwrap();
    let mut receiver = Receiver::start_in(directory.path());
    assert_eq!(receiver.post("/webhooks/stripe", EVENT), (200, "accepted\n".to_owned()));
    assert_eq!(receiver.post("/webhooks/stripe", EVENT), (200, "duplicate\n".to_owned()));
    assert_eq!(receiver.next_line(), "handled evt_1 of stripe: 1250 cents");
    assert_eq!(receiver.post("/webhooks/stripe", EVENT), (200, "duplicate\n".to_owned()));
    assert_eq!(receiver.stop().trim(), "stopped: 1 handled");

    let receiver = Receiver::start_in(directory.path());
    assert_eq!(receiver.post("/webhooks/stripe", EVENT), (200, "duplicate\n".to_owned()));
    assert_eq!(receiver.stop().trim(), "stopped: 0 handled");
}

#[test]
fn other_content_is_a_conflict_and_another_source_is_another_event() {
    let directory = TempDir::new().unwrap();
    let receiver = Receiver::start_in(directory.path());
    let topic = r#""type": "nobody.handles.this""#;
    assert_eq!(receiver.post("/webhooks/stripe", &format!(r#"{{"id": "1", {topic}}}"#)).0, 200);
    assert_eq!(receiver.post("/webhooks/stripe", &format!(r#"{{"id": "1", {topic}, "more": 1}}"#)).0, 409);
    assert_eq!(receiver.post("/webhooks/other", &format!(r#"{{"id": "1", {topic}}}"#)).1, "accepted\n");
}

#[test]
fn a_malformed_event_is_a_bad_request() {
    let directory = TempDir::new().unwrap();
    let receiver = Receiver::start_in(directory.path());
    assert_eq!(receiver.post("/webhooks/stripe", "hello").0, 400);
    let nameless = r#"{"id": "", "type": "payment.received"}"#;
    assert_eq!(receiver.post("/webhooks/stripe", nameless).0, 400);
}

#[test]
fn a_full_store_asks_the_sender_to_retry_later() {
    let receiver = Receiver::start("memory:?messages_max=1");
    let event = |id| format!(r#"{{"id": "{id}", "type": "nobody.handles.this"}}"#);
    assert_eq!(receiver.post("/webhooks/stripe", &event("1")).0, 200);
    let (status, head, _) = receiver.request("/webhooks/stripe", &event("2"));
    assert_eq!(status, 429);
    assert!(head.to_lowercase().contains("\r\nretry-after: "), "{head}");
    assert_eq!(
        receiver.post("/webhooks/stripe", &event("1")).1,
        "duplicate\n",
        "a stored event is still a duplicate"
    );
}
