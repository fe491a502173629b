//! Integrity checks: a stored message that was changed is never delivered.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use oncebox::mailbox::{
    Damaged, Mailbox, MailboxSettings, MsgId, OutgoingMessage, Receive, SendOutcome, Settle, SettleOutcome,
};
use oncebox::{
    MessageState, Oncebox,
    message::{DeadReason, Payload},
};
use oncebox_core::{
    Accepted, Attributes, Begin, Begun, Budget, Capabilities, Claim, Counts, Delivery, Error, Extended,
    Extension, Fingerprint, Id, Interest, Key, MaintenanceReport, MessagePage, MessageQuery, MessageRef,
    NewMessage, Observation, Observed, Omitted, Operated, Order, PageSize, ReadyTopics, RecordOp,
    RecordOutcome, Scope, Settlement, Snapshot, Store, Timestamp, Topic, TopicPage, TopicQuery, Usage,
    Wakeups, Worked,
};
use sqlx::PgPool;

use super::fixture::{on_every_store, postgres_in};

type Change = fn(&mut Delivery);

/// A store that tampers with its deliveries.
struct Tampering {
    store: Arc<dyn Store>,
    change: Mutex<Option<Change>>,
}

impl Tampering {
    fn set(&self, change: Option<Change>) {
        *self.change.lock().unwrap_or_else(PoisonError::into_inner) = change;
    }
}

#[async_trait]
impl Store for Tampering {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.store.wakeups(interest)
    }
    async fn observe(&self, items: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.store.observe(items).await
    }
    async fn accept(&self, items: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.store.accept(items).await
    }
    async fn begin(&self, items: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.store.begin(items).await
    }
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let mut worked = self.store.work(settlements, claims).await?;
        let change = *self.change.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(change) = change {
            worked.deliveries.iter_mut().flatten().for_each(change);
        }
        Ok(worked)
    }
    async fn extend(&self, items: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.store.extend(items).await
    }
    async fn operate(&self, items: &[Order]) -> Result<Vec<Operated>, Error> {
        self.store.operate(items).await
    }
    async fn get(&self, items: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.store.get(items).await
    }
    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.store.with_key(key, limit).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.store.page(query).await
    }
    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.store.counts(scope).await
    }
    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.store.ready_topics(query).await
    }
    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.store.topic_counts(query).await
    }
    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.store.records(ops).await
    }
    async fn usage(&self) -> Result<Usage, Error> {
        self.store.usage().await
    }
    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.store.maintain(budget).await
    }
    async fn close(&self) -> Result<(), Error> {
        self.store.close().await
    }
}

/// Changes to every field that the hash chain covers, to the payload, its hash, and the seal itself.
const CHANGES: [(&str, Change); 10] = [
    ("payload", |delivery| {
        let mut bytes = delivery.content.payload.as_bytes().to_vec();
        bytes[0] ^= 1;
        delivery.content.payload = Payload::new(bytes).expect("same length as before");
    }),
    ("payload and its hash", |delivery| {
        delivery.content.payload = Payload::new("forged").expect("short");
        delivery.fingerprint = Fingerprint::of_bytes(b"forged");
    }),
    ("payload hash", |delivery| delivery.fingerprint = Fingerprint::of_bytes(b"forged")),
    ("topic", |delivery| delivery.content.topic = Topic::new("u").expect("short")),
    ("idempotency key", |delivery| delivery.key.id = Id::new("l").expect("short")),
    ("value of an attribute", |delivery| delivery.content.attributes = attributes([("a", "2")])),
    ("missing attribute", |delivery| delivery.content.attributes = attributes([])),
    ("timestamp", |delivery| {
        let seal = delivery.content.seal.as_mut().expect("the message is sealed");
        seal.at = Timestamp::from_millis(seal.at.as_millis() ^ 1);
    }),
    ("chain", |delivery| {
        let seal = delivery.content.seal.as_mut().expect("the message is sealed");
        let mut bytes = *seal.chain.as_bytes();
        bytes[31] ^= 0x80;
        seal.chain = Fingerprint::from_bytes(bytes);
    }),
    ("missing seal", |delivery| delivery.content.seal = None),
];

fn attributes<const N: usize>(pairs: [(&str, &str); N]) -> Attributes {
    Attributes::new(pairs).expect("few and short")
}

async fn send(mailbox: &Mailbox, idem_key: &str) -> MsgId {
    let message =
        OutgoingMessage::new("t", idem_key).bytes("hello").attributes([("a", "1")]).corr_id(CORR_ID);
    match mailbox.send(message).await.unwrap() {
        SendOutcome::Accepted(receipt) => receipt.msg_id,
        outcome => panic!("{idem_key} is new: {outcome:?}"),
    }
}

