//! The lines of the processes: words between blanks, an item's fields between commas.
//!
//! ```text
//! MS ask ID accept KEY,PARTITION,HASH …             PARTITION is `-` if there is none
//! MS ask ID work OWNER COUNT VERDICT,KEY,FENCE …    COUNT is how many are claimed at most
//! MS ask ID extend OWNER KEY,FENCE …
//! MS got ID OUTCOME …                               one per item; then, of `work`, the deliveries
//! MS none ID                                        an error: nobody knows
//! ```
//! Verdicts: `ack` `abandon` `release` `fail`. Outcomes: `new,UID` `dup,UID` of accept; `done` `retrying` `released` `dead`
//! `lost` of a settlement, `KEY,UID,FENCE,UNTIL,DELIVERIES,ATTEMPTS,HASH` of a delivery; `until,UNTIL` `lost` of extend.
//!
//! The rows, columns divided by `|`: `KEY|UID|STATE|DELIVERIES|ATTEMPTS|FENCE|KIND|LEASES`. STATE and KIND, that of the
//! settlement that ended the last lease, are numbers: done is 2 and by an ack (0), dead is 3 and by a failure (2). LEASES are
//! those that nobody has ended.

use crate::{Fault, Result};

/// What was written at a moment.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) at: u64,
    pub(super) id: u64,
    pub(super) what: What<'a>,
}

#[derive(Debug)]
pub(super) enum What<'a> {
    Ask(Call<'a>),
    Got(Vec<&'a str>),
    None,
}

#[derive(Debug)]
pub(super) enum Call<'a> {
    Accept(Vec<Fresh<'a>>),
    Work { owner: &'a str, count: usize, settlements: Vec<Settlement<'a>> },
    Extend { owner: &'a str, extensions: Vec<(&'a str, u64)> },
}

#[derive(Debug)]
pub(super) struct Fresh<'a> {
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

    /// What it is answered if it counts.
    pub(super) fn counts(self) -> &'static str {
        match self {
            Self::Ack => "done",
            Self::Abandon => "retrying",
            Self::Release => "released",
            Self::Fail => "dead",
        }
    }

    /// The message is finished by it.
    pub(super) fn ends(self) -> bool {
        matches!(self, Self::Ack | Self::Fail)
    }
}

/// A message that somebody got.
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
        parse(line).ok_or_else(|| Fault::new(format!("a line says nothing: {line}")))
    }
}

impl<'a> Delivery<'a> {
    pub(super) fn read(word: &'a str) -> Result<Self> {
        delivery(word).ok_or_else(|| Fault::new(format!("an answer is no delivery: {word}")))
    }
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let (at, kind, id) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
    let what = match kind {
        "ask" => What::Ask(call(words.next()?, words)?),
        "got" => What::Got(words.collect()),
        "none" => What::None,
        _ => return None,
    };
    Some(Line { at, id, what })
}

fn call<'a>(kind: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Call<'a>> {
    Some(match kind {
        "accept" => Call::Accept(words.map(fresh).collect::<Option<_>>()?),
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

fn fresh(word: &str) -> Option<Fresh<'_>> {
    let [key, partition, hash] = fields(word)?;
    Some(Fresh { key, partition: Some(partition).filter(|name| *name != "-"), hash })
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
