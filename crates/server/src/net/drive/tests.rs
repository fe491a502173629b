//! A real HTTP connection over an in-memory pipe, with paused time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::super::activity::{Activity, CloseReason, Timeouts, WRITE_PROGRESS_BYTES};
use super::{Ended, RequestBody, drive};

const TIMEOUTS: Timeouts =
    Timeouts { idle: Duration::from_secs(60), head: Duration::from_secs(5), write: Duration::from_secs(10) };
const SLOW: Duration = Duration::from_secs(600);
const LARGE: usize = 10 * WRITE_PROGRESS_BYTES;
/// Bytes that a steady reader reads per second, which is more than required.
const PIECE: usize = WRITE_PROGRESS_BYTES / 8;

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

struct Client {
    stream: DuplexStream,
    connection: JoinHandle<(Ended, Instant)>,
    close_requested: CancellationToken,
    stopping: CancellationToken,
}

/// `/slow` responds after ten minutes, `/large` with a large body, `/echo` with the request body, `/wait` when the
/// client closes its sending side, any other path with `ok` at once.
async fn respond(request: Request<RequestBody>, gone: &CancellationToken) -> Response<Full<Bytes>> {
    match request.uri().path() {
        "/slow" => sleep(SLOW).await,
        "/large" => return Response::new(vec![b'x'; LARGE].into()),
        "/echo" => {
            let body = request.into_body().collect().await;
            return Response::new(body.map_or_else(|_| "broken".into(), |body| body.to_bytes().into()));
        }
        "/wait" => gone.cancelled().await,
        _ => {}
    }
    Response::new("ok".into())
}

