//! Turns: of all who wait for messages of one topic, one listens; the others wait for their turn, in order. A message would
//! otherwise wake everybody, and all but one in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use oncebox_core::Topic;

/// Held by the one who listens.
pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

/// By topic; only those that somebody waits for.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Topic, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(super) fn of(&self, topic: &Topic) -> Turn {
        // Nothing here can panic halfway: what is found is whole.
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(topic).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Turn::default();
        turns.insert(topic.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oncebox_core::Topic;

    use super::Turns;

    #[test]
    fn those_who_wait_share_a_turn_and_nothing_stays_behind_them() {
        let turns = Turns::default();
        let topic = |name: &str| Topic::new(name).unwrap();
        let (one, same, other) = (turns.of(&topic("a")), turns.of(&topic("a")), turns.of(&topic("b")));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        drop((one, same, other));
        for number in 0..100 {
            drop(turns.of(&topic(&number.to_string())));
        }
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
