//! Comparison of everything that can be read.

use std::collections::BTreeSet;

use oncebox_core::{
    Direction, Key, MessagePage, MessageQuery, MessageRef, Namespace, Omitted, PageSize, ReadyTopics,
    Snapshot, TopicQuery, TopicRange,
};

use super::compare::{Case, Difference, same};
use super::outcome::Outcome;
use super::universe::all_keys;

/// The maximum number of pages of a listing.
const PAGES_MAX: u32 = 10_000;
/// Ready topics per page: fewer than a case uses.
const READY_TOPICS_MAX: u32 = 2;

impl Case {
    /// Compares every message by uid and by key, and the listings of every namespace.
    pub(super) async fn read(&mut self) -> Result<(), Difference> {
        let uids = self.model.uids().iter().copied().map(MessageRef::Uid);
        let targets: Vec<_> = uids.chain(all_keys().into_iter().map(MessageRef::Key)).collect();
        self.report.operation("get");
        let actual = self.fixture.store.get(&targets).await?;
        same("results", &targets.len(), &actual.len())?;
        for (target, actual) in targets.iter().zip(&actual) {
            self.check_message(target, actual.as_ref())?;
        }
        for key in all_keys() {
            self.check_key(&key).await?;
        }
        for namespace in Namespace::ALL {
            let all = self.universe.query_all(namespace);
            self.check_listing(MessageQuery { direction: Direction::OldestFirst, ..all.clone() }).await?;
            self.check_listing(MessageQuery { direction: Direction::NewestFirst, ..all }).await?;
            let some = self.universe.query(namespace);
            self.check_listing(some).await?;
        }
        Ok(())
    }

    fn check_message(&mut self, target: &MessageRef, actual: Option<&Snapshot>) -> Result<(), Difference> {
        let context = format!("get {target:?}");
        let expected = self.model.get(target, actual);
        let expected = expected.map_err(|illegal| Difference::illegal(&context, &illegal, &actual))?;
        same(&context, &expected.as_ref(), &actual)?;
        if let Some(reason) = actual.and_then(|message| message.dead) {
            self.report.outcome(reason.kind());
        }
        if actual.is_some_and(|message| !message.keyed) {
            self.report.outcome("key lapsed");
        }
        Ok(())
    }

    async fn check_key(&mut self, key: &Key) -> Result<(), Difference> {
        let limit = self.universe.pick(&[1, 2, 100]);
        let limit = PageSize::new(limit).expect("it is in bounds");
        self.report.operation("with_key");
        let actual = self.fixture.store.with_key(key, limit).await?;
        let context = format!("with_key {key:?}, {limit:?}");
        let expected = self.model.with_key(key, limit, &actual);
        let expected = expected.map_err(|illegal| Difference::illegal(&context, &illegal, &actual))?;
        same(&context, &expected, &actual)?;
        if actual.len() > 1 {
            self.report.outcome("several found by key");
        }
        Ok(())
    }

    async fn check_listing(&mut self, query: MessageQuery) -> Result<(), Difference> {
        let actual = self.list(query.clone()).await?;
        let context = format!("listing {query:?}");
        let expected = self.model.list(&query, &actual);
        let expected = expected.map_err(|illegal| Difference::illegal(&context, &illegal, &actual))?;
        for (expected, actual) in expected.iter().zip(&actual) {
            same(&context, expected, actual)?;
        }
        same(&context, &expected, &actual)
    }

    /// Compares the names of the ready topics of every namespace, page by page.
    pub(super) async fn check_ready_topics(&mut self) -> Result<(), Difference> {
        let limit = PageSize::new(READY_TOPICS_MAX).expect("it is in bounds");
        for namespace in Namespace::ALL {
            let mut query = ReadyTopics { limit, ..ReadyTopics::first(namespace) };
            loop {
                self.report.operation("ready_topics");
                let actual = self.fixture.store.ready_topics(&query).await?;
                same(&format!("{query:?}"), &self.model.ready_topics(&query), &actual)?;
                if actual.len() < limit.get() as usize {
                    break;
                }
                self.report.outcome("named a full page of topics");
                query.after = actual.last().cloned();
            }
        }
        Ok(())
    }

    /// Compares the counts of the topics of every namespace, page by page; pages may be short.
    pub(super) async fn check_topic_counts(&mut self) -> Result<(), Difference> {
        let limit = PageSize::new(READY_TOPICS_MAX).expect("it is in bounds");
        for namespace in Namespace::ALL {
            let mut query = TopicQuery { limit, ..TopicQuery::first(namespace) };
            let mut listed = Vec::new();
            for _ in 0..PAGES_MAX {
                self.report.operation("topic_counts");
                let page = self.fixture.store.topic_counts(&query).await?;
                let full = limit.get() as usize;
                same("topics on a full page, or fewer", &true, &(page.topics.len() <= full))?;
                if page.topics.len() == full && page.next.is_some() {
                    self.report.outcome("counted a full page of topics");
                }
                listed.extend(page.topics);
                let Some(next) = page.next else { break };
                query.range = TopicRange::From(next);
            }
            let all = self.model.topic_counts(&TopicQuery::first(namespace)).topics;
            same(&format!("topics of {namespace}"), &all.len(), &listed.len())?;
            for (expected, actual) in all.iter().zip(&listed) {
                same("topic", &expected.topic, &actual.topic)?;
                if !actual.estimated {
                    same("topic", expected, actual)?;
                }
            }
            self.check_single_topic(namespace).await?;
        }
        Ok(())
    }

    /// Compares the counts of a single topic, which need not exist in this namespace: each topic of any namespace in
    /// turn.
    async fn check_single_topic(&mut self, namespace: Namespace) -> Result<(), Difference> {
        let everywhere =
            Namespace::ALL.map(|other| self.model.topic_counts(&TopicQuery::first(other)).topics);
        let names: BTreeSet<_> = everywhere.into_iter().flatten().map(|counts| counts.topic).collect();
        self.report.operation("topic_counts");
        let asked = self.report.operations.get("topic_counts").copied().unwrap_or_default();
        let turn = usize::try_from(asked).unwrap_or_default() % names.len().max(1);
        if let Some(name) = names.into_iter().nth(turn) {
            let query = TopicQuery::only(namespace, name);
            let (expected, actual) =
                (self.model.topic_counts(&query), self.fixture.store.topic_counts(&query).await?);
            if actual.topics.is_empty() {
                self.report.outcome("counted a topic without messages");
            }
            let estimated = actual.topics.iter().any(|counts| counts.estimated);
            if !estimated {
                same(&format!("{query:?}"), &expected, &actual)?;
            }
        }
        Ok(())
    }

    /// All pages of a listing.
    async fn list(&mut self, mut query: MessageQuery) -> Result<Vec<Snapshot<Omitted>>, Difference> {
        let mut listed = Vec::new();
        for page in 0..PAGES_MAX {
            self.report.operation("page");
            let MessagePage { messages, next } = self.fixture.store.page(&query).await?;
            same("messages on a full page, or fewer", &true, &(messages.len() <= query.size.get() as usize))?;
            if page == 1 && !messages.is_empty() {
                self.report.outcome("listed on several pages");
            }
            listed.extend(messages);
            if next.is_none() {
                return Ok(listed);
            }
            query.after = next;
        }
        same("the pages of a listing", &PAGES_MAX, &u32::MAX)?;
        Ok(listed)
    }
}