impl Client {
    fn connect() -> Self {
        let (stream, server_side) = duplex(1024);
        let stopping = CancellationToken::new();
        let activity = Activity::new(TIMEOUTS, &stopping);
        let close_requested = activity.close_requested().clone();
        let stop = stopping.clone();
        let connection = tokio::spawn(async move {
            let gone = activity.gone().clone();
            let respond = |request| respond(request, &gone);
            let ended = drive(Box::new(server_side), &activity, &stop, respond, |_| None).await;
            (ended, Instant::now())
        });
        Self { stream, connection, close_requested, stopping }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads until a response `ok` is complete.
    async fn ok(&mut self) {
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\nok") {
            let byte = self.stream.read_u8().await;
            response.push(byte.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&response))));
        }
        assert!(response.starts_with(b"HTTP/1.1 200"));
    }

    async fn get(&mut self) {
        self.write(GET).await;
        self.ok().await;
    }

    /// Returns why the server closed the connection, and after how many seconds from now.
    async fn closed(&mut self) -> (CloseReason, u64) {
        let start = Instant::now();
        match (&mut self.connection).await.unwrap() {
            (Ended::Closed(reason), at) => (reason, (at - start).as_secs()),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_first_head_is_closed_after_the_header_timeout() {
    assert_eq!(Client::connect().closed().await, (CloseReason::Head, 5));
}

#[tokio::test(start_paused = true)]
async fn the_header_timeout_starts_with_the_first_byte() {
    let mut client = Client::connect();
    client.get().await;
    sleep(Duration::from_secs(50)).await;
    client.write(b"GET / ").await;
    sleep(Duration::from_secs(3)).await;
    client.write(b"HTTP/1.1\r\n").await;
    assert_eq!(client.closed().await, (CloseReason::Head, 2), "the second part does not extend the timeout");
}

/// After the first request and after every later one.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_any_number_of_requests() {
    for requests in 1..4 {
        let mut client = Client::connect();
        for _ in 0..requests {
            client.get().await;
            sleep(Duration::from_secs(40)).await;
        }
        assert_eq!(client.closed().await, (CloseReason::Idle, 20), "{requests} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_a_slow_request_is_not_idle() {
    let mut client = Client::connect();
    client.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    client.ok().await;
    assert_eq!(client.closed().await, (CloseReason::Idle, 60));
}

#[tokio::test(start_paused = true)]
async fn half_a_head_received_during_a_response_has_its_timeout_from_the_end_of_the_response() {
    let mut client = Client::connect();
    client.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    client.write(b"GET / ").await;
    client.ok().await;
    assert_eq!(client.closed().await, (CloseReason::Head, 5));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_read_is_abandoned() {
    let mut client = Client::connect();
    client.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(client.closed().await, (CloseReason::Write, 10));
}

/// 512 bytes per second are progress, but the response would take 20 minutes.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_read_too_slowly_is_abandoned() {
    let mut client = Client::connect();
    client.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let start = Instant::now();
    let mut taken = 0;
    while client.stream.read_exact(&mut [0; 512]).await.is_ok() {
        taken += 512;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(taken < WRITE_PROGRESS_BYTES, "{taken}");
    let (ended, at) = (&mut client.connection).await.unwrap();
    assert!(matches!(ended, Ended::Closed(CloseReason::Write)), "{ended:?}");
    assert_eq!((at - start).as_secs(), 10);
}

/// Reading the response takes longer than the idle timeout.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_read_steadily_is_written_completely() {
    let mut client = Client::connect();
    client.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.stream.read_u8().await.unwrap());
    }
    let start = Instant::now();
    for _ in 0..LARGE / PIECE {
        client.stream.read_exact(&mut [0; PIECE]).await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    assert!(start.elapsed() > TIMEOUTS.idle);
    client.get().await;
    assert_eq!(client.closed().await, (CloseReason::Idle, 60));
}

/// A client may close its sending side and keep reading, as `printf … | nc -N` does.
#[tokio::test(start_paused = true)]
async fn a_client_that_closed_its_sending_side_gets_its_response() {
    for path in ["/slow", "/", "/wait"] {
        let mut client = Client::connect();
        client.write(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await;
        client.stream.shutdown().await.unwrap();
        client.ok().await;
        let (ended, _) = (&mut client.connection).await.unwrap();
        assert!(matches!(ended, Ended::Client), "{path}: {ended:?}");
    }
    let mut client = Client::connect();
    client.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    client.stream.shutdown().await.unwrap();
    let mut response = Vec::new();
    client.stream.read_to_end(&mut response).await.unwrap();
    assert!(response.len() > LARGE, "{}", response.len());
}

#[tokio::test(start_paused = true)]
async fn a_truncated_body_is_detected_at_once() {
    let mut client = Client::connect();
    client.write(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nhal").await;
    let start = Instant::now();
    client.stream.shutdown().await.unwrap();
    let mut response = String::new();
    client.stream.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("broken"), "{response}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The end of the stream arrives before the request has read its body.
#[tokio::test(start_paused = true)]
async fn a_body_before_the_end_of_the_stream_is_complete() {
    for length in [1, 2_000, LARGE] {
        let mut client = Client::connect();
        let (mut read_half, mut write_half) = tokio::io::split(client.stream);
        let body = vec![b'y'; length];
        let head = format!("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        let request = [head.as_bytes(), &body].concat();
        let send = async {
            write_half.write_all(&request).await.unwrap();
            write_half.shutdown().await.unwrap();
        };
        let mut response = Vec::new();
        let ((), read) = tokio::join!(send, read_half.read_to_end(&mut response));
        read.unwrap();
        assert!(response.ends_with(&body), "{length}");
        let (ended, _) = (&mut client.connection).await.unwrap();
        assert!(matches!(ended, Ended::Client), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_selected_for_closing_closes_at_once_or_after_its_request() {
    let mut silent = Client::connect();
    let mut idle = Client::connect();
    idle.get().await;
    let mut busy = Client::connect();
    busy.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    for client in [&silent, &idle, &busy] {
        client.close_requested.cancel();
    }
    assert_eq!(silent.closed().await, (CloseReason::Limit, 0));
    assert_eq!(idle.closed().await, (CloseReason::Limit, 0));
    let mut response = String::new();
    busy.stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("ok"), "{response}");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_closes_idle_connections_at_once() {
    let mut silent = Client::connect();
    let mut idle = Client::connect();
    idle.get().await;
    let start = Instant::now();
    for client in [&mut silent, &mut idle] {
        client.stopping.cancel();
        let (ended, _) = (&mut client.connection).await.unwrap();
        assert!(matches!(ended, Ended::Stopped), "{ended:?}");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}
