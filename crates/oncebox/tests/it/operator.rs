//! Operator functions: redrive, cancel, erase, purge, list.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{
    EnqueueOutcome, ErrorKind, MessageState, Oncebox,
    message::{DeadReason, Topic},
    operator::{MessageQuery, MessageRef, Operated, PageSize, SweepFilter},
    store::Clock,
};
use oncebox_core::{Action, Order};
use oncebox_testkit::faulty::{FaultPlan, FaultyStore, InjectedFault, Operation};
use tracing::Level;

use super::capture::Capture;
use super::fixture::{Fixture, key, on_every_store};

async fn dead(fixture: &Fixture, topic: &str, id: &str) {
    fixture.enqueue(topic, id).await;
    let queue = fixture.oncebox.queue();
    let owner = queue.new_owner();
    queue.claim(owner, Duration::from_secs(30), 1).await.unwrap();
    queue.fail(owner, &[key(id)], &format!("error of {id}")).await.unwrap();
}

/// Holds: RULE-11, RULE-23.
#[test]
fn a_redrive_is_audited_with_actor_reason_and_last_error() {
    on_every_store(async |fixture| {
        dead(&fixture, "t", "1").await;
        let (capture, _guard) = Capture::start();
        let operator = fixture.oncebox.operator("ann").because("the bank is back");
        assert!(matches!(operator.redrive(key("1")).await.unwrap(), Operated::Changed(_)));
        let lines = capture.find(Level::INFO, &["oncebox::audit", "event=inbox.message.revived"]);
        assert_eq!(lines.len(), 1);
        for text in ["actor=ann", "reason=the bank is back", "last_error=\"error of 1\""] {
            assert!(lines[0].contains(text), "{} in {}", text, lines[0]);
        }
        let found = fixture.show("1").await;
        assert_eq!((found.state, found.attempts), (MessageState::Processing, 0));
        assert!(matches!(operator.redrive(key("1")).await.unwrap(), Operated::Unchanged(_)));
        assert_eq!(operator.redrive(key("no")).await.unwrap(), Operated::Unknown);
        let audited = capture.find(Level::INFO, &["oncebox::audit"]);
        assert_eq!(audited.len(), 1, "calls without effect are not audited");
    });
}

