//! What the webhooks of the demo carry. Names and amounts are made up.

use oncebox::Message;
use serde::{Deserialize, Serialize};

use super::random::Random;

/// What a payment service sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payment {
    pub(super) cents: u64,
    pub(super) currency: String,
    pub(super) customer: String,
}

/// What a code host sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) repository: String,
    pub(super) number: u64,
}

/// What a shop sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) items: u64,
    pub(super) cents: u64,
}

pub(super) const PAYMENTS: [&str; 3] = ["payment.succeeded", "payment.refunded", "invoice.overdue"];
pub(super) const CHANGES: [&str; 3] = ["push", "pull_request.opened", "issue.opened"];
pub(super) const ORDERS: [&str; 3] = ["order.created", "order.cancelled", "cart.abandoned"];

const CURRENCIES: [&str; 4] = ["EUR", "USD", "CHF", "GBP"];
const CUSTOMERS: [&str; 6] = ["ada", "grace", "linus", "barbara", "edsger", "radia"];
const REPOSITORIES: [&str; 4] = ["acme/api", "acme/web", "acme/docs", "acme/infra"];

/// One webhook, made up: what it is known by, what a reader sees of it, and its payload.
pub(super) struct Letter {
    pub(super) source: &'static str,
    pub(super) id: String,
    pub(super) topic: &'static str,
    pub(super) about: String,
    payload: Payload,
}

enum Payload {
    Payment(Payment),
    Change(Change),
    Order(Order),
}

impl Letter {
    /// `serial` keeps ids apart.
    pub(super) fn make_up(random: &mut Random, serial: usize) -> Self {
        match random.place(3) {
            0 => {
                let cents = random.between(300, 60_000);
                let (currency, customer) = (random.one_of(&CURRENCIES), random.one_of(&CUSTOMERS));
                Self {
                    source: "stripe",
                    id: format!("evt_{:03x}{serial:04}", random.between(0, 0xfff)),
                    topic: random.one_of(&PAYMENTS),
                    about: format!("{} {currency}, {customer}", money(cents)),
                    payload: Payload::Payment(Payment {
                        cents,
                        currency: currency.to_owned(),
                        customer: customer.to_owned(),
                    }),
                }
            }
            1 => {
                let (repository, number) = (random.one_of(&REPOSITORIES), random.between(100, 999));
                Self {
                    source: "github",
                    id: format!("{:06x}-{serial:04}", random.between(0, 0x00ff_ffff)),
                    topic: random.one_of(&CHANGES),
                    about: format!("{repository} #{number}"),
                    payload: Payload::Change(Change { repository: repository.to_owned(), number }),
                }
            }
            _ => {
                let (number, items) = (1_000 + serial as u64, random.between(2, 6));
                let cents = random.between(900, 30_000);
                Self {
                    source: "shopify",
                    id: format!("wh-{}-{serial:04}", random.between(100, 999)),
                    topic: random.one_of(&ORDERS),
                    about: format!("order {number}, {items} items, {}", money(cents)),
                    payload: Payload::Order(Order { number, items, cents }),
                }
            }
        }
    }

    pub(super) fn message(&self) -> Result<Message, oncebox::Error> {
        let message = Message::new(self.topic, self.source, self.id.as_str());
        match &self.payload {
            Payload::Payment(payment) => message.json(payment),
            Payload::Change(change) => message.json(change),
            Payload::Order(order) => message.json(order),
        }
    }

    /// The same letter, cut off on its way.
    pub(super) fn torn(&self) -> Result<Message, oncebox::Error> {
        let message = self.message()?;
        let payload = message.payload().slice(..message.payload().len() / 2);
        Ok(message.bytes(payload))
    }

    /// The same letter with other content: somebody changed their mind.
    pub(super) fn amend(&mut self) {
        match &mut self.payload {
            Payload::Payment(payment) => payment.cents += 100,
            Payload::Change(change) => change.number += 1,
            Payload::Order(order) => order.items += 1,
        }
    }
}

/// Cents as one writes them.
pub(super) fn money(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::Letter;
    use crate::demo::random::Random;

    #[test]
    fn a_torn_letter_is_no_json_and_an_amended_one_differs() {
        let mut random = Random::new(3);
        for serial in 0..20 {
            let mut letter = Letter::make_up(&mut random, serial);
            let first = letter.message().unwrap();
            assert!(letter.torn().unwrap().payload().len() < first.payload().len());
            letter.amend();
            assert_ne!(letter.message().unwrap().payload(), first.payload());
        }
    }
}
