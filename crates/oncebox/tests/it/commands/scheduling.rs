//! Scheduling: what is stored, and what the receipt contains.

use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use oncebox::commands::{CommandStatus, ScheduleOptions, ScheduleOutcome, ScheduleReceipt};
use oncebox::{
    ErrorKind,
    message::{Trace, Uid},
    store::Clock,
};
use tracing::Level;

use super::kit::{Bank, PAY, options, pay, plain, processor};
use crate::capture::Capture;
use crate::fixture::{on_every_store, on_every_store_with};
use crate::telemetry::Traces;

fn traced() -> ScheduleOptions {
    plain().correlation("checkout-4").causation("click-9").tenant("acme")
}

/// Holds: CMD-03, CMD-11.
#[test]
fn the_receipt_and_the_record_contain_all_fields() {
    on_every_store(async |fixture| {
        let now = fixture.clock.now();
        let due = now.after(Duration::from_secs(90));
        let id = Uid::from_u128(0x0190_1234_5678_7abc_8def_0123_4567_89ab);
        let options = traced().idempotency_key("payment:7").command_id(id).visible_at(due);
        let receipt = fixture.scheduler().schedule(&pay(7), options).await.unwrap();
        let ScheduleReceipt { outcome, command_id, contract, accepted_at, dedup_until, trace, .. } = receipt;
        assert_eq!((outcome, command_id, accepted_at), (ScheduleOutcome::Accepted, id, now));
        assert_eq!((contract.name(), contract.version()), (PAY, 2));
        assert_eq!(dedup_until, now.after(Duration::from_secs(30 * 24 * 60 * 60)));
        let ids = |trace: &Trace| {
            [trace.correlation(), trace.causation(), trace.tenant()].map(|id| id.map(str::to_owned))
        };
        let expected = ["checkout-4", "click-9", "acme"].map(|id| Some(id.to_owned()));
        assert_eq!(ids(&trace), expected);

        let record = fixture.record(id).await;
        assert_eq!((record.command_id, &record.contract), (id, &contract));
        assert_eq!(record.payload, r#"{"payment":7,"cents":100}"#);
        assert_eq!((record.created_at, record.visible_after), (now, Some(due)));
        assert_eq!((record.attempts, &record.status), (0, &CommandStatus::Pending));
        assert_eq!(record.idempotency_key.as_deref(), Some("payment:7"));
        assert_eq!((record.lease, &record.last_error), (None, &None));
        assert_eq!(ids(&record.trace), expected);
        assert!(!format!("{record:?}").contains("payment:7"), "`Debug` output contains no keys and payloads");

        // The record stays complete after the command has run.
        fixture.advance(Duration::from_secs(90));
        let bank = Bank::default();
        assert_eq!(
            processor(&fixture.oncebox, &bank, super::kit::options(|_| {}))
                .process_pending()
                .await
                .unwrap()
                .handled,
            1
        );
        let after = fixture.record(id).await;
        assert_eq!((after.status, after.attempts, after.lease), (CommandStatus::Completed, 1, None));
        assert_eq!((after.payload, after.contract, after.trace), (record.payload, contract, record.trace));
    });
}

/// Holds: CMD-04, CMD-12.
#[test]
fn a_duplicate_gets_the_first_receipt_whatever_its_content() {
    on_every_store(async |fixture| {
        let scheduler = fixture.scheduler();
        let first = scheduler.schedule(&pay(1), traced().idempotency_key("k")).await.unwrap();
        fixture.advance(Duration::from_secs(5));
        // Duplicates with another payload, another type and contract, other trace ids, another command id.
        let theirs = oncebox::commands::Contracts::new().register::<super::keys::Keyed>("keyed", 7).unwrap();
        let again = |later: ScheduleOptions| {
            let (ours, theirs) = (scheduler.clone(), fixture.oncebox.scheduler(&theirs));
            async move {
                let later = later.tenant("acme").idempotency_key("k");
                let other = super::keys::Keyed { key: None };
                [
                    ours.schedule(&pay(2), later.clone()).await.unwrap(),
                    theirs.schedule(&other, later).await.unwrap(),
                ]
            }
        };
        let later = plain().correlation("other").command_id(Uid::from_u128(7));
        let mut expected = first.clone();
        expected.outcome = ScheduleOutcome::AlreadyAccepted;
        assert_eq!(again(later.clone()).await, [expected.clone(), expected.clone()]);

        let bank = Bank::default();
        processor(&fixture.oncebox, &bank, options(|_| {})).process_pending().await.unwrap();
        assert_eq!(bank.done(), ["1 100"], "later payloads are not merged");
        let [ours, theirs] = again(later).await;
        assert_eq!(
            (&ours.contract, &theirs.contract),
            (&first.contract, &first.contract),
            "also after it completed"
        );
        assert_eq!(
            (ours.command_id, ours.accepted_at, ours.trace),
            (first.command_id, first.accepted_at, first.trace)
        );
        assert_eq!(fixture.commands().await.done, 1);
    });
}

#[test]
fn many_commands_are_stored_in_order_with_one_receipt_each() {
    on_every_store_with(
        |builder| builder.payload_bytes_max(64),
        async |fixture| {
            let scheduler = fixture.scheduler();
            let commands = [pay(1), pay(2), pay(3)];
            let keys = ["a", "b", "a"].map(|key| plain().idempotency_key(key));
            let receipts = scheduler.schedule_many(commands.iter().zip(keys)).await.unwrap();
            let outcomes: Vec<_> = receipts.iter().map(|receipt| receipt.as_ref().unwrap().outcome).collect();
            assert_eq!(
                outcomes,
                [ScheduleOutcome::Accepted, ScheduleOutcome::Accepted, ScheduleOutcome::AlreadyAccepted]
            );

            let large = super::keys::Keyed { key: Some("x".repeat(64)) };
            let contracts =
                oncebox::commands::Contracts::new().register::<super::keys::Keyed>("keyed", 1).unwrap();
            let error = fixture.oncebox.scheduler(&contracts).schedule(&large, plain()).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::Invalid, "command is 74 bytes long as JSON, the limit is 64")
            );
            assert_eq!(fixture.commands().await.ready, 2);
        },
    );
}

