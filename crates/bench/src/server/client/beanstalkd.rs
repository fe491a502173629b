//! beanstalkd: `put`, `reserve`, `delete`. It has no batches; the commands of a batch are pipelined.

use std::io;

use super::connection::{Connection, number};
use super::{Client, Key, unexpected};
use crate::server::job::{Job, PAYLOAD_BYTES};

pub(crate) struct Beanstalkd {
    connection: Connection,
    batch: usize,
    payload: Vec<u8>,
}

impl Client for Beanstalkd {
    async fn open(job: &Job, _number: usize) -> io::Result<Self> {
        let mut connection = Connection::open(job.port).await?;
        connection.put("use bench\r\nwatch bench\r\n");
        connection.flush().await?;
        for expected in ["USING", "WATCHING"] {
            expect(connection.line().await?, expected)?;
        }
        Ok(Self { connection, batch: job.load.batch, payload: vec![b'x'; PAYLOAD_BYTES] })
    }

    /// It does not detect duplicates: the key is just the start of the payload.
    async fn send(&mut self, keys: &[Key]) -> io::Result<()> {
        for key in keys {
            let key = key.to_string();
            self.payload[..key.len()].copy_from_slice(key.as_bytes());
            self.connection.put(format!("put 0 0 600 {PAYLOAD_BYTES}\r\n"));
            self.connection.put(&self.payload);
            self.connection.put("\r\n");
        }
        self.connection.flush().await?;
        for _ in keys {
            expect(self.connection.line().await?, "INSERTED")?;
        }
        Ok(())
    }

    async fn work(&mut self) -> io::Result<usize> {
        for _ in 0..self.batch {
            self.connection.put("reserve-with-timeout 0\r\n");
        }
        self.connection.flush().await?;
        let mut deletes = Vec::new();
        let mut received = 0;
        for _ in 0..self.batch {
            let line = self.connection.line().await?;
            if line == b"TIMED_OUT" {
                continue;
            }
            let rest = expect(line, "RESERVED")?;
            let mut words = rest.split(|byte| *byte == b' ');
            let (Some(id), Some(length)) = (words.next(), words.next()) else {
                return Err(unexpected("reserve", line));
            };
            deletes.extend_from_slice(b"delete ");
            deletes.extend_from_slice(id);
            deletes.extend_from_slice(b"\r\n");
            let length = number(length, 10)?;
            self.connection.bytes(length + 2).await?;
            received += 1;
        }
        if received > 0 {
            self.connection.put(deletes);
            self.connection.flush().await?;
        }
        for _ in 0..received {
            expect(self.connection.line().await?, "DELETED")?;
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

/// The rest of the line after the expected first word.
fn expect<'a>(line: &'a [u8], word: &str) -> io::Result<&'a [u8]> {
    let rest = line.strip_prefix(word.as_bytes());
    rest.map(<[u8]>::trim_ascii_start)
        .ok_or_else(|| unexpected(&format!("a command that returns {word}"), line))
}
