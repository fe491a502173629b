//! The open inbox, and the state that all of its handles share.

use std::fmt;
use std::num::NonZeroU128;
use std::sync::{Arc, Mutex, PoisonError};

use oncebox_core::{Backoff, Capabilities, Clock, DeadLetters, Error, Owner, Rng, Span, Store, Usage};

use crate::auto_pause::AutoPause;
use crate::front_store::{Activity, FrontStore};
use crate::handled_topics::HandledTopics;
use crate::loop_monitor::LoopMonitors;
use crate::pauses::Pauses;
use crate::settings::Settings;
use crate::transaction::Transactions;
use crate::unhandled_warnings::UnhandledWarnings;

/// An open inbox. Cheap to clone. Pass the narrow handles, such as [`Inbox`](crate::Inbox), to code that needs no more.
#[derive(Clone)]
pub struct Oncebox(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    /// The paused topics.
    pub(crate) pauses: Arc<Pauses>,
    /// Decides when a topic is paused by itself.
    pub(crate) auto_pause: AutoPause,
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
    pub(crate) fn new(
        store: Arc<dyn Store>,
        transactions: Option<Arc<dyn Transactions>>,
        name: Arc<str>,
        clock: Arc<dyn Clock>,
        rng: Box<dyn Rng>,
        settings: Settings,
    ) -> Self {
        let pauses = Arc::new(Pauses::new(store.clone(), clock.clone()));
        let store = FrontStore::new(store, pauses.clone());
        Self(Arc::new(Shared {
            activity: store.activity(),
            store: Arc::new(store),
            pauses,
            auto_pause: AutoPause::new(settings.pause_after_deaths),
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

    /// The store behind the inbox, for what this interface does not offer, such as records of the application. Kinds of
    /// records whose names begin with `paused_` belong to the library.
    pub fn store(&self) -> Arc<dyn Store> {
        self.0.store.clone()
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
