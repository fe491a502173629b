//! Operator actions.

use std::time::Duration;

use oncebox_core::{Action, Hold, Keep, MessageRef, Operated, Order, Store};

use super::{Caller, RETAINED_MAX};
use crate::Failure;
use crate::held::{KnownMessage, take};
use crate::trace;

impl Caller<'_> {
    /// Erases the excess of every group, in one call.
    pub(super) async fn erase_old(&mut self) -> Result<(), Failure> {
        let messages = &mut self.messages;
        let mut orders = Vec::new();
        for group in [&mut messages.done, &mut messages.dead, &mut messages.waiting, &mut messages.seen] {
            let excess = group.len().saturating_sub(RETAINED_MAX * 3 / 4);
            orders.extend(group.drain(..excess).map(|known| ("erase", known)));
        }
        self.order(orders).await
    }

    /// Sends up to three actions; most are valid for the state of their message.
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
            // A ledger key has no content, so no worker would ever finish one that is set back to processing.
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

    async fn order(&mut self, orders: Vec<(&'static str, KnownMessage)>) -> Result<(), Failure> {
        let listed = orders.iter().map(|(action, known)| format!(" {action},{}", trace::key(&known.key)));
        let id = self.call(&format!("operate{}", listed.collect::<String>()));
        let built: Vec<_> = orders.iter().map(|(name, known)| self.build(name, known)).collect();
        let outcomes = self.store.operate(&built).await?;
        Self::answer(id, &outcomes.iter().map(|outcome| operated(outcome).to_owned()).collect::<Vec<_>>());
        for ((name, known), outcome) in orders.into_iter().zip(outcomes) {
            match (name, outcome) {
                ("redrive" | "processing", Operated::Changed(_)) => self.ready += 1,
                ("dead" | "cancel", Operated::Changed(_)) => self.messages.dead.push(known),
                ("processed", Operated::Changed(_)) => self.messages.add_done(known),
                ("processing", Operated::Unchanged(_)) => self.messages.waiting.push(known),
                _ => {}
            }
        }
        Ok(())
    }

    fn build(&self, name: &str, known: &KnownMessage) -> Order {
        let by_key = !known.is_transient() && self.keys.is_multiple_of(2);
        let target = if by_key { MessageRef::Key(known.key.clone()) } else { MessageRef::Uid(known.uid) };
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
