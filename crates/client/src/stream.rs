//! Receiving as messages come: one per line of one long answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use oncebox_wire::mailbox::{Envelope, Recv};
use oncebox_wire::{ErrorBody, path};
use tokio::time::timeout;

use crate::call::{Body, Call, Take, decode, refusal};
use crate::client::Client;
use crate::error::Error;
use crate::repeat::Repeat;

/// No line is longer.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Messages as they come. Dropped, it stops receiving; what it gave out stays held until it is settled or its time is over.
#[derive(Debug)]
pub struct Stream {
    body: Incoming,
    buffer: BytesMut,
    /// In `buffer`, no line ends before here.
    searched: usize,
    /// Silence beyond this is a broken connection.
    silence_max: Duration,
    corr_id: String,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The server has said everything; what is buffered is left.
    Ended,
    /// Nothing comes any more.
    Over,
}

impl Client {
    /// Receives messages as they come, until the server has waited `wait_ms` for the next in vain. `max_messages` and
    /// `max_bytes` bound what comes at once.
    ///
    /// A stream cannot be repeated, so a `request_id` is refused. One that breaks ends with an error, and what it gave out
    /// stays held.
    pub async fn recv_stream(&self, wish: &Recv) -> Result<Stream, Error> {
        let call = Call::post(path::RECV_STREAM, Repeat::Unsent, Body::Recv(wish.clone()));
        let corr_id = self.corr_id();
        let opened = self.repeated(&call, &corr_id, &Head).await;
        let body = opened.map_err(|error| error.of_call(&corr_id))?;
        let silence_max = call.limit(self.shared.timeout);
        Ok(Stream { body, buffer: BytesMut::new(), searched: 0, silence_max, corr_id, state: State::Open })
    }
}

/// Leaves the content of an answer for later.
struct Head;

impl Take for Head {
    type Taken = Incoming;

    async fn take(&self, answer: Response<Incoming>) -> Result<Incoming, Error> {
        if answer.status().is_success() { Ok(answer.into_body()) } else { Err(refusal(answer).await) }
    }
}

impl Stream {
    /// The next message; none when the stream is over. Nothing follows an error.
    ///
    /// Cancel-safe: a call that is dropped loses nothing.
    pub async fn next(&mut self) -> Option<Result<Envelope, Error>> {
        match self.advance().await {
            Ok(Some(envelope)) => Some(Ok(envelope)),
            Ok(None) => {
                self.state = State::Over;
                None
            }
            Err(error) => {
                self.state = State::Over;
                self.buffer.clear();
                Some(Err(error.of_call(&self.corr_id)))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Envelope>, Error> {
        loop {
            if self.state == State::Over {
                return Ok(None);
            }
            while let Some(line) = self.line() {
                // An empty line only says that the server is still there.
                if !line.trim_ascii().is_empty() {
                    return understand(&line).map(Some);
                }
            }
            if self.state == State::Ended {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    /// A whole line; at the end, what is left.
    fn line(&mut self) -> Option<Bytes> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        match end {
            Some(end) => {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                Some(line)
            }
            None if self.state == State::Ended && !self.buffer.is_empty() => {
                self.searched = 0;
                Some(self.buffer.split().freeze())
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        let frame = timeout(self.silence_max, self.body.frame()).await;
        match frame.map_err(|_| Error::timed_out(self.silence_max))? {
            None => self.state = State::Ended,
            Some(Err(error)) => {
                let text = "the stream broke: open another; what came is held until its time is over";
                return Err(Error::unreachable(text, error));
            }
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                if self.buffer.len() + data.len() > LINE_BYTES_MAX {
                    return Err(Error::malformed(
                        "a line of the stream is too long: receive it in another way",
                    ));
                }
                self.buffer.extend_from_slice(&data);
            }
        }
        Ok(())
    }
}

/// A message, or the error that ends the stream.
fn understand(line: &[u8]) -> Result<Envelope, Error> {
    decode(line).map_err(|malformed| match serde_json::from_slice::<ErrorBody>(line) {
        Ok(body) => Error::refused(body.code.status(), Some(body), None),
        Err(_) => malformed,
    })
}