#[test]
fn what_is_out_of_bounds_is_refused_and_nothing_is_stored() {
    on_every_store(async |fixture| {
        let long = "x".repeat(1_025);
        for (options, text) in [
            (plain().idempotency_key(&long), "idempotency key is 1025 bytes long, the limit is 1000"),
            (plain().idempotency_key("a\0b"), "idempotency key contains a NUL character: remove it"),
            (plain().tenant(&long[..1_001]), "tenant id is 1001 bytes long, the limit is 1000"),
            (plain().correlation(&long), "correlation id is 1025 bytes long, the limit is 1024"),
            (plain().causation("a\0b"), "causation id contains a NUL character: remove it"),
        ] {
            let error = fixture.scheduler().schedule(&pay(1), options).await.unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, text));
        }
        assert!(fixture.scheduler().attempts_max(0).is_err());
        assert_eq!(fixture.commands().await.ready, 0);
    });
}

#[test]
fn status_and_record_exist_only_for_commands() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let message = fixture.show("1").await.uid;
        assert_eq!(fixture.scheduler().status(message).await.unwrap(), None);
        assert_eq!(fixture.scheduler().record(message).await.unwrap(), None);
        assert_eq!(fixture.scheduler().status(Uid::from_u128(1)).await.unwrap(), None);
    });
}

/// In a trace, the run of a command is a child of the span that scheduled it.
#[test]
fn a_command_carries_the_trace_of_its_scheduling_span() {
    let traces = Arc::new(Traces::default());
    let set = |builder: oncebox::OnceboxBuilder| builder.trace_context(traces.clone());
    on_every_store_with(set, async |fixture| {
        fixture.pay([1]).await;
        processor(&fixture.oncebox, &Bank::default(), options(|_| {})).process_pending().await.unwrap();
        assert_eq!(std::mem::take(&mut *traces.0.lock().unwrap()), ["child of 00-of-the-sender"]);
    });
}

/// Holds: RULE-08, RULE-22.
#[test]
fn scheduling_is_counted_and_logged_without_keys_and_payloads() {
    // More digits than a UUID has in a row: a logged id never contains them by chance.
    const CENTS: u64 = 7_732_000_000_000_000;
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (capture, _guard) = Capture::start();
    metrics::with_local_recorder(&recorder, || {
        on_every_store(async |fixture| {
            let scheduler = fixture.scheduler();
            let sent =
                [(CENTS, plain()), (CENTS, plain()), (CENTS + 1, plain()), (CENTS + 1, plain().strict())];
            for (cents, options) in sent {
                let command = super::kit::Pay { payment: 1, cents };
                scheduler.schedule(&command, options.idempotency_key("secret-key")).await.unwrap();
            }
        });
    });
    let counted = snapshotter.snapshot().into_vec();
    let count = |name: &str, outcome: Option<&str>| {
        let found = counted.iter().find(|(key, ..)| {
            key.key().name() == name && key.key().labels().next().map(metrics::Label::value) == outcome
        });
        found.map(|(.., value)| value)
    };
    let scheduled = oncebox::telemetry::names::SCHEDULED;
    assert_eq!(count(scheduled, Some("accepted")), Some(&DebugValue::Counter(3)), "one on each store");
    assert_eq!(count(scheduled, Some("already_accepted")), Some(&DebugValue::Counter(6)));
    assert_eq!(count(scheduled, Some("conflict")), Some(&DebugValue::Counter(3)));
    assert_eq!(count(oncebox::telemetry::names::DIVERGED, None), Some(&DebugValue::Counter(6)));
    assert_eq!(capture.find(Level::WARN, &["duplicate command has different content"]).len(), 6);
    let logged = |text: &str| capture.lines().iter().any(|(_, line)| line.contains(text));
    assert!(logged(PAY) && !logged("secret-key") && !logged("773200000000000"));
}
