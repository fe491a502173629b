//! The open inbox: what all its roles share.

use std::fmt;
use std::num::NonZeroU128;
use std::sync::{Arc, Mutex, PoisonError};

use oncebox_core::{
    Backoff, Capabilities, Clock, DeadLetters, Error, Namespace, Owner, Rng, Span, Store, Usage,
};

use crate::build::{Builder, Settings};
use crate::commands::{Contracts, Scheduler};
use crate::handled::Handled;
use crate::health::{Health, Pulses};
use crate::inbox::Inbox;
use crate::ledger::Ledger;
use crate::mailbox::{Mailbox, MailboxSettings};
use crate::operator::Operator;
use crate::queue::WorkQueue;
use crate::stirring::{self, Stirred};
use crate::transaction::Transactions;
use crate::upkeep::{Upkeep, Warnings};

/// An open inbox. Cheap to clone; hand out its roles rather than itself.
#[derive(Clone)]
pub struct Oncebox(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// What this process does to it, if others have it too.
    pub(crate) stirred: Option<Stirred>,
    /// The same store, if it takes part in transactions.
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    /// Names the store in logs (IBX-113).
    pub(crate) name: Arc<str>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// The topics that workers of this process handle.
    pub(crate) handled: Handled,
    /// What upkeep has warned about.
    pub(crate) unhandled: Warnings,
    /// The loops that health looks at.
    pub(crate) pulses: Pulses,
    /// The retention of dead letters, once a mailbox was opened.
    dead_letters: Mutex<Option<Arc<DeadLetters>>>,
    rng: Mutex<Box<dyn Rng>>,
}

impl Oncebox {
    /// Opens an inbox by its URL, with the usual settings.
    ///
    /// - `memory:` keeps everything in RAM, for tests and for what may be lost.
    /// - `embedded:DIRECTORY` keeps everything in a directory that one process has open at a time. Answered means on
    ///   disk; `?durability=os` or `?durability=interval-50ms` trades that for speed.
    ///
    /// Both take the bounds `messages_max`, `keys_max` and `live_bytes_max`, as in `memory:?messages_max=1000`.
    ///
    /// - `postgres://USER@HOST/DATABASE` keeps everything in a PostgreSQL database that any number of processes share; with
    ///   the feature `postgres`. `?ensure=yes` makes its tables; `schema`, `connections` and `pooler` are explained
    ///   in the guide. A pool of your own is taken by `Builder::on_postgres`.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::builder().open(url).await
    }

    /// Opens an inbox with settings of its own, or on a store of its own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        store: Arc<dyn Store>,
        transactions: Option<Arc<dyn Transactions>>,
        name: Arc<str>,
        clock: Arc<dyn Clock>,
        rng: Box<dyn Rng>,
        settings: Settings,
    ) -> Self {
        let (handled, unhandled, pulses) = (Handled::default(), Warnings::default(), Pulses::default());
        let (rng, (store, stirred)) = (Mutex::new(rng), stirring::around(store));
        Self(Arc::new(Shared {
            store,
            stirred,
            transactions,
            name,
            clock,
            settings,
            handled,
            unhandled,
            pulses,
            dead_letters: Mutex::default(),
            rng,
        }))
    }

    /// Receiving: all that code which takes messages in needs.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.0.clone())
    }

    /// Working by hand; most use a [`crate::Worker`] instead.
    pub fn queue(&self) -> WorkQueue {
        WorkQueue::new(self.0.clone())
    }

    /// Storing commands to be run later; a [`crate::commands::Processor`] runs them.
    pub fn scheduler(&self, contracts: &Contracts) -> Scheduler {
        Scheduler::new(self.0.clone(), contracts)
    }

    /// "Was this key processed?"
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.0.clone())
    }

    /// Store and forward. Upkeep keeps dead letters as the settings of the mailbox that was opened last say; before one was, for
    /// ever. Processes that share a store should agree: the shortest retention of all holds.
    pub fn mailbox(&self, settings: MailboxSettings) -> Result<Mailbox, Error> {
        Mailbox::new(self.0.clone(), settings)
    }

    /// Operating. `actor` is who the audit events name: a person, or a program.
    pub fn operator(&self, actor: impl AsRef<str>) -> Operator {
        Operator::new(self.0.clone(), Namespace::Inbox, actor.as_ref().into())
    }

    /// What time makes necessary; a [`crate::Worker`] runs it by itself.
    pub fn upkeep(&self) -> Upkeep {
        Upkeep::new(self.0.clone())
    }

    /// How the loops of this process and the store's bounds stand.
    pub async fn health(&self) -> Health {
        Health::of(&self.0).await
    }

    /// How much of its bounds the store uses.
    pub async fn usage(&self) -> Result<Usage, Error> {
        self.0.store.usage().await
    }

    /// What the store promises.
    pub fn capabilities(&self) -> Capabilities {
        self.0.store.capabilities()
    }

    /// The name of the store in logs.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Closes the store; whatever still works on it gets [`crate::Kind::Closed`]. Stop workers first.
    ///
    /// The directory of an embedded store can be opened again when this has answered.
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

    pub(crate) fn keep_dead_letters(&self, retention: DeadLetters) {
        *self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(retention));
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut dyn Rng) -> T) -> T {
        // Nothing here can panic halfway: what is found is whole.
        draw(self.rng.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }

    /// The delay before a message is tried again that had failed `before` times when it failed now.
    pub(crate) fn delay(&self, backoff: &Backoff, before: u32) -> Span {
        self.draw(|rng| backoff.delay(before, rng))
    }

    /// 128 random bits: a new owner, a new request.
    pub(crate) fn random(&self) -> u128 {
        self.draw(|rng| (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64()))
    }

    /// A number from 0 to 1.
    pub(crate) fn fraction(&self) -> f64 {
        let word = u32::try_from(self.draw(|rng| rng.next_u64()) >> 32).unwrap_or_default();
        f64::from(word) / f64::from(u32::MAX)
    }

    /// An owner that nobody else has.
    pub(crate) fn owner(&self) -> Owner {
        let value = NonZeroU128::new(self.random()).unwrap_or(NonZeroU128::MIN);
        Owner::new(value.get()).expect("the value is not zero")
    }
}
