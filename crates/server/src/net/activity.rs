//! What a connection is doing, and the deadlines of its client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A slow reader must read at least this much of a response within each write timeout.
pub(super) const WRITE_PROGRESS_BYTES: usize = 64 * 1024;

/// Timeouts of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// From the end of a response to the first byte of the next request.
    pub(crate) idle: Duration,
    /// For a request head: from its first byte, or for the first head from when the connection was opened.
    pub(crate) head: Duration,
    /// For reading the next [`WRITE_PROGRESS_BYTES`] of a response, or the rest of it.
    pub(crate) write: Duration,
}

/// Why the server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    Idle,
    Head,
    Write,
    /// Closed in favour of a new connection.
    Limit,
}

impl CloseReason {
    /// The value of the metric label `reason`.
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
            Self::Write => "the client did not read the response within http.write_timeout",
            Self::Limit => "connection limit reached, and this connection was idle the longest",
        }
    }
}

/// The activity of one connection, reported by its stream and its requests, and read by its task and the acceptor.
#[derive(Debug)]
pub(super) struct Activity {
    timeouts: Timeouts,
    state: Mutex<State>,
    /// Cancelled once the client has closed its sending side, and when the server stops.
    gone: CancellationToken,
    /// Cancelled to close the connection as soon as it has no request.
    close_requested: CancellationToken,
}

#[derive(Debug)]
struct State {
    /// Requests in progress, until the last byte of their responses is written.
    requests: u32,
    /// Requests in progress whose bodies have not been received completely.
    bodies: u32,
    /// When the connection became idle: when it was opened, or when the last response ended.
    idle_since: Instant,
    /// Whether a request has ever begun.
    used: bool,
    /// When the first bytes of an incomplete head were received.
    head_since: Option<Instant>,
    /// Whether bytes of the next head were received while a request was in progress.
    next_head_begun: bool,
    /// When the client stopped reading fast enough, and how many bytes it has read since.
    stalled: Option<(Instant, usize)>,
    /// Woken when the HTTP layer may see the end of the stream.
    reader: Option<Waker>,
    /// Woken at the end of the stream, because the rest of the body will not arrive.
    body: Option<Waker>,
    /// Whether the client has closed its sending side.
    eof: bool,
}

impl Activity {
    pub(super) fn new(timeouts: Timeouts, stopping: &CancellationToken) -> Arc<Self> {
        let state = State {
            requests: 0,
            bodies: 0,
            idle_since: Instant::now(),
            used: false,
            head_since: None,
            next_head_begun: false,
            stalled: None,
            reader: None,
            body: None,
            eof: false,
        };
        let (gone, close_requested) = (stopping.child_token(), CancellationToken::new());
        Arc::new(Self { timeouts, state: Mutex::new(state), gone, close_requested })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No update can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancelled once the client has closed its sending side, and when the server stops. A client that has closed its
    /// sending side may still read, or be gone: the two cannot be distinguished.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    pub(super) fn close_requested(&self) -> &CancellationToken {
        &self.close_requested
    }

    /// The deadline after which the connection is closed unless something happens first; `None` only while a request is
    /// in progress and the client reads its response.
    pub(super) fn deadline(&self) -> Option<(Instant, CloseReason)> {
        let (state, timeouts) = (self.state(), self.timeouts);
        if let Some((since, _)) = state.stalled {
            return Some((since + timeouts.write, CloseReason::Write));
        }
        match (state.requests, state.head_since) {
            (0, Some(since)) => Some((since + timeouts.head, CloseReason::Head)),
            (0, None) if state.used => Some((state.idle_since + timeouts.idle, CloseReason::Idle)),
            (0, None) => Some((state.idle_since + timeouts.head, CloseReason::Head)),
            _ => None,
        }
    }

    /// Returns `None` while closing the connection would interrupt a request, otherwise its rank: the connection with
    /// the lowest rank is closed first. Connections without a byte of a head rank below those that are sending one.
    pub(super) fn idle_rank(&self) -> Option<(bool, Instant)> {
        let state = self.state();
        state.is_idle().then(|| (state.head_since.is_some(), state.head_since.unwrap_or(state.idle_since)))
    }

    /// Marks the beginning of a request, which lasts until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> RequestGuard {
        let mut state = self.state();
        state.requests += 1;
        state.used = true;
        (state.head_since, state.next_head_begun) = (None, false);
        RequestGuard(Arc::clone(self))
    }

    /// Marks that a request body is being received, until the guard is dropped.
    pub(super) fn begin_body(self: &Arc<Self>) -> BodyGuard {
        self.state().bodies += 1;
        BodyGuard(Arc::clone(self))
    }

    /// Records that bytes were received.
    pub(super) fn bytes_received(&self) {
        let mut state = self.state();
        if state.is_idle() {
            state.head_since.get_or_insert_with(Instant::now);
        } else if state.bodies == 0 {
            state.next_head_begun = true;
        }
    }

    /// Records that the client has closed its sending side and everything it sent was passed on. Returns whether the
    /// HTTP layer may see the end of the stream: it would abort the request in progress, and a client that only closed
    /// its sending side would get no response. If not, the waker is woken once the response is written.
    pub(super) fn received_eof(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        state.eof = true;
        self.gone.cancel();
        if let Some(body) = state.body.take() {
            body.wake();
        }
        let visible = state.is_idle();
        if !visible {
            state.reader = Some(waker.clone());
        }
        visible
    }

    /// Records that the client is not reading.
    pub(super) fn write_blocked(&self) {
        self.state().stalled.get_or_insert_with(|| (Instant::now(), 0));
    }

    /// Records that the client read some bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        let mut state = self.state();
        if let Some((since, read)) = &mut state.stalled {
            *read = read.saturating_add(bytes);
            if *read >= WRITE_PROGRESS_BYTES {
                (*since, *read) = (Instant::now(), 0);
            }
        }
    }

    /// Records that everything was written.
    pub(super) fn flushed(&self) {
        let mut state = self.state();
        if state.stalled.take().is_some() {
            state.update_idle();
        }
    }
}

impl State {
    /// Whether no request is in progress and every response is written.
    fn is_idle(&self) -> bool {
        self.requests == 0 && self.stalled.is_none()
    }

    /// Called when a response was written or its last part passed on. If nothing else is in progress, the connection
    /// becomes idle.
    fn update_idle(&mut self) {
        if !self.is_idle() {
            return;
        }
        self.idle_since = Instant::now();
        self.head_since = std::mem::take(&mut self.next_head_begun).then_some(self.idle_since);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// Guard of a request in progress.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.update_idle();
    }
}

/// Guard of a request body that is being received.
#[derive(Debug)]
pub(super) struct BodyGuard(Arc<Activity>);

impl BodyGuard {
    /// Whether the rest of the body will not arrive. If it still may, the waker is woken when that changes.
    pub(super) fn aborted(&self, waker: &Waker) -> bool {
        let mut state = self.0.state();
        if !state.eof {
            state.body = Some(waker.clone());
        }
        state.eof
    }
}

impl Drop for BodyGuard {
    fn drop(&mut self) {
        self.0.state().bodies -= 1;
    }
}
