//! Sweeps: the same change to all messages that match a filter, in bounded batches.

mod cursor;

use oncebox_core::{
    Action, Bound, Cursor, DeadReason, Direction, Error, Invalid, LastError, MessageQuery, MessageState,
    Namespace, Number, Omitted, Operated, PageSize, Snapshot, Source, Timestamp, Topic, Uid,
};

use super::Operator;
use super::target::Target;

pub use cursor::SweepCursor;

/// Maximum number of messages changed in one store call.
const BATCH_MESSAGES: u32 = 200;
/// Default for the number of pages that a sweep reads if it changes messages. A sweep that only counts reads all pages.
const PAGES_MAX: usize = 1_000;

/// Selects the messages of a sweep. The default is all Dead messages.
#[derive(Debug, Clone)]
pub struct SweepFilter {
    query: MessageQuery,
    error: Option<Box<str>>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    redriven_below: Option<u32>,
    limit: u64,
    pages: usize,
    after: Option<SweepCursor>,
    problem: Option<Invalid>,
}

impl Default for SweepFilter {
    fn default() -> Self {
        Self::dead()
    }
}

impl SweepFilter {
    /// Selects Dead messages, up to 10,000.
    pub fn dead() -> Self {
        Self::state(MessageState::Dead)
    }

    /// Selects messages in this state, up to 10,000.
    pub fn state(state: MessageState) -> Self {
        let mut query = MessageQuery::all(Namespace::Inbox);
        query.state = Some(state);
        let (error, since, until, redriven_below, after, problem) = (None, None, None, None, None, None);
        let (limit, pages) = (10_000, PAGES_MAX);
        Self { query, error, since, until, redriven_below, limit, pages, after, problem }
    }

    /// Only messages that are Dead for this reason.
    #[must_use]
    pub fn reason(mut self, reason: DeadReason) -> Self {
        self.query.dead = Some(reason);
        self
    }

