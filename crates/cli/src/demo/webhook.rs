//! Generated webhooks with invented names and amounts.

use serde_json::{Value, json};

use super::random::Random;

const PAYMENTS: [&str; 3] = ["payment.succeeded", "payment.refunded", "invoice.overdue"];
const CHANGES: [&str; 3] = ["push", "pull_request.opened", "issue.opened"];
const ORDERS: [&str; 3] = ["order.created", "order.cancelled", "cart.abandoned"];

const CURRENCIES: [&str; 4] = ["EUR", "USD", "CHF", "GBP"];
const CUSTOMERS: [&str; 6] = ["ada", "grace", "linus", "barbara", "edsger", "radia"];
const REPOSITORIES: [&str; 4] = ["acme/api", "acme/web", "acme/docs", "acme/infra"];

/// The payload version that the handlers support.
pub(super) const VERSION: u64 = 1;

/// One generated webhook: its identity, what the screen shows of it, and its payload.
pub(super) struct Webhook {
    pub(super) source: &'static str,
    pub(super) id: String,
    pub(super) event: &'static str,
    pub(super) about: String,
    pub(super) cents: u64,
    payload: Value,
}

impl Webhook {
    /// Generates a webhook; `serial` makes its id unique.
    pub(super) fn generate(random: &mut Random, serial: usize) -> Self {
        match random.index(3) {
            0 => {
                let cents = random.between(300, 60_000);
                let (currency, customer) = (random.one_of(&CURRENCIES), random.one_of(&CUSTOMERS));
                Self {
                    source: "stripe",
                    id: format!("evt_{:03x}{serial:04}", random.between(0, 0xfff)),
                    event: random.one_of(&PAYMENTS),
                    about: format!("{} {currency}, {customer}", money(cents)),
                    cents,
                    payload: json!({ "version": VERSION, "cents": cents, "currency": currency, "customer": customer }),
                }
            }
            1 => {
                let (repository, number) = (random.one_of(&REPOSITORIES), random.between(100, 999));
                Self {
                    source: "github",
                    id: format!("{:06x}-{serial:04}", random.between(0, 0x00ff_ffff)),
                    event: random.one_of(&CHANGES),
                    about: format!("{repository} #{number}"),
                    cents: 0,
                    payload: json!({ "version": VERSION, "repository": repository, "number": number }),
                }
            }
            _ => {
                let (number, items) = (1_000 + serial as u64, random.between(2, 6));
                let cents = random.between(900, 30_000);
                Self {
                    source: "shopify",
                    id: format!("wh-{}-{serial:04}", random.between(100, 999)),
                    event: random.one_of(&ORDERS),
                    about: format!("order {number}, {items} items, {}", money(cents)),
                    cents,
                    payload: json!({ "version": VERSION, "number": number, "items": items, "cents": cents }),
                }
            }
        }
    }

    pub(super) fn payload(&self) -> Vec<u8> {
        self.payload.to_string().into_bytes()
    }

    /// Moves the payload to a version that the handlers do not support.
    pub(super) fn upgrade_version(&mut self) {
        self.payload["version"] = (VERSION + 1).into();
    }

    /// A different payload under the same id, as if the sender had edited the event.
    pub(super) fn amended_payload(&self) -> Vec<u8> {
        let mut payload = self.payload.clone();
        payload["amended"] = true.into();
        payload.to_string().into_bytes()
    }
}

/// The version that a payload declares.
pub(super) fn version(payload: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(payload).ok()?["version"].as_u64()
}

/// Formats cents as a decimal amount.
pub(super) fn money(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::{VERSION, Webhook, version};
    use crate::demo::random::Random;

    #[test]
    fn a_payload_declares_its_version_and_the_amended_payload_differs() {
        let mut random = Random::new(3);
        for serial in 0..20 {
            let mut webhook = Webhook::generate(&mut random, serial);
            assert_ne!(webhook.amended_payload(), webhook.payload());
            assert_eq!(version(&webhook.payload()), Some(VERSION));
            webhook.upgrade_version();
            assert_eq!(version(&webhook.payload()), Some(VERSION + 1));
        }
        assert_eq!(version(b"{"), None);
    }
}
