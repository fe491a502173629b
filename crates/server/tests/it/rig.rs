//! A server in memory, inside this process, and plain requests to it.

use std::time::Duration;

use oncebox_server::Server;
use oncebox_server::config::{Sources, load};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server listens that runs until the test ends.
pub(crate) async fn start() -> String {
    start_with(&[]).await
}

/// The same, with settings.
pub(crate) async fn start_with(set: &[(&str, &str)]) -> String {
    let mut sources = Sources::default();
    let flags = [("listen", "127.0.0.1:0"), ("admin.listen", "off"), ("store", "memory:")];
    let flags = flags.iter().chain(set);
    sources.flags = flags.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let server = Server::start(load(&sources).unwrap()).await.unwrap();
    let address = server.addresses()[0].trim_start_matches("http://").to_owned();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Asks, and gives the whole answer as text.
pub(crate) async fn ask(address: &str, method: &str, path: &str, json: &str) -> String {
    let length = json.len();
    let rest = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}");
    ask_raw(address, &format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{rest}"))
        .await
}

/// Sends these bytes, and gives the whole answer as text.
pub(crate) async fn ask_raw(address: &str, request: &str) -> String {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("the server answers, and closes the connection")
}

/// The body of an answer that must be 200, as JSON.
#[track_caller]
pub(crate) fn json(answer: &str) -> serde_json::Value {
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// The value of a metric with exactly these labels; none if it is not there. All servers of this process share them: name a topic
/// that no other test has.
pub(crate) async fn metric(address: &str, series: &str) -> Option<String> {
    let answer = ask(address, "GET", "/metrics", "").await;
    let mut values = answer.lines().filter_map(|line| line.rsplit_once(' '));
    values.find(|(known, _)| *known == series).map(|(_, value)| value.to_owned())
}
