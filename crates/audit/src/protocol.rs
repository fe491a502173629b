//! The lines that the process under test writes. Words are separated by spaces, the fields of an item by commas.
//!
//! ```text
//! open                                              the store is open
//! message KEY,UID,STATE,ATTEMPTS,DELIVERIES,RETRY,GRANT
//!                                                   one message; GRANT is `-` or OWNER:FENCE:UNTIL:END
//! listed                                            all messages have been listed
//! call ID accept KEY,UID,HASH,HOLD …                HOLD is `retained` or `transient`
//! call ID work OWNER SOURCE COUNT VERDICT,KEY,FENCE …
//! call ID begin OWNER KEY …
//! call ID extend KEY,FENCE …
//! call ID operate ACTION,KEY …
//! call ID maintain
//! answer ID OUTCOME …                               one outcome per item, then the deliveries of `work`
//! drained                                           nothing is left to claim
//! pong WORD                                         echo of the input line WORD
//! failed TEXT                                       a call returned an error
//! ```
//! Outcomes of accept: `new,UID`, `dup,UID`, `saturated`; of a settlement: `done`, `retrying`, `dead`, `released`,
//! `lost`; of begin: `acquired,UID,FENCE,UNTIL`, `processed`, `busy`, `invalid`; of extend: `extended,UNTIL`, `lost`;
//! of operate: `changed`, `unchanged`, `unknown`. A delivery is `KEY,FENCE,UNTIL,ATTEMPTS,DELIVERIES,HASH`.
//!
//! Keys have the form `NAMESPACE/SOURCE/ID`. Each source belongs to one caller, which makes one call after another.
//! Each claim and each begin has a unique owner, so that a lease identifies the call that acquired it.

use crate::record::{Grant, MessageRecord};
use crate::{Result, Violation};

pub(crate) enum Line {
    Open,
    Message(String, MessageRecord),
    Listed,
    Call(u64, Call),
    Answer(u64, Vec<String>),
    Drained,
    Pong(String),
    Failed(String),
}

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Accept(Vec<NewMessage>),
    Work { owner: String, source: String, count: usize, settlements: Vec<(String, String, u64)> },
    Begin { owner: String, keys: Vec<String> },
    Extend(Vec<(String, u64)>),
    Operate(Vec<(String, String)>),
    Maintain,
}

/// A message to be accepted.
#[derive(Debug, Clone)]
pub(crate) struct NewMessage {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) hash: String,
    pub(crate) transient: bool,
}

impl Line {
    pub(crate) fn read(line: &str) -> Result<Self> {
        parse(line).ok_or_else(|| Violation::new(format!("invalid line: {line}")))
    }
}

fn parse(line: &str) -> Option<Line> {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let mut words = rest.split(' ').filter(|word| !word.is_empty());
    Some(match first {
        "open" => Line::Open,
        "listed" => Line::Listed,
        "drained" => Line::Drained,
        "failed" => Line::Failed(rest.to_owned()),
        "pong" => Line::Pong(rest.to_owned()),
        "message" => {
            let (key, record) = record(words.next()?)?;
            Line::Message(key, record)
        }
        "answer" => Line::Answer(words.next()?.parse().ok()?, words.map(str::to_owned).collect()),
        "call" => Line::Call(words.next()?.parse().ok()?, call(words.next()?, words)?),
        _ => return None,
    })
}

fn call<'a>(kind: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Call> {
    Some(match kind {
        "accept" => Call::Accept(words.map(new_message).collect::<Option<_>>()?),
        "work" => Call::Work {
            owner: words.next()?.to_owned(),
            source: words.next()?.to_owned(),
            count: words.next()?.parse().ok()?,
            settlements: words.map(settlement).collect::<Option<_>>()?,
        },
        "begin" => Call::Begin { owner: words.next()?.to_owned(), keys: words.map(str::to_owned).collect() },
        "extend" => {
            let pair = |word: &str| {
                let [key, fence] = fields(word)?;
                Some((key.to_owned(), fence.parse().ok()?))
            };
            Call::Extend(words.map(pair).collect::<Option<_>>()?)
        }
        "operate" => {
            let pair = |word: &str| fields(word).map(|[action, key]| (action.to_owned(), key.to_owned()));
            Call::Operate(words.map(pair).collect::<Option<_>>()?)
        }
        "maintain" => Call::Maintain,
        _ => return None,
    })
}

/// Splits an item into exactly `N` fields.
pub(crate) fn fields<const N: usize>(word: &str) -> Option<[&str; N]> {
    word.split(',').collect::<Vec<_>>().try_into().ok()
}

fn new_message(word: &str) -> Option<NewMessage> {
    let [key, uid, hash, hold] = fields(word)?;
    Some(NewMessage {
        key: key.to_owned(),
        uid: uid.to_owned(),
        hash: hash.to_owned(),
        transient: hold == "transient",
    })
}

fn settlement(word: &str) -> Option<(String, String, u64)> {
    let [verdict, key, fence] = fields(word)?;
    Some((verdict.to_owned(), key.to_owned(), fence.parse().ok()?))
}

fn record(word: &str) -> Option<(String, MessageRecord)> {
    let [key, uid, state, attempts, deliveries, retry, grant] = fields(word)?;
    let grant = match grant.split(':').collect::<Vec<_>>().as_slice() {
        ["-"] => None,
        [owner, fence, until, end] => Some(Grant {
            owner: (*owner).to_owned(),
            fence: fence.parse().ok()?,
            until: until.parse().ok()?,
            end: (*end).to_owned(),
        }),
        _ => return None,
    };
    let record = MessageRecord {
        uid: uid.to_owned(),
        state: state.to_owned(),
        attempts: attempts.parse().ok()?,
        deliveries: deliveries.parse().ok()?,
        retry: retry.to_owned(),
        grant,
    };
    Some((key.to_owned(), record))
}
