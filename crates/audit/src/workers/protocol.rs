//! The log lines of the processes. Words are separated by spaces, the fields of an item by commas.
//!
//! ```text
//! MS call ID accept KEY,PARTITION,HASH …            PARTITION is `-` if there is none
//! MS call ID work OWNER COUNT VERDICT,KEY,FENCE …   COUNT is the limit of the claim
//! MS call ID extend OWNER KEY,FENCE …
//! MS answer ID OUTCOME …                            one outcome per item, then the deliveries of `work`
//! MS error ID                                       the call failed: its outcome is unknown
//! ```
//! Verdicts: `ack`, `abandon`, `release`, `fail`. Outcomes of accept: `new,UID`, `dup,UID`; of a settlement: `done`,
//! `retrying`, `released`, `dead`, `lost`; of extend: `until,UNTIL`, `lost`. A delivery is
//! `KEY,UID,FENCE,UNTIL,DELIVERIES,ATTEMPTS,HASH`.
//!
//! The final rows are `KEY|UID|STATE|DELIVERIES|ATTEMPTS|FENCE|KIND|LEASES`. STATE is 2 for done and 3 for dead. KIND
//! is the settlement that ended the last lease: 0 for an ack, 2 for a failure. LEASES is the number of leases that have
//! not ended.

use crate::{Result, Violation};

/// A log line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) at: u64,
    pub(super) id: u64,
    pub(super) entry: Entry<'a>,
}

#[derive(Debug)]
pub(super) enum Entry<'a> {
    Call(Call<'a>),
    Answer(Vec<&'a str>),
    Error,
}

#[derive(Debug)]
pub(super) enum Call<'a> {
    Accept(Vec<NewMessage<'a>>),
    Work { owner: &'a str, count: usize, settlements: Vec<Settlement<'a>> },
    Extend { owner: &'a str, extensions: Vec<(&'a str, u64)> },
}

#[derive(Debug)]
pub(super) struct NewMessage<'a> {
    pub(super) key: &'a str,
    pub(super) partition: Option<&'a str>,
    pub(super) hash: &'a str,
}

#[derive(Debug)]
pub(super) struct Settlement<'a> {
    pub(super) verdict: Verdict,
    pub(super) key: &'a str,
    pub(super) fence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ack,
    Abandon,
    Release,
    Fail,
}

impl Verdict {
    fn read(word: &str) -> Option<Self> {
        let all = [
            ("ack", Self::Ack),
            ("abandon", Self::Abandon),
            ("release", Self::Release),
            ("fail", Self::Fail),
        ];
        all.into_iter().find_map(|(name, verdict)| (name == word).then_some(verdict))
    }

    /// The outcome if the settlement is applied.
    pub(super) fn success_outcome(self) -> &'static str {
        match self {
            Self::Ack => "done",
            Self::Abandon => "retrying",
            Self::Release => "released",
            Self::Fail => "dead",
        }
    }

    /// Whether it finishes the message.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Ack | Self::Fail)
    }
}

/// A delivery in an answer.
#[derive(Debug)]
pub(super) struct Delivery<'a> {
    pub(super) key: &'a str,
    pub(super) uid: &'a str,
    pub(super) fence: u64,
    pub(super) until: u64,
    pub(super) deliveries: u64,
    pub(super) attempts: u64,
    pub(super) hash: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a str) -> Result<Self> {
        parse(line).ok_or_else(|| Violation::new(format!("invalid line: {line}")))
    }
}

impl<'a> Delivery<'a> {
    pub(super) fn read(word: &'a str) -> Result<Self> {
        delivery(word).ok_or_else(|| Violation::new(format!("invalid delivery: {word}")))
    }
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let (at, kind, id) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
    let entry = match kind {
        "call" => Entry::Call(call(words.next()?, words)?),
        "answer" => Entry::Answer(words.collect()),
        "error" => Entry::Error,
        _ => return None,
    };
    Some(Line { at, id, entry })
}

fn call<'a>(kind: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Call<'a>> {
    Some(match kind {
        "accept" => Call::Accept(words.map(new_message).collect::<Option<_>>()?),
        "work" => Call::Work {
            owner: words.next()?,
            count: words.next()?.parse().ok()?,
            settlements: words.map(settlement).collect::<Option<_>>()?,
        },
        "extend" => {
            Call::Extend { owner: words.next()?, extensions: words.map(extension).collect::<Option<_>>()? }
        }
        _ => return None,
    })
}

fn new_message(word: &str) -> Option<NewMessage<'_>> {
    let [key, partition, hash] = fields(word)?;
    Some(NewMessage { key, partition: Some(partition).filter(|name| *name != "-"), hash })
}

fn settlement(word: &str) -> Option<Settlement<'_>> {
    let [verdict, key, fence] = fields(word)?;
    Some(Settlement { verdict: Verdict::read(verdict)?, key, fence: fence.parse().ok()? })
}

fn extension(word: &str) -> Option<(&str, u64)> {
    let [key, fence] = fields(word)?;
    Some((key, fence.parse().ok()?))
}

fn delivery(word: &str) -> Option<Delivery<'_>> {
    let [key, uid, fence, until, deliveries, attempts, hash] = fields(word)?;
    let (fence, until) = (fence.parse().ok()?, until.parse().ok()?);
    let (deliveries, attempts) = (deliveries.parse().ok()?, attempts.parse().ok()?);
    Some(Delivery { key, uid, fence, until, deliveries, attempts, hash })
}

fn fields<const COUNT: usize>(word: &str) -> Option<[&str; COUNT]> {
    word.split(',').collect::<Vec<_>>().try_into().ok()
}
