//! Wakes those who wait for work in the same process: each listener has its own bell, rung when its topics become
//! claimable. A part for stores; knows no runtime.

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

/// Rings for whoever listens.
#[derive(Default)]
pub struct Bell(Mutex<Listeners>);

#[derive(Default)]
struct Listeners {
    all: Vec<Weak<Listener>>,
    closed: bool,
}

struct Listener {
    interest: Interest,
    ear: Mutex<Ear>,
}

#[derive(Default)]
struct Ear {
    rung: bool,
    /// From now on every wait ends at once.
    closed: bool,
    waiting: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here can panic halfway: what is found is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    fn ring(&self, closed: bool) {
        let mut ear = lock(&self.ear);
        ear.rung = true;
        ear.closed |= closed;
        let waiting = ear.waiting.take();
        drop(ear);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut ear = lock(&self.ear);
        if ear.rung {
            ear.rung = ear.closed;
            return Poll::Ready(());
        }
        ear.waiting = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Bell {
    /// A listener for these topics; it stops listening when it is dropped.
    pub fn listen(&self, interest: Interest) -> Box<dyn Wakeups> {
        let mut listeners = lock(&self.0);
        let closed = listeners.closed;
        let ear = Mutex::new(Ear { rung: closed, closed, waiting: None });
        let listener = Arc::new(Listener { interest, ear });
        // Those who stopped listening are swept out here, so the list is no longer than there are listeners.
        listeners.all.retain(|listener| listener.strong_count() > 0);
        listeners.all.push(Arc::downgrade(&listener));
        Box::new(Rope(listener))
    }

    /// Wakes those who wait for this topic.
    pub fn ring(&self, namespace: Namespace, topic: &Topic) {
        for listener in self.listeners() {
            let Interest { namespace: wanted, topics } = &listener.interest;
            if *wanted == namespace && topics.contains(topic) {
                listener.ring(false);
            }
        }
    }

    /// Wakes everybody, now and from now on, so that they find the store closed.
    pub fn close(&self) {
        lock(&self.0).closed = true;
        for listener in self.listeners() {
            listener.ring(true);
        }
    }

    fn listeners(&self) -> Vec<Arc<Listener>> {
        lock(&self.0).all.iter().filter_map(Weak::upgrade).collect()
    }
}

struct Rope(Arc<Listener>);

#[async_trait]
impl Wakeups for Rope {
    async fn wait(&mut self) {
        poll_fn(|context| self.0.poll(context)).await;
    }
}
