//! Implements the store port on PostgreSQL.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation, Observed, Omitted,
    Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot, Store,
    Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked, check_records, check_work,
};
use tokio::time::timeout;

use crate::hints::Effects;
use crate::store::PostgresStore;
use oncebox_store_rows::Targets;

/// How long `close` waits for open transactions.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        (capabilities.durable, capabilities.shared) = (true, true);
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.hints.notifier.listen(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.check_items(observations.len())?;
        self.decide(
            observations,
            |targets, observation| targets.add_key(&observation.key),
            |machine, context, item| match machine.observe(context, item) {
                Observed::Saturated { retry_after, bound } => {
                    Observed::Saturated { retry_after, bound: self.with_store_limit(bound) }
                }
                other => other,
            },
        )
        .await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.check_items(messages.len())?;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let call = async {
            let mut connection = self.connection().await?;
            let mut effects = Effects::default();
            let accepted = self.accept_on(&mut connection, &self.sql.accept, messages, &mut effects).await;
            // Messages that were accepted before a failure must be found, too.
            self.hints.apply(effects);
            Self::release(connection, accepted)
        };
        self.availability.guard(call).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.check_items(begins.len())?;
        self.decide(
            begins,
            |targets, begin| targets.add_key(&begin.key),
            |machine, context, item| match machine.begin(context, item) {
                Begun::Saturated { retry_after, bound } => {
                    Begun::Saturated { retry_after, bound: self.with_store_limit(bound) }
                }
                other => other,
            },
        )
        .await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.check_open()?;
        check_work(settlements.len(), claims)?;
        if settlements.is_empty() && claims.is_empty() {
            return Ok(Worked { settled: Vec::new(), deliveries: Vec::new() });
        }
        // Boxed, because the future is large and every caller would carry it.
        self.availability.guard(Box::pin(self.settle_and_claim(settlements, claims))).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.check_items(extensions.len())?;
        let mut extended = Vec::with_capacity(extensions.len());
        let mut rest: Vec<&Extension> = extensions.iter().collect();
        // Each message once per statement; the order of the items of one message is kept.
        while !rest.is_empty() {
            let mut seen = HashSet::new();
            let run = rest.iter().take_while(|item| seen.insert(item.uid)).count();
            let later = rest.split_off(run);
            extended.extend(self.availability.guard(self.extend_all(&rest)).await?);
            rest = later;
        }
        Ok(extended)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.check_items(orders.len())?;
        self.hints.depths.clear();
        self.decide(orders, Targets::add_order, |machine, context, item| {
            match machine.operate(context, item) {
                Operated::Saturated { retry_after, bound } => {
                    Operated::Saturated { retry_after, bound: self.with_store_limit(bound) }
                }
                other => other,
            }
        })
        .await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.check_items(refs.len())?;
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        self.availability.guard(self.find(refs)).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.check_open()?;
        self.availability.guard(self.find_by_key(key, limit)).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.check_open()?;
        self.availability.guard(self.list(query)).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.check_open()?;
        self.availability.guard(self.count(scope)).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.check_open()?;
        self.availability.guard(self.topics_with_work(query)).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.check_open()?;
        self.availability.guard(self.count_topics(query)).await
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.check_items(ops.len())?;
        check_records(ops)?;
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        self.availability.guard(Box::pin(self.run_record_ops(ops))).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.check_open()?;
        self.availability.guard(self.usage_now()).await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.check_open()?;
        self.availability.guard(self.run_maintenance(budget)).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.hints.notifier.close();
        let closing = async {
            let closed = async { tokio::join!(self.pool.close(), self.reserve.close()) };
            if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
                tracing::warn!(store = %self.name, "transactions still open at close: their connections are closed when they end");
            }
            Ok(())
        };
        // If the database does not answer, connections are dropped without a proper close, which loses nothing.
        let _ = self.availability.run_while_up(std::pin::pin!(closing)).await;
        self.availability.end();
        Ok(())
    }
}
