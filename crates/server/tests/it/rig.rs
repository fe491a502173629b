//! A server in memory, and plain requests to it.

use oncebox_server::Server;
use oncebox_server::config::{Sources, load};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where a server listens that runs until the test ends.
pub(crate) async fn start() -> String {
    let mut sources = Sources::default();
    let flags = [("listen", "127.0.0.1:0"), ("store", "memory:")];
    sources.flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let server = Server::start(load(&sources).unwrap()).await.unwrap();
    let address = server.addresses()[0].trim_start_matches("http://").to_owned();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Asks, and gives the whole answer as text.
pub(crate) async fn ask(address: &str, method: &str, path: &str, json: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = json.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
