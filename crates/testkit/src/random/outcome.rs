//! Names of outcomes, to report what a run has reached.

use oncebox_core::{Accepted, Begun, DeadReason, Extended, Observed, Operated, RecordOutcome, Settled};

/// What a run of default length has to reach on a store that is never full.
pub(super) const REACHABLE: &[&str] = &[
    "accepted conflict",
    "accepted duplicate",
    "accepted duplicate diverged",
    "accepted new",
    "accepted new diverged",
    "accepted replaced",
    "accepted uid taken",
    "begun acquired",
    "begun busy",
    "begun invalid",
    "begun processed",
    "claimed a batch",
    "claimed again",
    "claimed nothing",
    "dead cancelled",
    "dead exhausted",
    "dead expired",
    "dead failed",
    "dead integrity",
    "dead undecodable",
    "dead unhandled",
    "extended lease lost",
    "extended until",
    "forgotten",
    "key lapsed",
    "listed on several pages",
    "named a full page of topics",
    "observed again",
    "observed again diverged",
    "observed first",
    "operated changed",
    "operated unchanged",
    "operated unknown",
    "record conflict",
    "record deleted",
    "record found",
    "record full",
    "record listed",
    "record not found",
    "record written",
    "settled again",
    "settled dead",
    "settled done",
    "settled lease lost",
    "settled released",
    "settled retrying",
    "settled superseded",
    "several found by key",
];

/// An outcome with a name.
pub(super) trait Outcome {
    /// The name of its variant.
    fn kind(&self) -> &'static str;
}

impl Outcome for Observed {
    fn kind(&self) -> &'static str {
        match self {
            Self::First(_) => "observed first",
            Self::Again { diverged: true, .. } => "observed again diverged",
            Self::Again { .. } => "observed again",
            _ => "observed otherwise",
        }
    }
}

impl Outcome for RecordOutcome {
    fn kind(&self) -> &'static str {
        match self {
            Self::Written(_) => "record written",
            Self::Conflict(_) => "record conflict",
            Self::Full(_) => "record full",
            Self::Found(Some(_)) => "record found",
            Self::Found(None) | Self::Deleted(false) => "record not found",
            Self::Listed(_) => "record listed",
            Self::Deleted(true) => "record deleted",
            _ => "record otherwise",
        }
    }
}

impl Outcome for Accepted {
    fn kind(&self) -> &'static str {
        match self {
            Self::New { diverged: true, .. } => "accepted new diverged",
            Self::New { .. } => "accepted new",
            Self::Duplicate { diverged: true, .. } => "accepted duplicate diverged",
            Self::Duplicate { .. } => "accepted duplicate",
            Self::Replaced(_) => "accepted replaced",
            Self::Conflict(_) => "accepted conflict",
            Self::UidTaken(_) => "accepted uid taken",
            _ => "accepted otherwise",
        }
    }
}

impl Outcome for Begun {
    fn kind(&self) -> &'static str {
        match self {
            Self::Acquired { .. } => "begun acquired",
            Self::Processed(_) => "begun processed",
            Self::Busy { .. } => "begun busy",
            Self::Invalid => "begun invalid",
            _ => "begun otherwise",
        }
    }
}

impl Outcome for Settled {
    fn kind(&self) -> &'static str {
        match self {
            Self::Done => "settled done",
            Self::Superseded => "settled superseded",
            Self::Retrying { .. } => "settled retrying",
            Self::Released => "settled released",
            Self::Dead { .. } => "settled dead",
            Self::LeaseLost => "settled lease lost",
            _ => "settled otherwise",
        }
    }
}

impl Outcome for Extended {
    fn kind(&self) -> &'static str {
        match self {
            Self::Until(_) => "extended until",
            Self::LeaseLost => "extended lease lost",
            Self::Locked => "extended locked",
        }
    }
}

impl Outcome for Operated {
    fn kind(&self) -> &'static str {
        match self {
            Self::Changed(_) => "operated changed",
            Self::Unchanged(_) => "operated unchanged",
            Self::Unknown => "operated unknown",
            _ => "operated otherwise",
        }
    }
}

impl Outcome for DeadReason {
    fn kind(&self) -> &'static str {
        match self {
            Self::Failed => "dead failed",
            Self::Exhausted => "dead exhausted",
            Self::Expired => "dead expired",
            Self::Cancelled => "dead cancelled",
            Self::Integrity => "dead integrity",
            Self::Unhandled => "dead unhandled",
            Self::Undecodable => "dead undecodable",
            _ => "dead otherwise",
        }
    }
}
