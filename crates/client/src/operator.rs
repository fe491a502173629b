//! Calls for operators: dead letters, messages of all faces, numbers.

use oncebox_wire::operator::{
    ByKey, Count, Counts, List, ListDead, ListTopics, Message, Page, Redrive, Show, Stats, Sweep, Swept,
    TopicPage,
};
use oncebox_wire::path;

use crate::call::{Call, json};
use crate::client::Client;
use crate::error::Error;
use crate::repeat::Repeat;
use crate::target;

/// # Dead letters of the mailbox
impl Client {
    /// A page of dead letters.
    pub async fn dlq(&self, list: &ListDead) -> Result<Page, Error> {
        self.ask(Call::get(target::query(path::DLQ, list)?)).await
    }

    /// A dead letter.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if there is none.
    pub async fn dead_letter(&self, msg_id: &str, show: &Show) -> Result<Message, Error> {
        self.ask(Call::get(target::query(&target::path(path::DLQ_SHOW, msg_id)?, show)?)).await
    }

    /// Redrives dead letters: gives them another chance.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if nothing is stored of the topic, or none of the ids belongs to a message.
    pub async fn redrive_dead_letters(&self, redrive: &Redrive) -> Result<Swept, Error> {
        self.ask(Call::post(path::DLQ_REDRIVE, repeat(redrive.dry_run), json(redrive)?)).await
    }
}

/// # Messages
impl Client {
    /// A page of messages.
    pub async fn messages(&self, list: &List) -> Result<Page, Error> {
        self.ask(Call::get(target::query(path::MESSAGES, list)?)).await
    }

    /// Everything that is known about a message.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if there is none.
    pub async fn message(&self, id: &str, show: &Show) -> Result<Message, Error> {
        self.ask(Call::get(target::query(&target::path(path::MESSAGE, id)?, show)?)).await
    }

    /// The message that has a key.
    ///
    /// # Errors
    /// `E_NOT_FOUND` if none has it.
    pub async fn message_by_key(&self, key: &ByKey) -> Result<Message, Error> {
        self.ask(Call::get(target::query(path::MESSAGE_BY_KEY, key)?)).await
    }

    /// Redrives Dead messages: gives them another chance.
    ///
    /// # Errors
    /// As [`Client::redrive_dead_letters`].
    pub async fn redrive(&self, sweep: &Sweep) -> Result<Swept, Error> {
        self.ask(Call::post(path::REDRIVE, repeat(sweep.dry_run), json(sweep)?)).await
    }

    /// Erases messages. Nothing remains of them.
    pub async fn purge(&self, sweep: &Sweep) -> Result<Swept, Error> {
        self.ask(Call::post(path::PURGE, repeat(sweep.dry_run), json(sweep)?)).await
    }

    /// How many messages stand where.
    pub async fn counts(&self, count: &Count) -> Result<Counts, Error> {
        self.ask(Call::get(target::query(path::COUNTS, count)?)).await
    }

    /// A page of topics, and how they stand.
    pub async fn topics(&self, list: &ListTopics) -> Result<TopicPage, Error> {
        self.ask(Call::get(target::query(path::TOPICS, list)?)).await
    }

    /// How the server and its store stand.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.ask(Call::get(path::STATS.to_owned())).await
    }
}

/// A sweep that is repeated takes the next that match, and its numbers would be wrong.
fn repeat(dry_run: bool) -> Repeat {
    if dry_run { Repeat::Safe } else { Repeat::Unsent }
}
