//! Operations on records, drawn from few kinds and ids.

use oncebox_core::{
    Direction, PageSize, RecordId, RecordKind, RecordOp, RecordValue, RecordVersion, WhenFull, WriteCondition,
};

use super::universe::Universe;

const KINDS: [RecordKind; 2] = [
    RecordKind::new("random_state", 3, WhenFull::Refuse),
    RecordKind::new("random_log", 3, WhenFull::DropOldest),
];

impl Universe {
    pub(super) fn record_op(&mut self) -> RecordOp {
        let (kind, id) = (self.pick(&KINDS), self.record_id());
        match self.below(10) {
            0..6 => RecordOp::Put {
                kind,
                id,
                value: RecordValue::new(self.pick(&["", "x", "yy"])).expect("it is in bounds"),
                condition: self.record_condition(),
                keep: self.maybe(40, Self::delay),
            },
            6..8 => RecordOp::Delete {
                kind,
                id,
                version: self.maybe(50, |universe| RecordVersion(1 + universe.below(12))),
            },
            8 => RecordOp::Get { kind, id },
            _ => RecordOp::List {
                kind,
                direction: self.pick(&[Direction::OldestFirst, Direction::NewestFirst]),
                after: self.maybe(50, Self::record_id),
                size: PageSize::new(self.pick(&[1, 2, 10])).expect("it is in bounds"),
            },
        }
    }

    fn record_id(&mut self) -> RecordId {
        RecordId::new(self.pick(&["a", "b", "B", "é"])).expect("it is in bounds")
    }

    fn record_condition(&mut self) -> WriteCondition {
        match self.below(4) {
            0 => WriteCondition::Absent,
            1 => WriteCondition::Version(RecordVersion(1 + self.below(12))),
            _ => WriteCondition::Always,
        }
    }
}
