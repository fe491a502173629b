//! Redis Streams: a script that sets the key and appends to the stream, a consumer group, `XACK` and `XDEL`.

use std::io;

use super::connection::{Connection, number};
use super::{Client, Key, unexpected};
use crate::server::job::{Job, PAYLOAD_BYTES};

const ACCEPT: &str = include_str!("redis/accept.lua");
const STREAM: &str = "bench";
const GROUP: &str = "workers";

pub(crate) struct Redis {
    connection: Connection,
    batch: usize,
    consumer: String,
    /// The hash of the loaded script.
    accept: String,
    payload: String,
}

impl Client for Redis {
    async fn open(job: &Job, number: usize) -> io::Result<Self> {
        let mut connection = Connection::open(job.port).await?;
        command(&mut connection, &["SCRIPT", "LOAD", ACCEPT]);
        connection.flush().await?;
        let accept = String::from_utf8_lossy(&bulk(&mut connection).await?).into_owned();
        if number == 0 {
            command(&mut connection, &["XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"]);
            connection.flush().await?;
            let answer = connection.line().await?;
            if answer != b"+OK" && !answer.starts_with(b"-BUSYGROUP") {
                return Err(unexpected("XGROUP CREATE", answer));
            }
        }
        let (batch, consumer) = (job.load.batch, format!("c{number}"));
        Ok(Self { connection, batch, consumer, accept, payload: "x".repeat(PAYLOAD_BYTES) })
    }

    async fn send(&mut self, keys: &[Key]) -> io::Result<()> {
        for key in keys {
            let key = key.to_string();
            let words = ["EVALSHA", &self.accept, "2", &key, STREAM, &self.payload];
            command(&mut self.connection, &words);
        }
        self.connection.flush().await?;
        for _ in keys {
            bulk(&mut self.connection).await?;
        }
        Ok(())
    }

    async fn work(&mut self) -> io::Result<usize> {
        let count = self.batch.to_string();
        let words = ["XREADGROUP", "GROUP", GROUP, &self.consumer, "COUNT", &count, "STREAMS", STREAM, ">"];
        command(&mut self.connection, &words);
        self.connection.flush().await?;
        let ids = self.entries().await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        command(&mut self.connection, &[&["XACK", STREAM, GROUP], &*ids].concat());
        command(&mut self.connection, &[&["XDEL", STREAM], &*ids].concat());
        self.connection.flush().await?;
        for what in ["XACK", "XDEL"] {
            let answer = self.connection.line().await?;
            if answer != format!(":{}", ids.len()).as_bytes() {
                return Err(unexpected(what, answer));
            }
        }
        Ok(ids.len())
    }

    fn has_unacked(&self) -> bool {
        false
    }

    async fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Redis {
    /// The ids in the response to `XREADGROUP`: none, or one stream with its entries, each an id and its fields.
    async fn entries(&mut self) -> io::Result<Vec<String>> {
        let connection = &mut self.connection;
        let streams = connection.line().await?;
        if streams == b"*-1" {
            return Ok(Vec::new());
        }
        if streams != b"*1" {
            return Err(unexpected("XREADGROUP", streams));
        }
        array(connection).await?;
        bulk(connection).await?;
        let mut ids = Vec::new();
        for _ in 0..array(connection).await? {
            array(connection).await?;
            ids.push(String::from_utf8_lossy(&bulk(connection).await?).into_owned());
            for _ in 0..array(connection).await? {
                bulk(connection).await?;
            }
        }
        Ok(ids)
    }
}

fn command(connection: &mut Connection, words: &[&str]) {
    connection.put(format!("*{}\r\n", words.len()));
    for word in words {
        connection.put(format!("${}\r\n", word.len()));
        connection.put(word);
        connection.put("\r\n");
    }
}

async fn array(connection: &mut Connection) -> io::Result<usize> {
    let line = connection.line().await?;
    let Some(count) = line.strip_prefix(b"*") else {
        return Err(unexpected("a command that returns an array", line));
    };
    number(count, 10)
}

async fn bulk(connection: &mut Connection) -> io::Result<Vec<u8>> {
    let line = connection.line().await?;
    let length = line.strip_prefix(b"$").filter(|length| *length != b"-1");
    let length = number(length.ok_or_else(|| unexpected("a command that returns a string", line))?, 10)?;
    let bytes = connection.bytes(length + 2).await?;
    Ok(bytes[..length].to_vec())
}
