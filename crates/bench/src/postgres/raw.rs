//! The rival: a well-written queue on `SKIP LOCKED` with one statement and one commit per step. It keeps the keys of
//! done messages, or deletes them.

use std::sync::Arc;

use oncebox_core::NewMessage;
use oncebox_system::uptime;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgPool, Postgres, Row};

use crate::drive::{LifecycleTimes, Side};

/// What happens to an acknowledged message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ack {
    Keep,
    Forget,
}

pub(super) struct Raw {
    pool: PgPool,
    accept: Arc<str>,
    accept_many: Arc<str>,
    claim: Arc<str>,
    claim_many: Arc<str>,
    ack: Arc<str>,
}

impl Raw {
    /// Creates a new table in `schema`.
    pub(super) async fn open(pool: PgPool, schema: &str, ack: Ack) -> Result<Self, sqlx::Error> {
        let render = |text: &str| Arc::<str>::from(text.replace("{schema}", schema));
        for text in [include_str!("raw/queue.sql"), include_str!("raw/ready.sql")] {
            query(&render(text)).execute(&pool).await?;
        }
        let ack = match ack {
            Ack::Keep => include_str!("raw/keep.sql"),
            Ack::Forget => include_str!("raw/forget.sql"),
        };
        Ok(Self {
            pool,
            accept: render(include_str!("raw/accept.sql")),
            accept_many: render(include_str!("raw/accept_many.sql")),
            claim: render(include_str!("raw/claim.sql")),
            claim_many: render(include_str!("raw/claim_many.sql")),
            ack: render(ack),
        })
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<u64, sqlx::Error> {
        let inserted = if let [NewMessage { key, content, .. }] = messages {
            let payload = content.payload.as_bytes();
            query(&self.accept).bind(key.id.as_str()).bind(content.topic.as_str()).bind(payload)
        } else {
            let keys: Vec<&str> = messages.iter().map(|message| message.key.id.as_str()).collect();
            let topics: Vec<&str> = messages.iter().map(|message| message.content.topic.as_str()).collect();
            let payloads: Vec<&[u8]> =
                messages.iter().map(|message| message.content.payload.as_bytes()).collect();
            query(&self.accept_many).bind(keys).bind(topics).bind(payloads)
        };
        Ok(inserted.execute(&self.pool).await?.rows_affected())
    }

    /// Also reads the messages, as a worker would.
    async fn claim(&self, owner: i32, batch: usize) -> Result<Vec<i64>, sqlx::Error> {
        let claimed = match batch {
            1 => query(&self.claim).bind(owner),
            _ => query(&self.claim_many).bind(owner).bind(i64::try_from(batch).unwrap_or(i64::MAX)),
        };
        let rows = claimed.fetch_all(&self.pool).await?;
        let ids = rows.iter().map(|row| {
            let message: (String, String, Vec<u8>) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            std::hint::black_box(message);
            row.try_get(0)
        });
        ids.collect()
    }

    async fn ack(&self, owner: i32, ids: &[i64]) -> Result<u64, sqlx::Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        Ok(query(&self.ack).bind(ids).bind(owner).execute(&self.pool).await?.rows_affected())
    }
}

/// Prepared once per connection and run in its own transaction.
fn query<'q>(text: &Arc<str>) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(text)))
}

impl Side for Raw {
    async fn lifecycle(&self, caller: usize, messages: &[NewMessage]) -> LifecycleTimes {
        let owner = i32::try_from(caller).expect("few callers");
        let start = uptime();
        let accepted = self.accept(messages).await.expect("accept");
        let between = uptime();
        assert_eq!(accepted, messages.len() as u64, "every key is new");
        let ids = self.claim(owner, messages.len()).await.expect("claim");
        let claim = uptime().saturating_sub(between);
        let acked = self.ack(owner, &ids).await.expect("ack");
        assert_eq!(acked, ids.len() as u64, "no lease is lost");
        LifecycleTimes { accept: between.saturating_sub(start), claim, messages: ids.len() }
    }
}
