//! Our server's mailbox over HTTP. What is sent is written by hand, and of what comes only the needed fields are read.

mod shapes;

use std::io;

use oncebox_wire::path;
use serde::Deserialize;

use self::shapes::{Envelope, Sent, Shapes, Worked};
use super::http::Http;
use super::{Client, Key, unexpected};
use crate::server::job::{Job, Style};

pub(crate) struct Oncebox {
    http: Http,
    /// Where messages come as lines, while the other connection acknowledges.
    lines: Option<Lines>,
    shapes: Shapes,
    style: Style,
    batch: usize,
    /// The receipts of what was received and not yet acknowledged.
    held: Vec<String>,
    /// The numbers of what the last call received.
    pub(crate) arrived: Vec<u64>,
}

struct Lines {
    http: Http,
    /// More may come.
    open: bool,
}

/// Whether the server can work.
pub(crate) async fn ready(port: u16) -> io::Result<()> {
    Http::open(port).await?.get(path::READYZ).await.map(drop)
}

impl Client for Oncebox {
    async fn open(job: &Job, _number: usize) -> io::Result<Self> {
        let (http, shapes) = (Http::open(job.port).await?, Shapes::new(job.load.batch));
        let lines = match job.load.style {
            Style::Lines => Some(Lines { http: Http::open(job.port).await?, open: false }),
            Style::Work | Style::TwoCalls => None,
        };
        let (held, arrived) = (Vec::new(), Vec::new());
        Ok(Self { http, lines, shapes, style: job.load.style, batch: job.load.batch, held, arrived })
    }

    async fn send(&mut self, keys: &[Key]) -> io::Result<()> {
        if let [key] = keys {
            let answer = self.http.post(path::SEND, self.shapes.send(*key)).await?;
            let sent: Sent = read(answer)?;
            return if sent.duplicate { Err(unexpected(path::SEND, answer)) } else { Ok(()) };
        }
        let answer = self.http.post(path::SEND_BATCH, self.shapes.send_batch(keys)).await?;
        let batch: shapes::SentBatch = read(answer)?;
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
        Ok(self.arrived.len())
    }

    fn holds(&self) -> bool {
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
                let answer = self.http.post(path::SETTLE, self.shapes.settle(&self.held)).await?;
                settled(&read::<Worked>(answer)?.results, answer)?;
            }
        }
        self.held.clear();
        Ok(())
    }
}

impl Oncebox {
    /// Acknowledges what is held and receives the next, waiting so long if there is none.
    pub(crate) async fn work_waiting(&mut self, wait_ms: Option<u64>) -> io::Result<()> {
        let answer = self.http.post(path::WORK, self.shapes.work(&self.held, wait_ms)).await?;
        let worked: Worked<'_> = read(answer)?;
        settled(&worked.results, answer)?;
        take(&worked.messages, &mut self.held, &mut self.arrived)
    }

    async fn receive(&mut self) -> io::Result<()> {
        if let Some(lines) = &mut self.lines {
            if !lines.open {
                lines.http.post_for_pieces(path::RECV_STREAM, self.shapes.recv()).await?;
            }
            // What the server gives out at once comes as one piece.
            let piece = lines.http.piece().await?;
            lines.open = piece.is_some();
            let lines = piece.unwrap_or_default().split(|byte| *byte == b'\n');
            let messages = lines.filter(|line| !line.is_empty()).map(read);
            let messages: Vec<Envelope<'_>> = messages.collect::<io::Result<_>>()?;
            return take(&messages, &mut self.held, &mut self.arrived);
        }
        let answer = self.http.post(path::RECV, self.shapes.recv()).await?;
        let worked: Worked<'_> = read(answer)?;
        take(&worked.messages, &mut self.held, &mut self.arrived)
    }
}

fn take(messages: &[Envelope<'_>], held: &mut Vec<String>, arrived: &mut Vec<u64>) -> io::Result<()> {
    held.clear();
    arrived.clear();
    for Envelope { receipt, idem_key } in messages {
        held.push((*receipt).to_owned());
        let key = Key::parse(idem_key);
        arrived.push(key.ok_or_else(|| unexpected("a wish for a key", idem_key.as_bytes()))?.number);
    }
    Ok(())
}

fn settled(results: &[shapes::Settled], answer: &[u8]) -> io::Result<()> {
    let refused = results.iter().any(|settled| !settled.ok);
    if refused { Err(unexpected("an acknowledgement", answer)) } else { Ok(()) }
}

fn read<'a, T: Deserialize<'a>>(answer: &'a [u8]) -> io::Result<T> {
    serde_json::from_slice(answer).map_err(|error| unexpected(&format!("a request ({error})"), answer))
}
