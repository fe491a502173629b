//! Receiving messages as a stream: one per line of a long response.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use oncebox_wire::mailbox::{MessageEnvelope, RecvRequest};
use oncebox_wire::{ErrorBody, path};
use tokio::time::timeout;

use crate::call::{Body, Call, ReadResponse, decode, error_response};
use crate::client::Client;
use crate::error::ClientError;
use crate::retry::RetryPolicy;

/// Maximum length of a line.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A stream of messages. Dropping it stops receiving; its deliveries stay leased until they are settled or their
/// visibility timeout ends.
#[derive(Debug)]
pub struct Stream {
    body: Incoming,
    buffer: BytesMut,
    /// `buffer` contains no line end before this offset.
    searched: usize,
    /// The connection counts as lost if nothing arrives for this long.
    idle_timeout: Duration,
    corr_id: String,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The response has ended; buffered lines are left.
    Ended,
    /// The stream returns nothing any more.
    Closed,
}

impl Client {
    /// Receives messages as they become ready, until none arrives for `wait_ms`. `max_messages` and `max_bytes` limit
    /// each batch.
    ///
    /// A stream cannot be retried, so the server rejects a `request_id`. If the connection is lost, the stream ends
    /// with an error, and its deliveries stay leased.
    pub async fn recv_stream(&self, request: &RecvRequest) -> Result<Stream, ClientError> {
        let call = Call::post(path::RECV_STREAM, RetryPolicy::IfUnsent, Body::Recv(request.clone()));
        let corr_id = self.corr_id();
        let opened = self.call_with_retries(&call, &corr_id, &StreamBody).await;
        let body = opened.map_err(|error| error.with_corr_id(&corr_id))?;
        let idle_timeout = call.limit(self.shared.timeout);
        Ok(Stream { body, buffer: BytesMut::new(), searched: 0, idle_timeout, corr_id, state: State::Open })
    }
}

/// Returns the body of a response unread.
struct StreamBody;

impl ReadResponse for StreamBody {
    type Output = Incoming;

    async fn read(&self, response: Response<Incoming>) -> Result<Incoming, ClientError> {
        if response.status().is_success() {
            Ok(response.into_body())
        } else {
            Err(error_response(response).await)
        }
    }
}

impl Stream {
    /// The next message; none at the end of the stream. An error is the last item.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<MessageEnvelope, ClientError>> {
        match self.advance().await {
            Ok(Some(envelope)) => Some(Ok(envelope)),
            Ok(None) => {
                self.state = State::Closed;
                None
            }
            Err(error) => {
                self.state = State::Closed;
                self.buffer.clear();
                Some(Err(error.with_corr_id(&self.corr_id)))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<MessageEnvelope>, ClientError> {
        loop {
            if self.state == State::Closed {
                return Ok(None);
            }
            while let Some(line) = self.line() {
                // An empty line is a keep-alive.
                if !line.trim_ascii().is_empty() {
                    return parse_line(&line).map(Some);
                }
            }
            if self.state == State::Ended {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    /// The next complete line; at the end of the response, the rest.
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

    async fn fill(&mut self) -> Result<(), ClientError> {
        let frame = timeout(self.idle_timeout, self.body.frame()).await;
        match frame.map_err(|_| ClientError::timed_out(self.idle_timeout))? {
            None => self.state = State::Ended,
            Some(Err(error)) => {
                let text = "the connection of the stream was lost: open a new stream; received messages stay leased until their visibility timeout ends";
                return Err(ClientError::unreachable(text, error));
            }
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                if self.buffer.len() + data.len() > LINE_BYTES_MAX {
                    return Err(ClientError::malformed(
                        "a line of the stream is too long: receive the message with recv",
                    ));
                }
                self.buffer.extend_from_slice(&data);
            }
        }
        Ok(())
    }
}

/// Parses a line: a message, or the error that ends the stream.
fn parse_line(line: &[u8]) -> Result<MessageEnvelope, ClientError> {
    decode(line).map_err(|malformed| match serde_json::from_slice::<ErrorBody>(line) {
        Ok(body) => ClientError::error_response(body.code.status(), Some(body), None),
        Err(_) => malformed,
    })
}
