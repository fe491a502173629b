//! One call of the port, chosen at random.

use oncebox_core::{Begin, Budget, Claim, Extension, NewMessage, Order, Scope, Settlement, Sighting};

use super::universe::Universe;
use crate::model::Model;

/// One call of the port.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Observe(Vec<Sighting>),
    Accept(Vec<NewMessage>),
    Begin(Vec<Begin>),
    Work(Vec<Settlement>, Vec<Claim>),
    Extend(Vec<Extension>),
    Operate(Vec<Order>),
    Upkeep(Budget),
    /// And the ready topics of every namespace.
    Counts(Vec<Scope>),
    /// `get` and `page` of everything, after every few others.
    Read,
    /// The last one.
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
            Self::Upkeep(_) => "upkeep",
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
            60..68 => Operation::Observe(self.some(Self::sighting)),
            68..77 => Operation::Begin(self.some(Self::begin)),
            77..83 => Operation::Extend(self.some(|universe| universe.extension(model))),
            83..93 => Operation::Operate(self.some(|universe| universe.order(model))),
            93..97 => Operation::Upkeep(self.budget()),
            _ => Operation::Counts(self.scopes()),
        }
    }

    fn work(&mut self, model: &Model) -> Operation {
        let settlements =
            if self.chance(65) { self.some(|universe| universe.settlement(model)) } else { Vec::new() };
        let claims = if self.chance(65) { self.some(Self::claim) } else { Vec::new() };
        Operation::Work(settlements, claims)
    }

    /// One to five items, few more often than many.
    fn some<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.pick(&[1, 1, 1, 2, 2, 3, 4, 5]);
        (0..count).map(|_| item(self)).collect()
    }
}
