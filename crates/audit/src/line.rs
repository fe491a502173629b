//! The lines of the process under test: words between blanks, an item's fields between commas.
//!
//! ```text
//! open                                              the store is open
//! is KEY,UID,STATE,ATTEMPTS,DELIVERIES,RETRY,GRANT  one message; GRANT is `-` or OWNER:FENCE:UNTIL:END
//! listed                                            all messages have been told
//! call ID accept KEY,UID,HASH,HOLD …                HOLD is `kept` or `loose`
//! call ID work OWNER SOURCE COUNT VERDICT,KEY,FENCE …
//! call ID begin OWNER KEY …
//! call ID extend KEY,FENCE …
//! call ID operate ACTION,KEY …
//! call ID upkeep
//! answer ID OUTCOME …                               one per item; then, of `work`, the deliveries
//! drained                                           nothing more is claimable
//! pong WORD                                         everything before WORD came in has been told
//! failed TEXT                                       a call answered an error
//! ```
//! Outcomes: `new,UID` `dup,UID` `saturated` of accept; `done` `retrying` `dead` `released` `lost` of a settlement,
//! `KEY,FENCE,UNTIL,ATTEMPTS,DELIVERIES,HASH` of a delivery; `acquired,UID,FENCE,UNTIL` `processed` `busy` `invalid` of
//! begin; `extended,UNTIL` `lost` of extend; `changed` `unchanged` `unknown` of operate.
//!
//! Keys read `NAMESPACE/SOURCE/ID`; a source belongs to one caller, which calls one call after another. Each claim and
//! each begin has an owner of its own, so that a lease tells which call it came from.

use crate::standing::{Grant, Standing};
use crate::{Fault, Result};

pub(crate) enum Line {
    Open,
    Is(String, Standing),
    Listed,
    Call(u64, Call),
    Answer(u64, Vec<String>),
    Drained,
    Pong(String),
    Failed(String),
}

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Accept(Vec<Fresh>),
    Work { owner: String, source: String, count: usize, settlements: Vec<(String, String, u64)> },
    Begin { owner: String, keys: Vec<String> },
    Extend(Vec<(String, u64)>),
    Operate(Vec<(String, String)>),
    Upkeep,
}

/// A message to be accepted.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) hash: String,
    pub(crate) loose: bool,
}

impl Line {
    pub(crate) fn read(line: &str) -> Result<Self> {
        parse(line).ok_or_else(|| Fault::new(format!("the process wrote a line that says nothing: {line}")))
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
        "is" => {
            let (key, standing) = standing(words.next()?)?;
            Line::Is(key, standing)
        }
        "answer" => Line::Answer(words.next()?.parse().ok()?, words.map(str::to_owned).collect()),
        "call" => Line::Call(words.next()?.parse().ok()?, call(words.next()?, words)?),
        _ => return None,
    })
}

fn call<'a>(kind: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Call> {
    Some(match kind {
        "accept" => Call::Accept(words.map(fresh).collect::<Option<_>>()?),
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
        "upkeep" => Call::Upkeep,
        _ => return None,
    })
}

/// Exactly so many fields.
pub(crate) fn fields<const N: usize>(word: &str) -> Option<[&str; N]> {
    word.split(',').collect::<Vec<_>>().try_into().ok()
}

fn fresh(word: &str) -> Option<Fresh> {
    let [key, uid, hash, hold] = fields(word)?;
    Some(Fresh { key: key.to_owned(), uid: uid.to_owned(), hash: hash.to_owned(), loose: hold == "loose" })
}

fn settlement(word: &str) -> Option<(String, String, u64)> {
    let [verdict, key, fence] = fields(word)?;
    Some((verdict.to_owned(), key.to_owned(), fence.parse().ok()?))
}

fn standing(word: &str) -> Option<(String, Standing)> {
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
    let standing = Standing {
        uid: uid.to_owned(),
        state: state.to_owned(),
        attempts: attempts.parse().ok()?,
        deliveries: deliveries.parse().ok()?,
        retry: retry.to_owned(),
        grant,
    };
    Some((key.to_owned(), standing))
}
