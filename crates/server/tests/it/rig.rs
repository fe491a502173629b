//! A server with an in-memory store inside this process, and plain HTTP requests.

use std::time::Duration;

use oncebox_server::Server;
use oncebox_server::config::{Sources, load};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any response takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server that runs until the test ends, and returns its address.
pub(crate) async fn start() -> String {
    start_with(&[]).await
}

/// Starts a server with these settings.
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

/// Sends a request with a JSON body, and returns the whole response.
pub(crate) async fn call(address: &str, method: &str, path: &str, json: &str) -> String {
    let length = json.len();
    let rest = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}");
    send_raw(address, &format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{rest}"))
        .await
}

/// Sends these bytes, and returns the whole response.
pub(crate) async fn send_raw(address: &str, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    };
    tokio::time::timeout(TIMEOUT, exchange).await.expect("the server should respond and close the connection")
}

/// Parses the body of a response, which must have the status 200.
#[track_caller]
pub(crate) fn json(response: &str) -> serde_json::Value {
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let (_, body) = response.split_once("\r\n\r\n").expect("the response should have a head and a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {response}"))
}

/// Returns the value of a metric with exactly these labels, if it exists. All servers of this process share their
/// metrics: use a topic that no other test uses.
pub(crate) async fn metric(address: &str, series: &str) -> Option<String> {
    let response = call(address, "GET", "/metrics", "").await;
    let mut values = response.lines().filter_map(|line| line.rsplit_once(' '));
    values.find(|(known, _)| *known == series).map(|(_, value)| value.to_owned())
}
