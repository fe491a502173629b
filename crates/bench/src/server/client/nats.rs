//! NATS `JetStream`: publish with a message id and confirmation, pull, acknowledge with confirmation.

use std::io;

use super::connection::{Connection, number};
use super::{Client, Key, unexpected};
use crate::server::job::{Job, PAYLOAD_BYTES};

const STREAM: &str = include_str!("nats/stream.json");
const CONSUMER: &str = include_str!("nats/consumer.json");
const CONNECT: &str = r#"CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"rust","version":"0"}"#;
/// Far longer than any pull takes, because version 2.9 does not answer a pull that expires while messages are being
/// delivered to it. Without an expiry, a pull whose messages went to other consumers would never be answered.
const EXPIRES_NS: u64 = 30_000_000_000;

pub(crate) struct Nats {
    connection: Connection,
    batch: usize,
    /// The subject for responses.
    inbox: String,
    payload: String,
}

/// A message that arrives in the inbox.
struct Incoming {
    /// The subject for its acknowledgement, if it is a message of the stream.
    reply: Option<String>,
    /// Headers and body.
    content: Vec<u8>,
}

impl Client for Nats {
    async fn open(job: &Job, number: usize) -> io::Result<Self> {
        let mut connection = Connection::open(job.port).await?;
        connection.line().await?;
        let inbox = format!("_INBOX.{:x}.{number}", job.run);
        connection.put(format!("{CONNECT}\r\nSUB {inbox} 1\r\nPING\r\n"));
        connection.flush().await?;
        let pong = connection.line().await?;
        if pong != b"PONG" {
            return Err(unexpected("CONNECT", pong));
        }
        let payload = "x".repeat(PAYLOAD_BYTES);
        let mut nats = Self { connection, batch: job.load.batch, inbox, payload };
        if number == 0 {
            nats.request("$JS.API.STREAM.CREATE.BENCH", STREAM).await?;
            nats.request("$JS.API.CONSUMER.DURABLE.CREATE.BENCH.workers", CONSUMER).await?;
        }
        Ok(nats)
    }

    async fn send(&mut self, keys: &[Key]) -> io::Result<()> {
        let Self { inbox, payload, .. } = self;
        for key in keys {
            let header = format!("NATS/1.0\r\nNats-Msg-Id: {key}\r\n\r\n");
            let (length, total) = (header.len(), header.len() + payload.len());
            self.connection.put(format!("HPUB bench {inbox} {length} {total}\r\n{header}{payload}\r\n"));
        }
        self.connection.flush().await?;
        for _ in keys {
            let Incoming { content, .. } = self.incoming().await?;
            if !contains(&content, b"\"seq\"") || contains(&content, b"\"duplicate\"") {
                return Err(unexpected("HPUB", &content));
            }
        }
        Ok(())
    }

    async fn work(&mut self) -> io::Result<usize> {
        let pull = format!(r#"{{"batch":{},"no_wait":true,"expires":{EXPIRES_NS}}}"#, self.batch);
        self.publish("$JS.API.CONSUMER.MSG.NEXT.BENCH.workers", &pull);
        self.connection.flush().await?;
        let mut received = 0;
        let mut acks = Vec::new();
        while received < self.batch {
            let Incoming { reply, content } = self.incoming().await?;
            match reply {
                Some(reply) => acks.push(reply),
                // No more messages.
                None if content.starts_with(b"NATS/1.0 404") || content.starts_with(b"NATS/1.0 408") => break,
                None => return Err(unexpected("a pull", &content)),
            }
            received += 1;
        }
        for reply in &acks {
            self.publish(reply, "+ACK");
        }
        if received > 0 {
            self.connection.flush().await?;
        }
        for _ in &acks {
            let Incoming { content, .. } = self.incoming().await?;
            if !content.is_empty() {
                return Err(unexpected("+ACK", &content));
            }
        }
        Ok(received)
    }

    fn has_unacked(&self) -> bool {
        false
    }

    async fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Nats {
    /// Publishes a message that requests a response.
    fn publish(&mut self, subject: &str, body: &str) {
        let (inbox, length) = (&self.inbox, body.len());
        self.connection.put(format!("PUB {subject} {inbox} {length}\r\n{body}\r\n"));
    }

    async fn request(&mut self, subject: &str, body: &str) -> io::Result<()> {
        self.publish(subject, body);
        self.connection.flush().await?;
        let Incoming { content, .. } = self.incoming().await?;
        if contains(&content, b"\"error\"") { Err(unexpected(subject, &content)) } else { Ok(()) }
    }

    /// The next message in the inbox: `MSG subject sid [reply] bytes`, or `HMSG subject sid [reply] bytes bytes` with
    /// headers.
    async fn incoming(&mut self) -> io::Result<Incoming> {
        loop {
            let line = self.connection.line().await?;
            if line == b"PING" {
                self.connection.put("PONG\r\n");
                self.connection.flush().await?;
                continue;
            }
            // Without a reply subject, the server writes two spaces.
            let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let words: Vec<&[u8]> = words.collect();
            let plain = match *words.first().unwrap_or(&line) {
                b"MSG" => 4,
                b"HMSG" => 5,
                _ => return Err(unexpected("a subscription", line)),
            };
            let reply = words.get(3).filter(|_| words.len() > plain);
            let reply = reply.map(|reply| String::from_utf8_lossy(reply).into_owned());
            let length = number(words[words.len() - 1], 10)?;
            let content = self.connection.bytes(length + 2).await?;
            return Ok(Incoming { reply, content: content[..length].to_vec() });
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
