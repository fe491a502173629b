//! The same change to all messages that match, in bounded steps.

use std::fmt;
use std::str::FromStr;

use oncebox_core::{
    Action, Bound, Cursor, DeadReason, Direction, Error, Invalid, LastError, Namespace, Number, Omitted,
    Operated, PageSize, Query, Snapshot, Source, State, Timestamp, Topic, Uid,
};

use super::Operator;
use super::target::Target;

/// Messages that are changed in one call of the store, at most.
const PIECE: u32 = 200;
/// Pages that a sweep which changes something reads, if it does not say; one that only counts reads all.
const PAGES_MAX: usize = 1_000;

/// Which messages a sweep changes: Dead ones, unless it says otherwise.
#[derive(Debug, Clone)]
pub struct Filter {
    query: Query,
    error: Option<Box<str>>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    redriven_below: Option<u32>,
    limit: u64,
    pages: usize,
    after: Option<SweepCursor>,
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
        let (error, since, until, redriven_below, after, problem) = (None, None, None, None, None, None);
        let (limit, pages) = (10_000, PAGES_MAX);
        Self { query, error, since, until, redriven_below, limit, pages, after, problem }
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

    /// Only what has this text in its last error.
    #[must_use]
    pub fn error(mut self, text: &str) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Only what became Done or Dead at this moment or later.
    #[must_use]
    pub fn since(mut self, moment: Timestamp) -> Self {
        self.since = Some(moment);
        self
    }

    /// Only what became Done or Dead before this moment.
    #[must_use]
    pub fn until(mut self, moment: Timestamp) -> Self {
        self.until = Some(moment);
        self
    }

    /// Only what was redriven less often than this.
    #[must_use]
    pub fn redriven_below(mut self, times: u32) -> Self {
        self.redriven_below = Some(times);
        self
    }

    /// Reads at most this many pages of 200 messages, if it changes something.
    #[must_use]
    pub fn pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// So many messages at most.
    #[must_use]
    pub fn limit(mut self, messages: u64) -> Self {
        self.limit = messages;
        self
    }

    /// Continues where a sweep with the same filter ended.
    #[must_use]
    pub fn after(mut self, cursor: SweepCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    pub(super) fn times_max(&self) -> Option<u32> {
        self.redriven_below
    }

    /// Those of a page that are meant, up to `most` of them and up to the number `last`; and whether the page has more.
    fn choose(&self, page: &[Snapshot<Omitted>], last: Number, most: u64) -> (Vec<(Number, Target)>, bool) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut meant = page.iter().filter(|message| message.number <= last && self.matches(message));
        let chosen = meant.by_ref().take(most).map(|message| (message.number, Target::of(message)));
        (chosen.collect(), meant.next().is_some())
    }

    /// Whether a message of the listing is meant.
    fn matches(&self, message: &Snapshot<Omitted>) -> bool {
        let finished = message.finished_at;
        let error = message.last_error.as_ref().map(LastError::as_str).unwrap_or_default();
        self.since.is_none_or(|since| finished.is_some_and(|finished| finished >= since))
            && self.until.is_none_or(|until| finished.is_some_and(|finished| finished < until))
            && self.redriven_below.is_none_or(|times| message.redrives < times)
            && self.error.as_ref().is_none_or(|text| error.contains(&**text))
    }
}

/// Where a sweep continues: behind the last message that it visited, up to the newest that was there when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepCursor {
    after: Option<Number>,
    last: Number,
    /// The first message that did not fit: the next pass begins with it.
    skipped: Option<Number>,
}

impl fmt::Display for SweepCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(after) = self.after {
            write!(f, "{:x}", after.0)?;
        }
        write!(f, "-{:x}", self.last.0)?;
        match self.skipped {
            Some(skipped) => write!(f, "-{:x}", skipped.0),
            None => Ok(()),
        }
    }
}

