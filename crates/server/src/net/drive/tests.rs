//! A real HTTP connection over a pipe, with paused time.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::super::activity::{Activity, Limits, Reason, WRITE_PROGRESS_BYTES};
use super::{Ended, drive};

const LIMITS: Limits =
    Limits { idle: Duration::from_secs(60), head: Duration::from_secs(5), write: Duration::from_secs(10) };
const SLOW: Duration = Duration::from_secs(600);
const LARGE: usize = 10 * WRITE_PROGRESS_BYTES;
/// What a steady reader takes in a second: more than it must.
const PIECE: usize = WRITE_PROGRESS_BYTES / 8;

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

struct Client {
    stream: DuplexStream,
    connection: JoinHandle<(Ended, Instant)>,
    unwanted: CancellationToken,
    stopping: CancellationToken,
}

/// `/slow` answers after ten minutes, `/large` with a large body, `/echo` with the request's, `/wait` when the client hangs
/// up, anything else with `ok`, at once.
async fn answer(request: Request, hung_up: &CancellationToken) -> Response {
    match request.uri().path() {
        "/slow" => sleep(SLOW).await,
        "/large" => return Response::new(Body::from(vec![b'x'; LARGE])),
        "/echo" => {
            let body = to_bytes(request.into_body(), usize::MAX).await;
            return Response::new(body.map_or_else(|_| Body::from("broken"), Body::from));
        }
        "/wait" => hung_up.cancelled().await,
        _ => {}
    }
    Response::new(Body::from("ok"))
}

impl Client {
    fn connect() -> Self {
        let (stream, far) = duplex(1024);
        let activity = Activity::new(LIMITS);
        let (unwanted, stopping) = (activity.unwanted().clone(), CancellationToken::new());
        let stop = stopping.clone();
        let connection = tokio::spawn(async move {
            let hung_up = activity.hung_up().clone();
            let answer = |request| answer(request, &hung_up);
            let ended = drive(Box::new(far), &activity, &stop, answer, |_| None).await;
            (ended, Instant::now())
        });
        Self { stream, connection, unwanted, stopping }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads until an answer `ok` has come.
    async fn ok(&mut self) {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let byte = self.stream.read_u8().await;
            answer.push(byte.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&answer))));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }

    async fn get(&mut self) {
        self.write(GET).await;
        self.ok().await;
    }

    /// Why the server closes the connection, and after how many seconds from now.
    async fn closed(&mut self) -> (Reason, u64) {
        let start = Instant::now();
        match (&mut self.connection).await.unwrap() {
            (Ended::Closed(reason), at) => (reason, (at - start).as_secs()),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_first_head_is_closed_after_the_header_timeout() {
    assert_eq!(Client::connect().closed().await, (Reason::Head, 5));
}

#[tokio::test(start_paused = true)]
async fn a_head_has_its_time_from_its_first_byte() {
    let mut client = Client::connect();
    client.get().await;
    sleep(Duration::from_secs(50)).await;
    client.write(b"GET / ").await;
    sleep(Duration::from_secs(3)).await;
    client.write(b"HTTP/1.1\r\n").await;
    assert_eq!(client.closed().await, (Reason::Head, 2), "the second piece gives it no more time");
}

/// Also after the first request, and after every later one.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_whatever_it_did_before() {
    for requests in 1..4 {
        let mut client = Client::connect();
        for _ in 0..requests {
            client.get().await;
            sleep(Duration::from_secs(40)).await;
        }
        assert_eq!(client.closed().await, (Reason::Idle, 20), "{requests} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_answered_slowly_is_not_idle() {
    let mut client = Client::connect();
    client.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    client.ok().await;
    assert_eq!(client.closed().await, (Reason::Idle, 60));
}

#[tokio::test(start_paused = true)]
async fn half_a_head_that_came_during_an_answer_has_its_time_from_there() {
    let mut client = Client::connect();
    client.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    client.write(b"GET / ").await;
    client.ok().await;
    assert_eq!(client.closed().await, (Reason::Head, 5));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_taken_is_given_up() {
    let mut client = Client::connect();
    client.write(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(client.closed().await, (Reason::Write, 10));
}

/// 512 bytes a second are progress of a kind, but nobody waits 20 minutes for an answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_taken_in_drops_is_given_up() {
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
    assert!(matches!(ended, Ended::Closed(Reason::Write)), "{ended:?}");
    assert_eq!((at - start).as_secs(), 10);
}

/// It takes longer than a connection may idle.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_taken_steadily_is_written_whole() {
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
    assert!(start.elapsed() > LIMITS.idle);
    client.get().await;
    assert_eq!(client.closed().await, (Reason::Idle, 60));
}

/// A client may close its sending side and read on: `printf … | nc -N` does.
#[tokio::test(start_paused = true)]
async fn a_client_that_closed_its_sending_side_gets_its_answer() {
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
    let mut answer = Vec::new();
    client.stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > LARGE, "{}", answer.len());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_noticed_at_once() {
    let mut client = Client::connect();
    client.write(b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nhal").await;
    let start = Instant::now();
    client.stream.shutdown().await.unwrap();
    let mut answer = String::new();
    client.stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("broken"), "{answer}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The end of the stream is there before the request has read its body.
#[tokio::test(start_paused = true)]
async fn a_body_before_the_end_of_the_stream_is_whole() {
    for length in [1, 2_000, LARGE] {
        let mut client = Client::connect();
        let (mut near, mut far) = tokio::io::split(client.stream);
        let body = vec![b'y'; length];
        let head = format!("POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        let request = [head.as_bytes(), &body].concat();
        let send = async {
            far.write_all(&request).await.unwrap();
            far.shutdown().await.unwrap();
        };
        let mut answer = Vec::new();
        let ((), read) = tokio::join!(send, near.read_to_end(&mut answer));
        read.unwrap();
        assert!(answer.ends_with(&body), "{length}");
        let (ended, _) = (&mut client.connection).await.unwrap();
        assert!(matches!(ended, Ended::Client), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chosen_connection_closes_at_once_if_it_has_no_request_and_after_it_if_it_has() {
    let mut silent = Client::connect();
    let mut idle = Client::connect();
    idle.get().await;
    let mut busy = Client::connect();
    busy.write(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    sleep(Duration::from_secs(1)).await;
    for client in [&silent, &idle, &busy] {
        client.unwanted.cancel();
    }
    assert_eq!(silent.closed().await, (Reason::Limit, 0));
    assert_eq!(idle.closed().await, (Reason::Limit, 0));
    let mut answer = String::new();
    busy.stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_closes_idle_connections_at_once() {
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
