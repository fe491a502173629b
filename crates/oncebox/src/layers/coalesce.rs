//! Coalescing: concurrent calls of one process become one call of the store underneath.
//!
//! For a store whose calls cost a round trip and a commit, whatever is in them. A call that finds a place free and nobody about is
//! made at once, by its caller, as if there were no layer. While as many calls as may be are under way, others gather; when one
//! ends, those that have gathered go together as one *group*. A group waits neither for a number of calls nor for a time to
//! pass, but for a larger one to end, and for callers that were answered a moment ago to say what they want next. Every caller
//! waits until its own group is answered, and gets its own outcomes.
//!
//! Accepting, sighting, beginning, working and extending have a queue each; everything else passes straight through.
//!
//! # What holds
//! - A group is made of whole calls, and is one call of the store: where those are atomic, each caller's call still is.
//! - No key, no uid and no request of a claim is in two calls under way of one kind: those that come later wait, in
//!   order, and pass nobody who waits for the same. For such things calls of different kinds do not wait for each other: a
//!   heartbeat must not stand behind a settlement.
//! - A small group lets a larger one end, whatever its kind, for a few milliseconds at most. Heartbeats do not.
//! - A group has at most [`GROUP_ITEMS_MAX`] items, [`CLAIM_MESSAGES_MAX`] claimed messages and [`GROUP_BYTES_MAX`] bytes,
//!   unless a single call has more.
//! - A failed group has failed for each of its callers, for its outcome is unknown for each. Only where nothing can have
//!   happened ([`Kind::Invalid`], [`Kind::Unsupported`]) it is halved and tried again, until what is wrong fails alone.
//! - What somebody else holds up ([`Error::is_held_up`]) leaves its group, and holds up nobody but those who want the same.
//!   Up to [`ASIDE_MAX`] calls stand aside, and two of them at a time are made; one more is answered that it is held up.
//! - A caller may go away at any time. If it still waits, its call does not happen; if it is in a group, the group goes on.
//!
//! # Why groups are tasks
//! A group whose future were one of its callers' would end with that caller, its outcome unknown for all the others; handed
//! on, it would still stand still while that caller is not polled. So a group is a task of the runtime, which goes on
//! with the next group while there is one. A call by itself needs none of this: with its caller, all who wait for it are gone.

mod aside;
mod crowd;
mod gate;
mod kinds;
mod queue;
mod runner;

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Query, ReadyTopics, Ref, Scope,
    Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Upkept, Usage, Wakeups, Worked,
};
#[cfg(doc)]
use oncebox_core::{Kind, limits::CLAIM_MESSAGES_MAX};

use aside::Aside;
use crowd::Crowd;
use gate::Gate;
use kinds::{Items, Working};

pub use aside::ASIDE_MAX;

/// Most items in a group of several calls. More would hardly cost less for each: with PostgreSQL, 16 callers and 50 messages a call, groups
/// without this bound handled an eighth less, as one was under way for long while hardly anybody was left for another.
pub const GROUP_ITEMS_MAX: usize = 256;

/// Most bytes of payloads and attributes in a group of several calls.
pub const GROUP_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How calls are coalesced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// So many groups of each kind of call are under way at once, at most.
    pub groups_max: NonZeroUsize,
    /// So many calls of each kind wait, at most; the next is answered [`oncebox_core::Kind::Saturated`].
    pub waiting_calls_max: usize,
}

impl Options {
    /// Two groups: one is on its way while another one is worked on. 10,000 waiting calls.
    pub const DEFAULT: Self =
        Self { groups_max: NonZeroUsize::MIN.saturating_add(1), waiting_calls_max: 10_000 };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A store in front of another one, which turns concurrent calls into few; see the [module](self).
///
/// Its calls belong into a Tokio runtime whose timers are enabled.
///
/// ```
/// # use std::sync::Arc;
/// use oncebox::layers::Coalesced;
/// use oncebox::{Error, Oncebox, Store};
///
/// fn inbox_on(database: Arc<dyn Store>) -> Result<Oncebox, Error> {
///     Oncebox::builder().on(Arc::new(Coalesced::new(database)))
/// }
/// ```
pub struct Coalesced {
    inner: Arc<dyn Store>,
    observing: Arc<Gate<Items<Sighting>>>,
    accepting: Arc<Gate<Items<NewMessage>>>,
    beginning: Arc<Gate<Items<Begin>>>,
    working: Arc<Gate<Working>>,
    extending: Arc<Gate<Items<Extension>>>,
}

impl Coalesced {
    /// Coalesces the calls of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::with(inner.clone(), inner, Options::DEFAULT)
    }

    /// The same, with options, on a store of which there are two: `hasty` tells when somebody else holds a call up
    /// ([`Error::is_held_up`]), `patient` waits. Groups go to the first; what is held up leaves its group and goes to the second, a
    /// few at a time, so that nobody else waits for it.
    pub fn with(hasty: Arc<dyn Store>, patient: Arc<dyn Store>, options: Options) -> Self {
        let aside = Aside::new(patient.clone());
        let crowd = Arc::new(Crowd::default());
        Self {
            observing: Gate::new(hasty.clone(), aside.clone(), crowd.clone(), options),
            accepting: Gate::new(hasty.clone(), aside.clone(), crowd.clone(), options),
            beginning: Gate::new(hasty.clone(), aside.clone(), crowd.clone(), options),
            working: Gate::new(hasty.clone(), aside.clone(), crowd, options),
            // A heartbeat waits for nobody but heartbeats.
            extending: Gate::new(hasty, aside, Arc::default(), options),
            inner: patient,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Coalesced {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        self.observing.call(sightings).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.accepting.call(messages).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.beginning.call(begins).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.working.call((settlements, claims)).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.extending.call(extensions).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.inner.operate(orders).await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.inner.get(refs).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.inner.with_key(key, limit).await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.inner.page(query).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.inner.counts(scope).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.inner.ready_topics(query).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.inner.topic_counts(query).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.inner.usage().await
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        self.inner.upkeep(budget).await
    }

    /// Closes the store underneath; what still waits then is answered [`oncebox_core::Kind::Closed`].
    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await?;
        self.observing.close();
        self.accepting.close();
        self.beginning.close();
        self.working.close();
        self.extending.close();
        Ok(())
    }
}
