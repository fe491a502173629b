//! Wakes waiting workers in the same process: each listener has its own signal, which is set when one of its topics
//! gets a claimable message. A building block for stores; independent of any async runtime.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError, Weak};
#[cfg(not(oncebox_loom))]
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
#[cfg(oncebox_loom)]
use loom::sync::{Mutex, MutexGuard};

use crate::key::Namespace;
use crate::port::{Interest, Wakeups};
use crate::text::Topic;

/// Notifies the listeners of one store.
#[derive(Default)]
pub struct Notifier(Mutex<Listeners>);

#[derive(Default)]
struct Listeners {
    all: Vec<Weak<Listener>>,
    closed: bool,
}

struct Listener {
    interest: Interest,
    signal: Mutex<Signal>,
}

#[derive(Default)]
struct Signal {
    notified: bool,
    /// Every wait ends at once from now on.
    closed: bool,
    waker: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing can panic while the lock is held, so the data is consistent even if the lock is poisoned.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    fn notify(&self, closed: bool) {
        let mut signal = lock(&self.signal);
        signal.notified = true;
        signal.closed |= closed;
        let waker = signal.waker.take();
        drop(signal);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut signal = lock(&self.signal);
        if signal.notified {
            signal.notified = signal.closed;
            return Poll::Ready(());
        }
        signal.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Notifier {
    /// Adds a listener for these topics. Dropping it removes it.
    pub fn listen(&self, interest: Interest) -> Box<dyn Wakeups> {
        let mut listeners = lock(&self.0);
        let closed = listeners.closed;
        let signal = Mutex::new(Signal { notified: closed, closed, waker: None });
        let listener = Arc::new(Listener { interest, signal });
        // Dropped listeners are removed here, so the list is never longer than the maximum number of live listeners.
        listeners.all.retain(|listener| listener.strong_count() > 0);
        listeners.all.push(Arc::downgrade(&listener));
        Box::new(Subscription(listener))
    }

    /// Wakes the listeners that wait for this topic.
    pub fn notify(&self, namespace: Namespace, topic: &Topic) {
        for listener in self.listeners() {
            let Interest { namespace: wanted, topics } = &listener.interest;
            if *wanted == namespace && topics.contains(topic) {
                listener.notify(false);
            }
        }
    }

    /// Wakes every listener, now and from now on, so that their callers find the store closed.
    pub fn close(&self) {
        lock(&self.0).closed = true;
        for listener in self.listeners() {
            listener.notify(true);
        }
    }

    fn listeners(&self) -> Vec<Arc<Listener>> {
        lock(&self.0).all.iter().filter_map(Weak::upgrade).collect()
    }
}

struct Subscription(Arc<Listener>);

#[async_trait]
impl Wakeups for Subscription {
    async fn wait(&mut self) {
        poll_fn(|context| self.0.poll(context)).await;
    }
}