const CORR_ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// After any change, the message is not delivered, the receiver gets its id, and it becomes a dead letter; unchanged,
/// it is delivered. Replays R-T7.
/// Holds: MBX-G-7, MBX-I-12, RULE-18.
#[test]
fn a_tampered_message_is_never_delivered_and_is_reported_to_the_receiver() {
    on_every_store(async |fixture| {
        let tampering = Arc::new(Tampering { store: fixture.store.clone(), change: Mutex::new(None) });
        let oncebox = Oncebox::builder().clock(fixture.clock.clone()).on(tampering.clone()).unwrap();
        let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
        for (field, change) in CHANGES {
            let id = send(&mailbox, field).await;
            tampering.set(Some(change));
            let received = mailbox.receive(Receive::new("t")).await.unwrap();
            tampering.set(None);
            assert_eq!(received.envelopes, [], "{field}");
            assert_eq!(ids(&received.damaged), [(id, CORR_ID)], "{field}");
            let dead = mailbox.operator("ann").show(id).await.unwrap().unwrap();
            let state = (dead.state, dead.dead);
            assert_eq!(state, (MessageState::Dead, Some(DeadReason::Integrity)), "{field}");
            mailbox.operator("ann").redrive(id).await.unwrap();
            let intact = mailbox.receive(Receive::new("t")).await.unwrap();
            assert_eq!((intact.envelopes[0].msg_id, intact.damaged.len()), (id, 0), "{field}");
            assert_eq!(mailbox.ack(intact.envelopes[0].receipt).await.unwrap(), SettleOutcome::Ok);
        }
    });
}

/// Intact messages are delivered next to damaged ones, and settlements of the same call get their outcomes.
/// Holds: MBX-G-7.
#[test]
fn a_damaged_message_does_not_block_intact_ones() {
    on_every_store(async |fixture| {
        let tampering = Arc::new(Tampering { store: fixture.store.clone(), change: Mutex::new(None) });
        let oncebox = Oncebox::builder().clock(fixture.clock.clone()).on(tampering.clone()).unwrap();
        let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
        send(&mailbox, "first").await;
        let held = mailbox.receive(Receive::new("t")).await.unwrap().envelopes.remove(0);
        let damaged = send(&mailbox, "damaged").await;
        send(&mailbox, "intact").await;
        tampering.set(Some(|delivery| {
            if delivery.key.id.as_str() == "damaged" {
                delivery.content.seal = None;
            }
        }));
        let work = mailbox.work(vec![Settle::ack(held.receipt)], Receive::new("t"));
        let (outcomes, received) = work.await.unwrap();
        assert_eq!(outcomes, [SettleOutcome::Ok]);
        assert_eq!(
            received.envelopes.iter().map(|one| one.idem_key.as_str()).collect::<Vec<_>>(),
            ["intact"]
        );
        assert_eq!(ids(&received.damaged), [(damaged, CORR_ID)]);
    });
}

fn ids(damaged: &[Damaged]) -> Vec<(MsgId, &str)> {
    damaged.iter().map(|one| (one.msg_id, one.corr_id.as_str())).collect()
}

/// A row that was changed directly in the database fails the integrity check.
/// Holds: MBX-G-7, MBX-I-12.
#[tokio::test(crate = "crate::timed")]
async fn a_message_whose_row_was_changed_is_never_delivered() {
    let (store, pool) = postgres_in("integrity", None).await;
    let mailbox = Oncebox::builder().on(store).unwrap().mailbox(MailboxSettings::default()).unwrap();
    for change in [
        "payload = set_byte(payload, 0, get_byte(payload, 0) # 1)",
        "fingerprint = set_byte(fingerprint, 7, get_byte(fingerprint, 7) # 1)",
        "attributes = '{\"a\": \"2\"}'",
        "attributes = null",
        "id = id || '2'",
        "seal = set_byte(seal, 7, get_byte(seal, 7) # 1)",
        "seal = set_byte(seal, 39, get_byte(seal, 39) # 1)",
        "seal = null",
    ] {
        let id = send(&mailbox, change).await;
        let changed = change_row(&pool, change).await;
        assert_eq!(changed, 1, "{change}");
        let received = mailbox.receive(Receive::new("t")).await.unwrap();
        assert_eq!(received.envelopes, [], "{change}");
        assert_eq!(ids(&received.damaged), [(id, CORR_ID)], "{change}");
        let dead = mailbox.operator("ann").show(id).await.unwrap().unwrap();
        assert_eq!(dead.dead, Some(DeadReason::Integrity), "{change}");
    }
}

async fn change_row(pool: &PgPool, change: &str) -> u64 {
    let text = format!("update integrity.message set {change} where state = 1");
    sqlx::query(sqlx::AssertSqlSafe(text)).execute(pool).await.unwrap().rows_affected()
}
