//! Our server's mailbox over HTTP. Requests are formatted by hand, and only the needed fields of responses are parsed.

mod codec;

use std::io;

use oncebox_wire::path;
use serde::Deserialize;

use self::codec::{Codec, Envelope, Sent, Worked};
use super::http::Http;
use super::{Client, Key, unexpected};
use crate::server::job::{Job, Style};

pub(crate) struct Oncebox {
    http: Http,
    /// The streaming connection, while the other one acknowledges.
    lines: Option<Lines>,
    codec: Codec,
    style: Style,
    batch: usize,
    /// Receipts of messages that are received and not yet acknowledged.
    held: Vec<String>,
    /// Numbers of the messages that the last call received.
    pub(crate) received: Vec<u64>,
}

struct Lines {
    http: Http,
    /// The stream has not ended.
    open: bool,
}

/// Succeeds if the server is ready.
pub(crate) async fn ready(port: u16) -> io::Result<()> {
    Http::open(port).await?.get(path::READYZ).await.map(drop)
}

impl Client for Oncebox {
    async fn open(job: &Job, _number: usize) -> io::Result<Self> {
        let (http, codec) = (Http::open(job.port).await?, Codec::new(job.load.batch));
        let lines = match job.load.style {
            Style::Lines => Some(Lines { http: Http::open(job.port).await?, open: false }),
            Style::Work | Style::TwoCalls => None,
        };
        let (held, received) = (Vec::new(), Vec::new());
        Ok(Self { http, lines, codec, style: job.load.style, batch: job.load.batch, held, received })
    }

    async fn send(&mut self, keys: &[Key]) -> io::Result<()> {
        if let [key] = keys {
            let answer = self.http.post(path::SEND, self.codec.send(*key)).await?;
            let sent: Sent = read(answer)?;
            return if sent.duplicate { Err(unexpected(path::SEND, answer)) } else { Ok(()) };
        }
        let answer = self.http.post(path::SEND_BATCH, self.codec.send_batch(keys)).await?;
        let batch: codec::SentBatch = read(answer)?;
        let good = batch.results.iter().filter(|item| item.ok && !item.duplicate).count();
        if good == keys.len() { Ok(()) } else { Err(unexpected(path::SEND_BATCH, answer)) }
    }

    async fn work(&mut self) -> io::Result<usize> {
        match self.style {
            Style::Work => self.work_waiting(None).await?,
            Style::TwoCalls | Style::Lines => {
                self.receive().await?;
                self.finish().await?;
            }
        }
        Ok(self.received.len())
    }

    fn has_unacked(&self) -> bool {
        !self.held.is_empty()
    }

    async fn finish(&mut self) -> io::Result<()> {
        match &*self.held {
            [] => return Ok(()),
            [receipt] if self.batch == 1 => {
                let path = path::ACK.replace("{delivery}", receipt);
                let answer = self.http.post(&path, b"").await?;
                settled(&[read(answer)?], answer)?;
            }
            _ => {
                let answer = self.http.post(path::SETTLE, self.codec.settle(&self.held)).await?;
                settled(&read::<Worked>(answer)?.results, answer)?;
            }
        }
        self.held.clear();
        Ok(())
    }
}

impl Oncebox {
    /// Acknowledges the held messages and receives the next ones, waiting up to `wait_ms` if there are none.
    pub(crate) async fn work_waiting(&mut self, wait_ms: Option<u64>) -> io::Result<()> {
        let answer = self.http.post(path::WORK, self.codec.work(&self.held, wait_ms)).await?;
        let worked: Worked<'_> = read(answer)?;
        settled(&worked.results, answer)?;
        take(&worked.messages, &mut self.held, &mut self.received)
    }

    async fn receive(&mut self) -> io::Result<()> {
        if let Some(lines) = &mut self.lines {
            if !lines.open {
                lines.http.post_streaming(path::RECV_STREAM, self.codec.recv()).await?;
            }
            // The server sends the messages of one batch as one chunk.
            let chunk = lines.http.next_chunk().await?;
            lines.open = chunk.is_some();
            let lines = chunk.unwrap_or_default().split(|byte| *byte == b'\n');
            let messages = lines.filter(|line| !line.is_empty()).map(read);
            let messages: Vec<Envelope<'_>> = messages.collect::<io::Result<_>>()?;
            return take(&messages, &mut self.held, &mut self.received);
        }
        let answer = self.http.post(path::RECV, self.codec.recv()).await?;
        let worked: Worked<'_> = read(answer)?;
        take(&worked.messages, &mut self.held, &mut self.received)
    }
}

fn take(messages: &[Envelope<'_>], held: &mut Vec<String>, received: &mut Vec<u64>) -> io::Result<()> {
    held.clear();
    received.clear();
    for Envelope { receipt, idem_key } in messages {
        held.push((*receipt).to_owned());
        let key = Key::parse(idem_key);
        received.push(key.ok_or_else(|| unexpected("a request for a key", idem_key.as_bytes()))?.number);
    }
    Ok(())
}

fn settled(results: &[codec::Settled], answer: &[u8]) -> io::Result<()> {
    let refused = results.iter().any(|settled| !settled.ok);
    if refused { Err(unexpected("an acknowledgement", answer)) } else { Ok(()) }
}

fn read<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> io::Result<T> {
    serde_json::from_slice(answer).map_err(|error| unexpected(&format!("a request ({error})"), answer))
}
