//! The gate that all calls of one kind come through: alone if there is a place, in a group otherwise.

use std::hash::RandomState;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use oncebox_core::{Error, Store};
use tokio::runtime::Handle;

use super::Options;
use super::aside::Aside;
use super::crowd::Crowd;
use super::kinds::Kind;
use super::queue::{Found, Id, Name, Queue, Weight};
use super::runner::{Gathering, Runner};

pub(super) struct Gate<K: Kind> {
    pub(super) inner: Arc<dyn Store>,
    aside: Arc<Aside>,
    pub(super) crowd: Arc<Crowd>,
    hasher: RandomState,
    queue: Mutex<Queue<K::Owned, K::Answer>>,
}

impl<K: Kind> Gate<K> {
    pub(super) fn new(
        inner: Arc<dyn Store>,
        aside: Arc<Aside>,
        crowd: Arc<Crowd>,
        options: Options,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            aside,
            crowd,
            hasher: RandomState::new(),
            queue: Mutex::new(Queue::new(options)),
        })
    }

    /// Makes a call, alone or with others.
    pub(super) async fn call<'a>(self: &'a Arc<Self>, items: K::Borrowed<'a>) -> Result<K::Answer, Error> {
        let weight = K::weigh(items);
        if weight.items == 0 {
            return K::make(&*self.inner, items).await;
        }
        let mut names = K::names(items, &self.hasher);
        names.sort_unstable();
        names.dedup();
        self.crowd.came();
        let found = self.lock().enter(&names)?;
        match found {
            Found::Place(id) => match Handle::try_current() {
                Ok(runtime) if !self.crowd.lets_go(weight.items) => {
                    let gathering = self.join(id, K::own(items), weight, names);
                    runtime.spawn(Runner::gathering(gathering).run());
                    Wait { gate: self, id }.await
                }
                _ => self.call_alone(Place { gate: self, names, aside: false }, items, weight).await,
            },
            Found::Closed => K::make(&*self.inner, items).await,
            Found::Line => {
                let call = K::own(items);
                let id = self.lock().line_up(call, weight, names)?;
                Wait { gate: self, id }.await
            }
        }
    }

    /// Lines up one that has a place, which its group will have. Others line up too until that goes.
    fn join(self: &Arc<Self>, id: Id, call: K::Owned, weight: Weight, names: Vec<Name>) -> Gathering<K> {
        self.lock().join(id, call, weight, names);
        Gathering::begun(self)
    }

    async fn call_alone<'a>(
        &'a self,
        mut place: Place<'_, K>,
        items: K::Borrowed<'a>,
        weight: Weight,
    ) -> Result<K::Answer, Error> {
        let going = self.crowd.go(weight.items);
        let mut answer = K::make(&*self.inner, items).await;
        drop(going);
        if answer.as_ref().is_err_and(Error::is_held_up) {
            place.step_aside();
            answer = self.make_aside(items).await;
        }
        self.crowd.left(1);
        answer
    }

    /// Answers all who wait, and lets later calls pass straight to the store, which tells them that it is closed.
    pub(super) fn close(&self) {
        let told = self.lock().close();
        wake(told);
    }

    /// Makes a call that somebody else holds up.
    pub(super) async fn make_aside<'a>(&'a self, items: K::Borrowed<'a>) -> Result<K::Answer, Error> {
        self.aside.make::<K>(items).await
    }

    /// Answers a call that is under way apart from its group.
    pub(super) fn answer(self: &Arc<Self>, id: Id, answer: Result<K::Answer, Error>) {
        let mut queue = self.lock();
        let told = queue.answer(id, answer);
        self.go_on(queue);
        wake(told.into_iter().collect());
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue<K::Owned, K::Answer>> {
        // Nothing in there panics halfway: what is found is whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the lock, and sets going what can go now.
    pub(super) fn go_on(self: &Arc<Self>, queue: MutexGuard<'_, Queue<K::Owned, K::Answer>>) {
        let can_form = queue.can_form();
        drop(queue);
        if can_form {
            self.set_going();
        }
    }

    /// Sets as many groups going as can be formed.
    fn set_going(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            // Some future is dropped outside of its runtime. Whoever is polled next does it.
            let woken = self.lock().wakers();
            return wake(woken);
        };
        loop {
            // Not under the lock: a runtime that shuts down drops the task at once.
            let formed = self.lock().form();
            let Some(group) = formed else { return };
            runtime.spawn(Runner::new(self.clone(), group).run());
        }
    }
}

pub(super) fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// The place of a call by itself. However the call ends, the others go on.
struct Place<'a, K: Kind> {
    gate: &'a Arc<Gate<K>>,
    names: Vec<Name>,
    /// The place is somebody else's by now; the names are still held.
    aside: bool,
}

impl<K: Kind> Place<'_, K> {
    /// Lets others have the place: this call waits for something that is none of theirs.
    fn step_aside(&mut self) {
        self.aside = true;
        let mut queue = self.gate.lock();
        queue.end_group();
        self.gate.go_on(queue);
    }
}

impl<K: Kind> Drop for Place<'_, K> {
    fn drop(&mut self) {
        let mut queue = self.gate.lock();
        queue.release(&self.names);
        if !self.aside {
            queue.end_group();
        }
        self.gate.go_on(queue);
    }
}

/// Waits for the answer of a call that has lined up.
struct Wait<'a, K: Kind> {
    gate: &'a Arc<Gate<K>>,
    id: Id,
}

impl<K: Kind> Future for Wait<'_, K> {
    type Output = Result<K::Answer, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut queue = self.gate.lock();
        if let Some(answer) = queue.ask(self.id, context.waker()) {
            return Poll::Ready(answer);
        }
        self.gate.go_on(queue);
        Poll::Pending
    }
}

impl<K: Kind> Drop for Wait<'_, K> {
    fn drop(&mut self) {
        let mut queue = self.gate.lock();
        queue.leave(self.id);
        self.gate.go_on(queue);
    }
}
