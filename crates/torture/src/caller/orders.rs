//! The operator's orders.

use std::time::Duration;

use oncebox_core::{Action, Hold, Keep, Operated, Order, Ref, Store};

use super::{Caller, KEPT_MAX};
use crate::Failure;
use crate::held::{Known, take};
use crate::say;

impl Caller<'_> {
    /// Erases what is more than there should be, in one call.
    pub(super) async fn erase_old(&mut self) -> Result<(), Failure> {
        let messages = &mut self.messages;
        let mut orders = Vec::new();
        for kind in [&mut messages.done, &mut messages.dead, &mut messages.waiting, &mut messages.seen] {
            let excess = kind.len().saturating_sub(KEPT_MAX * 3 / 4);
            orders.extend(kind.drain(..excess).map(|known| ("erase", known)));
        }
        self.order(orders).await
    }

    /// One order or a few, mostly such as fit the message.
    pub(super) async fn operate(&mut self) -> Result<(), Failure> {
        let mut orders = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let (from, actions) = match self.rng.below(8) {
                0..4 => (&mut self.messages.dead, ["redrive", "processing", "erase", "processed"]),
                4..6 => (&mut self.messages.waiting, ["dead", "cancel", "erase", "processing"]),
                6 => (&mut self.messages.seen, ["dead", "cancel", "erase", "processed"]),
                _ => {
                    let held = take(&mut self.messages.held, &mut self.rng);
                    let actions = ["processing", "processing", "cancel", "erase"];
                    if let Some(held) = held.filter(|held| held.known.has_content()) {
                        orders.push((self.pick(actions), held.known));
                    }
                    continue;
                }
            };
            let Some(known) = take(from, &mut self.rng) else { continue };
            let action = self.pick(actions);
            // A key without content that is made to be processed again would stay so for good.
            let action = if !known.has_content() && matches!(action, "redrive" | "processing") {
                "erase"
            } else {
                action
            };
            orders.push((action, known));
        }
        if orders.is_empty() { Ok(()) } else { self.order(orders).await }
    }

    fn pick(&mut self, actions: [&'static str; 4]) -> &'static str {
        actions[usize::try_from(self.rng.below(4)).unwrap_or_default()]
    }

    async fn order(&mut self, orders: Vec<(&'static str, Known)>) -> Result<(), Failure> {
        let told = orders.iter().map(|(action, known)| format!(" {action},{}", say::key(&known.key)));
        let id = self.call(&format!("operate{}", told.collect::<String>()));
        let made: Vec<_> = orders.iter().map(|(name, known)| self.make(name, known)).collect();
        let outcomes = self.store.operate(&made).await?;
        Self::answer(id, &outcomes.iter().map(|outcome| operated(outcome).to_owned()).collect::<Vec<_>>());
        for ((name, known), outcome) in orders.into_iter().zip(outcomes) {
            match (name, outcome) {
                ("redrive" | "processing", Operated::Changed(_)) => self.ready += 1,
                ("dead" | "cancel", Operated::Changed(_)) => self.messages.dead.push(known),
                ("processed", Operated::Changed(_)) => self.messages.finished(known),
                ("processing", Operated::Unchanged(_)) => self.messages.waiting.push(known),
                _ => {}
            }
        }
        Ok(())
    }

    fn make(&self, name: &str, known: &Known) -> Order {
        let by_key = !known.is_loose() && self.keys.is_multiple_of(2);
        let target = if by_key { Ref::Key(known.key.clone()) } else { Ref::Uid(known.uid) };
        let action = match name {
            "redrive" => Action::REDRIVE,
            "processing" => Action::MarkProcessing,
            "processed" => Action::MarkProcessed {
                hold: Hold { window: Duration::ZERO, keep: Keep::After(Duration::ZERO) },
            },
            "dead" => Action::MarkDead { error: None },
            "cancel" => Action::Cancel,
            _ => Action::Erase,
        };
        Order { target, action }
    }
}

fn operated(outcome: &Operated) -> &'static str {
    match outcome {
        Operated::Changed(_) => "changed",
        Operated::Unchanged(_) => "unchanged",
        Operated::Unknown => "unknown",
        _ => "unexpected",
    }
}