#[test]
fn many_messages_are_redriven_by_key_or_by_filter_up_to_its_limit() {
    on_every_store(async |fixture| {
        for id in ["1", "2", "3", "4", "5"] {
            dead(&fixture, "a", id).await;
        }
        dead(&fixture, "b", "6").await;
        let operator = fixture.oncebox.operator("ann");
        let filter = SweepFilter::dead().topic("a").source("test").reason(DeadReason::Failed);
        let preview = operator.preview(&filter).await.unwrap();
        assert_eq!((preview.matched, preview.changed, preview.more), (5, 0, false));
        let some = operator.redrive_where(&filter.clone().limit(2)).await.unwrap();
        assert_eq!((some.matched, some.changed, some.more), (2, 2, true));
        let named = operator.redrive_all(&[key("3").into(), key("no").into()]).await.unwrap();
        assert!(matches!(named[..], [Operated::Changed(_), Operated::Unknown]));
        let rest = operator.redrive_where(&filter).await.unwrap();
        assert_eq!((rest.matched, rest.changed, rest.more), (2, 2, false));
        let counts = operator.counts(Some("a")).await.unwrap();
        assert_eq!((counts.ready, counts.dead), (5, 0));
        assert_eq!(operator.counts(None).await.unwrap().dead, 1);
        assert_eq!(
            operator.preview(&SweepFilter::dead().topic("")).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
    });
}

/// A message that becomes Dead again between two calls is not redriven a second time.
#[test]
fn a_sweep_filters_by_error_and_time_and_continues_at_its_cursor() {
    on_every_store(async |fixture| {
        let mut died = Vec::new();
        for id in ["1", "2", "3", "14"] {
            dead(&fixture, "t", id).await;
            died.push(fixture.clock.now());
            fixture.advance(Duration::from_secs(1));
        }
        let operator = fixture.oncebox.operator("ann");
        for (filter, expected) in [
            (SweepFilter::dead().error("error of 1"), 2),
            (SweepFilter::dead().error("of 14"), 1),
            (SweepFilter::dead().error("Error"), 0),
            (SweepFilter::dead().since(died[1]), 3),
            (SweepFilter::dead().until(died[1]), 1),
            (SweepFilter::dead().since(died[1]).until(died[3]).error("of 3"), 1),
        ] {
            assert_eq!(operator.preview(&filter).await.unwrap().matched, expected, "{filter:?}");
        }
        let first = operator.redrive_where(&SweepFilter::dead().limit(3)).await.unwrap();
        assert_eq!((first.changed, first.uids.len(), first.more), (3, 3, true));
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        queue.claim(owner, Duration::from_secs(30), 1).await.unwrap();
        queue.fail(owner, &[key("1")], "again").await.unwrap();
        let cursor = first.next.expect("there are more messages").to_string().parse().unwrap();
        let rest = operator.redrive_where(&SweepFilter::dead().after(cursor)).await.unwrap();
        assert_eq!((rest.changed, rest.next), (1, None));
        assert_eq!(operator.counts(None).await.unwrap().dead, 1, "the message that failed again");
    });
}

/// Holds: MBX-I-5.
#[test]
fn a_redrive_stops_when_a_shard_is_full() {
    on_every_store(async |fixture| {
        for id in ["1", "2", "3"] {
            dead(&fixture, "t", id).await;
        }
        let operator = fixture.oncebox.operator("ann").shard_capacity(2.try_into().unwrap());
        let swept = operator.redrive_where(&SweepFilter::dead()).await.unwrap();
        assert_eq!((swept.matched, swept.changed, swept.more), (2, 2, true));
        let bound = swept.stopped.expect("the sweep reports the bound");
        assert_eq!((bound.name, bound.used, bound.limit), (oncebox::health::Bound::LANE_MESSAGES, 2, 2));
        assert_eq!(operator.redrive(key("3")).await.unwrap_err().kind(), ErrorKind::Saturated);
        let named = operator.redrive_all(&[key("3").into()]).await.unwrap();
        assert!(matches!(named[..], [Operated::Saturated { .. }]), "{named:?}");
        operator.cancel(key("1")).await.unwrap();
        let next = SweepFilter::dead().after(swept.next.unwrap());
        assert_eq!(operator.redrive_where(&next).await.unwrap().changed, 1);
    });
}

/// A sweep that is interrupted by a store error reports what it has changed, and where to continue.
#[test]
fn a_sweep_that_fails_midway_reports_its_progress() {
    on_every_store(async |fixture| {
        for id in 0..250 {
            fixture.enqueue("t", &id.to_string()).await;
        }
        let cancel = |id: u32| Order { target: key(&id.to_string()).into(), action: Action::Cancel };
        fixture.store.operate(&(0..250).map(cancel).collect::<Vec<_>>()).await.unwrap();
        // Each call changes 200 messages; the second call fails.
        let plan = FaultPlan::default();
        plan.next_of(Operation::Operate, InjectedFault::Pass);
        plan.next_of(Operation::Operate, InjectedFault::FailBefore);
        let faulty = Arc::new(FaultyStore::new(fixture.store.clone(), plan));
        let operator = Oncebox::builder().on(faulty).unwrap().operator("ann");
        let swept = operator.redrive_where(&SweepFilter::dead()).await.unwrap();
        assert_eq!((swept.changed, swept.uids.len(), swept.more), (200, 200, true));
        let rest = operator.redrive_where(&SweepFilter::dead().after(swept.next.unwrap())).await.unwrap();
        assert_eq!((rest.changed, rest.more, rest.pass_ended), (50, false, true));
    });
}

/// Holds: RULE-07.
#[test]
fn a_cancelled_message_is_dead_and_an_erased_one_is_unknown() {
    on_every_store(async |fixture| {
        let operator = fixture.oncebox.operator("ann");
        fixture.enqueue("t", "1").await;
        operator.cancel(key("1")).await.unwrap();
        assert_eq!(fixture.show("1").await.dead, Some(DeadReason::Cancelled));
        let (capture, _guard) = Capture::start();
        operator.erase(key("1")).await.unwrap();
        assert_eq!(capture.find(Level::INFO, &["inbox.message.erased"]).len(), 1);
        assert_eq!(operator.show(key("1")).await.unwrap(), None);
        let again = fixture.oncebox.inbox().enqueue(oncebox::Message::new("t", "test", "1")).await.unwrap();
        assert_eq!(again.outcome, EnqueueOutcome::Accepted);
    });
}

#[test]
fn a_purge_erases_matching_messages() {
    on_every_store(async |fixture| {
        for id in ["1", "2"] {
            dead(&fixture, "t", id).await;
        }
        fixture.enqueue("t", "3").await;
        let purged = fixture.oncebox.operator("ann").purge(&SweepFilter::dead()).await.unwrap();
        assert_eq!((purged.matched, purged.changed), (2, 2));
        let counts = fixture.oncebox.operator("ann").counts(None).await.unwrap();
        assert_eq!((counts.dead, counts.ready), (0, 1));
    });
}

#[test]
fn a_listing_is_paged_and_contains_no_payloads() {
    on_every_store(async |fixture| {
        for id in ["1", "2", "3"] {
            fixture.enqueue("t", id).await;
        }
        let operator = fixture.oncebox.operator("ann");
        let mut query = MessageQuery::all(oncebox::message::Namespace::Inbox);
        query.topic = Some(Topic::inbox("t").unwrap());
        query.size = PageSize::new(2).unwrap();
        let mut ids = Vec::new();
        loop {
            let page = operator.page(&query).await.unwrap();
            ids.extend(page.messages.iter().map(|message| message.key.id.to_string()));
            let Some(next) = page.next else { break };
            query.after = Some(next);
        }
        assert_eq!(ids, ["1", "2", "3"]);
        let uid = operator.show(key("2")).await.unwrap().unwrap().uid;
        assert_eq!(operator.show(MessageRef::Uid(uid)).await.unwrap().unwrap().key, key("2"));
    });
}
