//! What a connection is doing, and until when its client may take its time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A client that takes its answer slowly must take this much within each write time-out.
pub(super) const WRITE_PROGRESS_BYTES: usize = 64 * 1024;

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Between the end of an answer and the first byte of the next request.
    pub(super) idle: Duration,
    /// For a request head: from its first byte, or from the connection's opening if it is the first.
    pub(super) head: Duration,
    /// For taking the next [`WRITE_PROGRESS_BYTES`] of an answer, or the rest of it.
    pub(super) write: Duration,
}

/// Why the server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Idle,
    Head,
    Write,
    /// A new connection took its place.
    Limit,
}

impl Reason {
    /// As the label `reason` says it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Head => "header",
            Self::Write => "write",
            Self::Limit => "limit",
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "no further request arrived within http.idle_timeout",
            Self::Head => "no complete request head arrived within http.header_timeout",
            Self::Write => "the client did not take its answer within http.write_timeout",
            Self::Limit => "all connections are in use, and this one was idle the longest",
        }
    }
}

/// The activity of one connection. Its stream and its requests report here; its task and the acceptor ask.
#[derive(Debug)]
pub(super) struct Activity {
    limits: Limits,
    state: Mutex<State>,
    /// Set once the client has closed its sending side.
    hung_up: CancellationToken,
    /// Set to close the connection as soon as it has no request.
    unwanted: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// Requests that are being answered, up to the last byte of their answers.
    requests: u32,
    /// Those of them whose bodies have not arrived whole.
    bodies: u32,
    /// Since when there is no request: the connection's opening, or the end of the last answer.
    quiet_since: Instant,
    /// Whether a request has ever begun.
    used: bool,
    /// When the first bytes of a head arrived that is not complete.
    head_since: Option<Instant>,
    /// Whether bytes of the next head arrived while a request was being answered.
    next_begun: bool,
    /// Since when the client has taken less than it must, and how much that is.
    stalled: Option<(Instant, usize)>,
    /// Woken when a hang-up may be shown to the HTTP layer.
    reader: Option<Waker>,
    /// Woken at a hang-up: the rest of the body will not come.
    body: Option<Waker>,
}

impl Activity {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let state = State {
            requests: 0,
            bodies: 0,
            quiet_since: Instant::now(),
            used: false,
            head_since: None,
            next_begun: false,
            stalled: None,
            reader: None,
            body: None,
        };
        let (hung_up, unwanted) = (CancellationToken::new(), CancellationToken::new());
        Arc::new(Self { limits, state: Mutex::new(state), hung_up, unwanted })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No update can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set once the client has closed its sending side. It may still read, or be gone: both look the same.
    pub(super) fn hung_up(&self) -> &CancellationToken {
        &self.hung_up
    }

    pub(super) fn unwanted(&self) -> &CancellationToken {
        &self.unwanted
    }

    /// When the connection is closed unless something happens first; none only while a request is being answered whose
    /// client takes what there is.
    pub(super) fn deadline(&self) -> Option<(Instant, Reason)> {
        let (state, limits) = (self.state(), self.limits);
        if let Some((since, _)) = state.stalled {
            return Some((since + limits.write, Reason::Write));
        }
        match (state.requests, state.head_since) {
            (0, Some(since)) => Some((since + limits.head, Reason::Head)),
            (0, None) if state.used => Some((state.quiet_since + limits.idle, Reason::Idle)),
            (0, None) => Some((state.quiet_since + limits.head, Reason::Head)),
            _ => None,
        }
    }

    /// Whether it could be closed without breaking off a request, and which of several should be: the least first. Those
    /// without a byte of a head come before those that are sending one.
    pub(super) fn idle_rank(&self) -> Option<(bool, Instant)> {
        let state = self.state();
        state.is_quiet().then(|| (state.head_since.is_some(), state.head_since.unwrap_or(state.quiet_since)))
    }

    /// A request begins; it lasts until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Request {
        let mut state = self.state();
        state.requests += 1;
        state.used = true;
        (state.head_since, state.next_begun) = (None, false);
        Request(Arc::clone(self))
    }

    /// The body of a request is arriving, until the guard is dropped.
    pub(super) fn receive(self: &Arc<Self>) -> Receiving {
        self.state().bodies += 1;
        Receiving(Arc::clone(self))
    }

    /// Bytes arrived.
    pub(super) fn arrived(&self) {
        let mut state = self.state();
        if state.is_quiet() {
            state.head_since.get_or_insert_with(Instant::now);
        } else if state.bodies == 0 {
            state.next_begun = true;
        }
    }

    /// The client has closed its sending side, and all that it sent was handed on. True if the HTTP layer may see that: it
    /// breaks off the request that it is answering, and a client that only closed its sending side would get no answer.
    /// Otherwise the waker is used when the answer is written.
    pub(super) fn reached_end(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        self.hung_up.cancel();
        if let Some(body) = state.body.take() {
            body.wake();
        }
        let visible = state.is_quiet();
        if !visible {
            state.reader = Some(waker.clone());
        }
        visible
    }

    /// The client takes nothing at present.
    pub(super) fn write_waits(&self) {
        self.state().stalled.get_or_insert_with(|| (Instant::now(), 0));
    }

    /// The client took some bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        let mut state = self.state();
        if let Some((since, taken)) = &mut state.stalled {
            *taken = taken.saturating_add(bytes);
            if *taken >= WRITE_PROGRESS_BYTES {
                (*since, *taken) = (Instant::now(), 0);
            }
        }
    }

    /// Nothing is left to be written.
    pub(super) fn flushed(&self) {
        let mut state = self.state();
        if state.stalled.take().is_some() {
            state.settle();
        }
    }
}

impl State {
    /// No request is being answered, and every answer is written.
    fn is_quiet(&self) -> bool {
        self.requests == 0 && self.stalled.is_none()
    }

    /// An answer was written, or its last part handed over. If nothing is left to do, the wait for the next request begins.
    fn settle(&mut self) {
        if !self.is_quiet() {
            return;
        }
        self.quiet_since = Instant::now();
        self.head_since = std::mem::take(&mut self.next_begun).then_some(self.quiet_since);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Request(Arc<Activity>);

impl Drop for Request {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.settle();
    }
}

/// A request body that is arriving.
#[derive(Debug)]
pub(super) struct Receiving(Arc<Activity>);

impl Receiving {
    /// Whether the rest, which is being waited for, will not come. If it may, the waker is used should that change.
    pub(super) fn broke_off(&self, waker: &Waker) -> bool {
        let mut state = self.0.state();
        let broke_off = self.0.hung_up.is_cancelled();
        if !broke_off {
            state.body = Some(waker.clone());
        }
        broke_off
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.state().bodies -= 1;
    }
}