impl FromStr for SweepCursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(text, 16).ok().filter(|_| digits).map(Number)
        };
        let cursor = text.split_once('-').and_then(|(after, rest)| {
            let after = if after.is_empty() { None } else { Some(number(after)?) };
            let (last, skipped) = match rest.split_once('-') {
                Some((last, skipped)) => (last, Some(number(skipped)?)),
                None => (rest, None),
            };
            Some(Self { after, last: number(last)?, skipped })
        });
        cursor.ok_or(Invalid::new("cursor", "is not one of ours"))
    }
}

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sweep {
    /// Messages that matched, without those that were skipped.
    pub matched: u64,
    /// Messages that were changed; others had changed by themselves in between.
    pub changed: u64,
    /// Messages that matched and stay as they are, because a bound is reached: those of a full shard.
    pub skipped: u64,
    /// There may be more that match: [`Sweep::next`] says where.
    pub more: bool,
    /// Where to continue; none at the end.
    pub next: Option<SweepCursor>,
    /// Those that were changed, in order.
    pub uids: Vec<Uid>,
    /// The bound that messages were skipped for.
    pub stopped: Option<Bound>,
    /// All that match were visited. If some were skipped, [`Sweep::next`] begins a new pass with them.
    pub pass_ended: bool,
}

impl Operator {
    /// Carries the action out on all that match, or only counts them.
    pub(super) async fn sweep(&self, filter: &Filter, action: Option<&Action>) -> Result<Sweep, Error> {
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
            query.size = PageSize::new(PIECE)?;
        }
        for pages in 1.. {
            query.after = cursor.after.map(Cursor);
            let page = self.page(&query).await?;
            let past = page.messages.last().is_some_and(|message| message.number > cursor.last);
            let most = filter.limit.saturating_sub(sweep.matched);
            let (chosen, more) = filter.choose(&page.messages, cursor.last, most);
            let last_chosen = chosen.last().map(|(number, _)| *number);
            match action {
                Some(action) => match self.change(&mut sweep, &mut cursor, chosen, action).await {
                    // What was changed before has to be reported. The next call meets the error, if it lasts.
                    Err(_) if sweep.changed > 0 => {
                        sweep.more = true;
                        break;
                    }
                    changed => changed?,
                },
                None => sweep.matched += chosen.len() as u64,
            }
            if more {
                cursor.after = last_chosen.or(cursor.after);
            } else if let Some(Cursor(next)) = page.next.filter(|_| !past) {
                cursor.after = Some(next);
            } else {
                sweep.pass_ended = true;
                break;
            }
            let full = more && sweep.matched >= filter.limit;
            if full || action.is_some() && pages >= filter.pages {
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

    /// What is redriven comes back at the newest end, and may match again: only what was there at the beginning counts.
    async fn newest(&self, filter: &Filter) -> Result<Option<Number>, Error> {
        // Of any topic, source and reason, which one page answers: it is only an upper end.
        let mut query = Query { direction: Direction::NewestFirst, ..Query::all(self.namespace) };
        query.state = filter.query.state;
        query.size = PageSize::new(1)?;
        let page = self.page(&query).await?;
        Ok(page.messages.first().map(|message| message.number))
    }

    /// Changes those of a piece that fit.
    async fn change(
        &self,
        sweep: &mut Sweep,
        cursor: &mut SweepCursor,
        chosen: Vec<(Number, Target)>,
        action: &Action,
    ) -> Result<(), Error> {
        if chosen.is_empty() {
            return Ok(());
        }
        let (numbers, targets): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
        for (number, operated) in numbers.into_iter().zip(self.order(targets, action).await?) {
            match operated {
                Operated::Saturated { bound, .. } => {
                    sweep.skipped += 1;
                    sweep.stopped = Some(bound);
                    cursor.skipped.get_or_insert(number);
                    continue;
                }
                Operated::Changed(receipt) => {
                    sweep.changed += 1;
                    sweep.uids.push(receipt.uid);
                }
                _ => {}
            }
            sweep.matched += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::Number;

    use super::SweepCursor;

    #[test]
    fn a_cursor_survives_its_text_and_nonsense_is_refused() {
        for after in [None, Some(Number(0)), Some(Number(u64::MAX))] {
            for skipped in [None, Some(Number(1)), Some(Number(u64::MAX))] {
                let cursor = SweepCursor { after, last: Number(77), skipped };
                assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }
        for text in ["", "-", "1", "1-", "x-1", "1-2-", "1-2-3-4", "+1-2"] {
            assert!(text.parse::<SweepCursor>().is_err(), "{text}");
        }
    }
}