    /// Only messages of this topic.
    #[must_use]
    pub fn topic(mut self, topic: &str) -> Self {
        match Topic::new(topic) {
            Ok(topic) => self.query.topic = Some(topic),
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }

    /// Only messages from this source.
    #[must_use]
    pub fn source(mut self, source: &str) -> Self {
        match Source::new(source) {
            Ok(source) => self.query.source = Some(source),
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }

    /// Only messages whose last error contains this text.
    #[must_use]
    pub fn error(mut self, text: &str) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Only messages that became Done or Dead at this moment or later.
    #[must_use]
    pub fn since(mut self, moment: Timestamp) -> Self {
        self.since = Some(moment);
        self
    }

    /// Only messages that became Done or Dead before this moment.
    #[must_use]
    pub fn until(mut self, moment: Timestamp) -> Self {
        self.until = Some(moment);
        self
    }

    /// Only messages that have been redriven fewer than `times` times.
    #[must_use]
    pub fn redriven_below(mut self, times: u32) -> Self {
        self.redriven_below = Some(times);
        self
    }

    /// Sets how many pages of 200 messages a sweep reads at most if it changes messages. The default is 1,000.
    #[must_use]
    pub fn pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// Sets the maximum number of messages. The default is 10,000.
    #[must_use]
    pub fn limit(mut self, messages: u64) -> Self {
        self.limit = messages;
        self
    }

    /// Continues where a previous sweep with the same filter ended.
    #[must_use]
    pub fn after(mut self, cursor: SweepCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    pub(super) fn times_max(&self) -> Option<u32> {
        self.redriven_below
    }

    /// The messages of a page that match, at most `limit` of them and up to the number `last`; and whether more of the
    /// page match.
    fn select(&self, page: &[Snapshot<Omitted>], last: Number, limit: u64) -> (Vec<(Number, Target)>, bool) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut matching = page.iter().filter(|message| message.number <= last && self.matches(message));
        let selected = matching.by_ref().take(limit).map(|message| (message.number, Target::of(message)));
        (selected.collect(), matching.next().is_some())
    }

    /// Whether a listed message matches.
    fn matches(&self, message: &Snapshot<Omitted>) -> bool {
        let finished = message.finished_at;
        let error = message.last_error.as_ref().map(LastError::as_str).unwrap_or_default();
        self.since.is_none_or(|since| finished.is_some_and(|finished| finished >= since))
            && self.until.is_none_or(|until| finished.is_some_and(|finished| finished < until))
            && self.redriven_below.is_none_or(|times| message.redrives < times)
            && self.error.as_ref().is_none_or(|text| error.contains(&**text))
    }
}

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sweep {
    /// Messages that matched, not counting those that were skipped.
    pub matched: u64,
    /// Messages that were changed. The other messages that matched had already changed otherwise.
    pub changed: u64,
    /// Messages that matched but were not changed because their shard is full.
    pub skipped: u64,
    /// More messages may match; continue with [`Sweep::next`].
    pub more: bool,
    /// Where to continue; none at the end.
    pub next: Option<SweepCursor>,
    /// The messages that were changed, in order.
    pub uids: Vec<Uid>,
    /// The bound because of which messages were skipped.
    pub stopped: Option<Bound>,
    /// All messages that match were visited. If some were skipped, [`Sweep::next`] starts a new pass with them.
    pub pass_ended: bool,
}

impl Operator {
    /// Applies the action to all messages that match, or only counts them.
    pub(super) async fn sweep(&self, filter: &SweepFilter, action: Option<&Action>) -> Result<Sweep, Error> {
        if let Some(invalid) = &filter.problem {
            return Err(invalid.clone().into());
        }
        let mut cursor = match filter.after {
            Some(cursor) => cursor,
            None => match self.newest(filter).await? {
                Some(last) => SweepCursor { after: None, last, skipped: None },
                None => return Ok(Sweep { pass_ended: true, ..Sweep::default() }),
            },
        };
        let mut sweep = Sweep::default();
        let mut query = filter.query.clone();
        if action.is_some() {
            query.size = PageSize::new(BATCH_MESSAGES)?;
        }
        for pages in 1.. {
            query.after = cursor.after.map(Cursor);
            let page = self.page(&query).await?;
            let past = page.messages.last().is_some_and(|message| message.number > cursor.last);
            let limit = filter.limit.saturating_sub(sweep.matched);
            let (selected, more) = filter.select(&page.messages, cursor.last, limit);
            let last_selected = selected.last().map(|(number, _)| *number);
            match action {
                Some(action) => match self.change(&mut sweep, &mut cursor, selected, action).await {
                    // The changes made so far must be reported. If the error persists, the next call returns it.
                    Err(_) if sweep.changed > 0 => {
                        sweep.more = true;
                        break;
                    }
                    changed => changed?,
                },
                None => sweep.matched += selected.len() as u64,
            }
            if more {
                cursor.after = last_selected.or(cursor.after);
            } else if let Some(Cursor(next)) = page.next.filter(|_| !past) {
                cursor.after = Some(next);
            } else {
                sweep.pass_ended = true;
                break;
            }
            let limit_reached = more && sweep.matched >= filter.limit;
            if limit_reached || action.is_some() && pages >= filter.pages {
                sweep.more = true;
                break;
            }
        }
        if let (true, Some(Number(skipped))) = (sweep.pass_ended, cursor.skipped.take()) {
            cursor.after = skipped.checked_sub(1).map(Number);
            sweep.more = true;
        }
        sweep.next = sweep.more.then_some(cursor);
        Ok(sweep)
    }

    /// The newest message at the start of a sweep. Redriven messages become the newest of their topic and may match
    /// again, so a sweep does not go beyond it.
    async fn newest(&self, filter: &SweepFilter) -> Result<Option<Number>, Error> {
        // Of any topic, source and reason, so that one page is enough: it is only an upper limit.
        let mut query =
            MessageQuery { direction: Direction::NewestFirst, ..MessageQuery::all(self.namespace) };
        query.state = filter.query.state;
        query.size = PageSize::new(1)?;
        let page = self.page(&query).await?;
        Ok(page.messages.first().map(|message| message.number))
    }

    /// Changes the messages of a batch for which there is capacity.
    async fn change(
        &self,
        sweep: &mut Sweep,
        cursor: &mut SweepCursor,
        selected: Vec<(Number, Target)>,
        action: &Action,
    ) -> Result<(), Error> {
        if selected.is_empty() {
            return Ok(());
        }
        let (numbers, targets): (Vec<_>, Vec<_>) = selected.into_iter().unzip();
        for (number, operated) in numbers.into_iter().zip(self.order(targets, action).await?) {
            match operated {
                Operated::Saturated { bound, .. } => {
                    sweep.skipped += 1;
                    sweep.stopped = Some(bound);
                    cursor.skipped.get_or_insert(number);
                    continue;
                }
                Operated::Changed(summary) => {
                    sweep.changed += 1;
                    sweep.uids.push(summary.uid);
                }
                _ => {}
            }
            sweep.matched += 1;
        }
        Ok(())
    }
}
