//! A random call of the store.

use oncebox_core::{
    Begin, Budget, Claim, Extension, NewMessage, Observation, Order, RecordOp, Scope, Settlement,
};

use super::universe::Universe;
use crate::model::Model;

/// One call of the store.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Observe(Vec<Observation>),
    Accept(Vec<NewMessage>),
    Begin(Vec<Begin>),
    Work(Vec<Settlement>, Vec<Claim>),
    Extend(Vec<Extension>),
    Operate(Vec<Order>),
    Records(Vec<RecordOp>),
    Maintain(Budget),
    /// `counts`, `ready_topics` and `topic_counts`.
    Counts(Vec<Scope>),
    /// `get`, `with_key` and `page` of everything, after every few other calls.
    Read,
    /// The last call.
    Close,
}

impl Operation {
    /// The name of the method.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Observe(_) => "observe",
            Self::Accept(_) => "accept",
            Self::Begin(_) => "begin",
            Self::Work(..) => "work",
            Self::Extend(_) => "extend",
            Self::Operate(_) => "operate",
            Self::Records(_) => "records",
            Self::Maintain(_) => "maintain",
            Self::Counts(_) => "counts",
            Self::Read => "read",
            Self::Close => "close",
        }
    }
}

impl Universe {
    /// A random call.
    pub(super) fn operation(&mut self, model: &Model) -> Operation {
        match self.below(100) {
            0..26 => Operation::Accept(self.some(|universe| universe.message(model))),
            26..60 => self.work(model),
            60..68 => Operation::Observe(self.some(Self::observation)),
            68..77 => Operation::Begin(self.some(Self::begin)),
            77..83 => Operation::Extend(self.some(|universe| universe.extension(model))),
            83..91 => Operation::Operate(self.some(|universe| universe.order(model))),
            91..94 => Operation::Records(self.some(Self::record_op)),
            94..97 => Operation::Maintain(self.budget()),
            _ => Operation::Counts(self.scopes()),
        }
    }

    fn work(&mut self, model: &Model) -> Operation {
        let settlements =
            if self.chance(65) { self.some(|universe| universe.settlement(model)) } else { Vec::new() };
        let claims = if self.chance(65) { self.some(Self::claim) } else { Vec::new() };
        Operation::Work(settlements, claims)
    }

    /// One to five items, preferably few.
    fn some<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.pick(&[1, 1, 1, 2, 2, 3, 4, 5]);
        (0..count).map(|_| item(self)).collect()
    }
}
