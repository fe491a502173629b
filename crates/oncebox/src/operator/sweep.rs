//! The same change to all messages that match, in bounded steps.

use oncebox_core::{
    Action, DeadReason, Direction, Error, Invalid, Namespace, Operated, PageSize, Query, Ref, Snapshot,
    Source, State, Topic,
};

use super::Operator;

/// Which messages a sweep changes: Dead ones, unless it says otherwise.
#[derive(Debug, Clone)]
pub struct Filter {
    query: Query,
    limit: u64,
    problem: Option<Invalid>,
}

impl Default for Filter {
    fn default() -> Self {
        Self::dead()
    }
}

impl Filter {
    /// What is Dead, up to 10,000 messages.
    pub fn dead() -> Self {
        Self::state(State::Dead)
    }

    /// What is in this state, up to 10,000 messages.
    pub fn state(state: State) -> Self {
        let mut query = Query::all(Namespace::Inbox);
        query.state = Some(state);
        Self { query, limit: 10_000, problem: None }
    }

    /// Only what is Dead for this reason.
    #[must_use]
    pub fn reason(mut self, reason: DeadReason) -> Self {
        self.query.dead = Some(reason);
        self
    }

    /// Only this topic.
    #[must_use]
    pub fn topic(mut self, topic: &str) -> Self {
        match Topic::new(topic) {
            Ok(topic) => self.query.topic = Some(topic),
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }

    /// Only from this source.
    #[must_use]
    pub fn source(mut self, source: &str) -> Self {
        match Source::new(source) {
            Ok(source) => self.query.source = Some(source),
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }

    /// So many messages at most.
    #[must_use]
    pub fn limit(mut self, messages: u64) -> Self {
        self.limit = messages;
        self
    }
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sweep {
    /// Messages that matched.
    pub matched: u64,
    /// Messages that were changed; others had changed by themselves in between.
    pub changed: u64,
    /// The limit was reached: there may be more.
    pub more: bool,
}

impl Operator {
    /// Carries the action out on all that match, or only counts them.
    pub(super) async fn sweep(&self, filter: &Filter, action: Option<&Action>) -> Result<Sweep, Error> {
        if let Some(invalid) = &filter.problem {
            return Err(invalid.clone().into());
        }
        let mut sweep = Sweep::default();
        // What is redriven comes back at the newest end, and may match again: only what was there at the beginning counts.
        let mut newest = Query { direction: Direction::NewestFirst, ..filter.query.clone() };
        newest.size = PageSize::new(1)?;
        let last = loop {
            let page = self.page(&newest).await?;
            match (page.messages.first(), page.next) {
                (Some(message), _) => break message.number,
                (None, None) => return Ok(sweep),
                (None, next) => newest.after = next,
            }
        };
        let mut query = filter.query.clone();
        loop {
            let page = self.page(&query).await?;
            let room = usize::try_from(filter.limit - sweep.matched).unwrap_or(usize::MAX);
            let found: Vec<_> = page.messages.iter().filter(|message| message.number <= last).collect();
            sweep.more = found.len() > room;
            let target = |message: &&Snapshot<_>| (Ref::from(message.uid), message.last_error.clone());
            let targets: Vec<_> = found.iter().take(room).map(target).collect();
            sweep.matched += targets.len() as u64;
            if let Some(action) = action {
                let operated = self.order(targets, action).await?;
                let changed = operated.iter().filter(|operated| matches!(operated, Operated::Changed(_)));
                sweep.changed += changed.count() as u64;
            }
            let past = page.messages.last().is_some_and(|message| message.number > last);
            match page.next {
                Some(next) if !past && !sweep.more => query.after = Some(next),
                _ => return Ok(sweep),
            }
        }
    }
}
