//! Claims from lanes that are held back after a restart: what processes that began gave out of them is locked meanwhile.

use std::collections::BTreeSet;

use sqlx::{Acquire, PgConnection};

use super::look::{Care, Look, Read, Requests};
use super::settle::Settling;
use crate::locked::Failure;
use crate::restart::{Ahead, Inherited};
use crate::store::PostgresStore;

impl PostgresStore {
    /// Locks what was given out of the lanes, claims, and writes what is given out now. If another process holds that for long, these
    /// lanes give nothing this time.
    pub(super) async fn ask_held(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        requests: &Requests<'_>,
        read: &Read<'_>,
        inherited: &Inherited,
        care: Care,
    ) -> Result<Look, Failure> {
        let held = inherited.held(read.lanes);
        let mut transaction = connection.begin().await?;
        let mut ahead = match self.lock_ahead(&mut transaction, &held).await {
            Err(Failure::Locked) => {
                transaction.rollback().await?;
                transaction = connection.begin().await?;
                Ahead::new()
            }
            locked => locked?,
        };
        let limits = inherited.limits(read.lanes, read.quota, &ahead);
        let read = Read { limits: &limits, ..*read };
        let mut look = self.ask_once(&mut transaction, settling, requests, &read, care).await?;
        let given = look.numbers();
        self.restart.note(inherited, &mut ahead, &given);
        let lanes: BTreeSet<_> = given.iter().map(|(lane, ..)| lane).collect();
        self.put_ahead(&mut transaction, &ahead, &lanes).await?;
        transaction.commit().await?;
        look.held_back(&limits);
        Ok(look)
    }
}
