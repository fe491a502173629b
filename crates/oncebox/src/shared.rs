//! The open inbox, and the state that all of its handles share.

use std::fmt;
use std::num::NonZeroU128;
use std::sync::{Arc, Mutex, PoisonError};

use oncebox_core::{
    Backoff, Capabilities, Clock, DeadLetters, Error, Namespace, Owner, Rng, Span, Store, Usage,
};

use crate::activity::{self, Activity};
use crate::builder::{OnceboxBuilder, Settings};
use crate::commands::{Contracts, Scheduler};
use crate::handled_topics::HandledTopics;
use crate::health::{Health, LoopMonitors};
use crate::inbox::Inbox;
use crate::ledger::Ledger;
use crate::mailbox::{Mailbox, MailboxSettings};
use crate::maintenance::{Maintenance, UnhandledWarnings};
use crate::operator::Operator;
use crate::queue::WorkQueue;
use crate::transaction::Transactions;

/// An open inbox. Cheap to clone. Pass the narrow handles, such as [`Inbox`], to code that needs no more.
#[derive(Clone)]
pub struct Oncebox(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// Changes when this process uses the store; only set if other processes share it.
    pub(crate) activity: Option<Activity>,
    /// The same store, if it supports transactions.
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    /// The name of the store in logs (IBX-113).
    pub(crate) name: Arc<str>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// The topics that workers of this process handle.
    pub(crate) handled_topics: HandledTopics,
    /// The topics without a handler that maintenance has warned about.
    pub(crate) unhandled_warnings: UnhandledWarnings,
    /// The loops that health checks include.
    pub(crate) monitors: LoopMonitors,
    /// The retention of dead letters, once a mailbox has been opened.
    dead_letters: Mutex<Option<Arc<DeadLetters>>>,
    rng: Mutex<Box<dyn Rng>>,
}

impl Oncebox {
    /// Opens an inbox by its URL, with the default settings.
    ///
    /// - `memory:` keeps everything in memory, for tests and for data that may be lost.
    /// - `embedded:DIRECTORY` keeps everything in a directory that only one process can have open. A call returns when
    ///   its changes are on disk; `?durability=os` or `?durability=interval-50ms` trades that for speed.
    ///
    /// Both accept the limits `messages_max`, `keys_max` and `live_bytes_max`, as in `memory:?messages_max=1000`.
    ///
    /// - `postgres://USER@HOST/DATABASE` keeps everything in a PostgreSQL database that any number of processes can
    ///   share. It needs the feature `postgres`. `?ensure=yes` creates the tables; the guide explains `schema`,
    ///   `connections` and `pooler`. To use your own pool, see `OnceboxBuilder::on_postgres`.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::builder().open(url).await
    }

    /// A builder, to open an inbox with other settings or on a store that is already open.
    pub fn builder() -> OnceboxBuilder {
        OnceboxBuilder::default()
    }

    pub(crate) fn new(
        store: Arc<dyn Store>,
        transactions: Option<Arc<dyn Transactions>>,
        name: Arc<str>,
        clock: Arc<dyn Clock>,
        rng: Box<dyn Rng>,
        settings: Settings,
    ) -> Self {
        let (store, activity) = activity::track(store);
        Self(Arc::new(Shared {
            store,
            activity,
            transactions,
            name,
            clock,
            settings,
            handled_topics: HandledTopics::default(),
            unhandled_warnings: UnhandledWarnings::default(),
            monitors: LoopMonitors::default(),
            dead_letters: Mutex::default(),
            rng: Mutex::new(rng),
        }))
    }

    /// The handle for accepting messages.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.0.clone())
    }

    /// The handle for claiming and settling messages yourself. Most applications use a [`crate::Worker`] instead.
    pub fn queue(&self) -> WorkQueue {
        WorkQueue::new(self.0.clone())
    }

    /// The handle for scheduling commands, which a [`crate::commands::Processor`] runs later.
    pub fn scheduler(&self, contracts: &Contracts) -> Scheduler {
        Scheduler::new(self.0.clone(), contracts)
    }

    /// The ledger of processed keys.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.0.clone())
    }

    /// Opens a mailbox. From then on, maintenance deletes dead letters according to the settings of the mailbox that
    /// was opened last; before the first one, they are kept for ever. Processes that share a store should use the same
    /// settings: the shortest retention wins.
    pub fn mailbox(&self, settings: MailboxSettings) -> Result<Mailbox, Error> {
        Mailbox::new(self.0.clone(), settings)
    }

    /// The handle for operations on messages. `actor` is the person or program that audit events name.
    pub fn operator(&self, actor: impl AsRef<str>) -> Operator {
        Operator::new(self.0.clone(), Namespace::Inbox, actor.as_ref().into())
    }

    /// The maintenance task. A [`crate::Worker`] runs it on its own.
    pub fn maintenance(&self) -> Maintenance {
        Maintenance::new(self.0.clone())
    }

    /// Checks the background loops of this process, the store, and its bounds.
    pub async fn health(&self) -> Health {
        Health::of(&self.0).await
    }

    /// How much of its bounds the store uses.
    pub async fn usage(&self) -> Result<Usage, Error> {
        self.0.store.usage().await
    }

    /// What the store supports and guarantees.
    pub fn capabilities(&self) -> Capabilities {
        self.0.store.capabilities()
    }

    /// The name of the store in logs.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Closes the store. Later calls fail with [`crate::ErrorKind::Closed`], so stop workers first.
    ///
    /// The directory of an embedded store can be opened again when this returns.
    pub async fn close(&self) -> Result<(), Error> {
        self.0.store.close().await
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.0.clone()
    }
}

impl fmt::Debug for Oncebox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Oncebox").field(&self.0.name).finish()
    }
}

impl Shared {
    pub(crate) fn dead_letters(&self) -> Option<Arc<DeadLetters>> {
        self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_dead_letter_retention(&self, retention: DeadLetters) {
        *self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(retention));
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut dyn Rng) -> T) -> T {
        // No code under this lock panics halfway, so poisoned data is consistent.
        draw(self.rng.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }

    /// The delay before the next attempt of a message: `count` is the number of earlier attempts in the inbox and for
    /// commands, and the number of deliveries in the mailbox.
    pub(crate) fn delay(&self, backoff: &Backoff, count: u32) -> Span {
        self.draw(|rng| backoff.delay(count, rng))
    }

    /// 128 random bits, for a new owner or request id.
    pub(crate) fn random(&self) -> u128 {
        self.draw(|rng| (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()))
    }

    /// A random number from 0 to 1.
    pub(crate) fn fraction(&self) -> f64 {
        let bits = u32::try_from(self.draw(|rng| rng.next_u64()) >> 32).unwrap_or_default();
        f64::from(bits) / f64::from(u32::MAX)
    }

    /// A new, unique owner.
    pub(crate) fn owner(&self) -> Owner {
        let value = NonZeroU128::new(self.random()).unwrap_or(NonZeroU128::MIN);
        Owner::new(value.get()).expect("the value is not zero")
    }
}
