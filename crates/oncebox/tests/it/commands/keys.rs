//! Keys that identify duplicate commands.

use oncebox::commands::{Command, Contracts, ScheduleOptions, ScheduleOutcome};
use oncebox::{ErrorKind, message::Uid};
use serde::{Deserialize, Serialize};

use super::kit::{pay, plain};
use crate::fixture::on_every_store;

/// A command with its own key.
#[derive(Serialize, Deserialize)]
pub(super) struct Keyed {
    pub(super) key: Option<String>,
}

impl Command for Keyed {
    type Output = ();

    fn idempotency_key(&self) -> Option<String> {
        self.key.clone()
    }
}

/// Holds: CMD-12.
#[test]
fn the_key_of_the_call_overrides_the_key_of_the_command_and_blank_keys_are_ignored() {
    on_every_store(async |fixture| {
        let contracts = Contracts::new().register::<Keyed>("keyed", 1).unwrap();
        let scheduler = fixture.oncebox.scheduler(&contracts);
        let mut stored = Vec::new();
        for (own, given) in [
            (Some("own"), None),
            (Some("own"), Some("given")),
            (Some("own"), Some(" ")),
            (Some(" "), None),
            (None, None),
            (None, Some("")),
        ] {
            let options = given.map_or_else(plain, |given| plain().idempotency_key(given));
            let command = Keyed { key: own.map(str::to_owned) };
            let receipt = scheduler.schedule(&command, options).await.unwrap();
            stored.push((
                scheduler.record(receipt.command_id).await.unwrap().unwrap().idempotency_key,
                receipt.outcome,
            ));
        }
        let key = |key: &str| Some(key.to_owned());
        assert_eq!(
            stored,
            [
                (key("own"), ScheduleOutcome::Accepted),
                (key("given"), ScheduleOutcome::Accepted),
                (key("own"), ScheduleOutcome::AlreadyAccepted),
                (None, ScheduleOutcome::Accepted),
                (None, ScheduleOutcome::Accepted),
                (None, ScheduleOutcome::Accepted),
            ]
        );
    });
}

/// Holds: CMD-12.
#[test]
fn keys_of_different_tenants_are_independent() {
    on_every_store(async |fixture| {
        let keyed = || plain().idempotency_key("k");
        let scheduler = fixture.scheduler();
        // No tenant name collides with the keys of commands without a tenant.
        for options in [keyed(), keyed().tenant("a"), keyed().tenant("b"), keyed().tenant("no-tenant")] {
            assert_eq!(
                scheduler.schedule(&pay(1), options).await.unwrap().outcome,
                ScheduleOutcome::Accepted
            );
        }
        let again = scheduler.schedule(&pay(1), keyed().tenant("b")).await.unwrap();
        assert_eq!((again.outcome, again.trace.tenant()), (ScheduleOutcome::AlreadyAccepted, Some("b")));
        assert_eq!(
            scheduler.schedule(&pay(1), keyed().tenant(" ")).await.unwrap().outcome,
            ScheduleOutcome::AlreadyAccepted
        );
    });
}

/// Holds: CMD-04, CMD-12.
#[test]
fn a_command_id_is_the_key_unless_an_idempotency_key_is_given() {
    on_every_store(async |fixture| {
        let scheduler = fixture.scheduler();
        let id = Uid::from_u128(0xA);
        let first = scheduler.schedule(&pay(1), plain().command_id(id)).await.unwrap();
        let again = scheduler.schedule(&pay(2), plain().command_id(id)).await.unwrap();
        assert_eq!((first.command_id, first.outcome), (id, ScheduleOutcome::Accepted));
        assert_eq!((again.command_id, again.outcome), (id, ScheduleOutcome::AlreadyAccepted));
        assert_eq!(
            fixture.record(id).await.payload,
            r#"{"payment":1,"cents":100}"#,
            "the first payload is kept"
        );

        let both = |id, key: &str| plain().command_id(Uid::from_u128(id)).idempotency_key(key);
        let first = scheduler.schedule(&pay(1), both(0xB, "k")).await.unwrap();
        let again = scheduler.schedule(&pay(1), both(0xC, "k")).await.unwrap();
        assert_eq!((first.command_id, again.command_id), (Uid::from_u128(0xB), Uid::from_u128(0xB)));
        // A key that looks like an id is not an id, and a command id in use is an error.
        let text = scheduler.schedule(&pay(1), plain().idempotency_key(id.to_string())).await.unwrap();
        assert_eq!(text.outcome, ScheduleOutcome::Accepted);
        let taken = scheduler.schedule(&pay(1), both(0xA, "other")).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Invalid);
        assert!(taken.to_string().starts_with("the command id belongs to another command"), "{taken}");
    });
}

/// Holds: CMD-12.
#[test]
fn a_strict_call_reports_a_conflict() {
    on_every_store(async |fixture| {
        let strict = || -> ScheduleOptions { plain().idempotency_key("k").strict() };
        let scheduler = fixture.scheduler();
        let first = scheduler.schedule(&pay(1), strict()).await.unwrap();
        let same = scheduler.schedule(&pay(1), strict()).await.unwrap();
        assert_eq!((same.outcome, same.command_id), (ScheduleOutcome::AlreadyAccepted, first.command_id));
        let other = scheduler.schedule(&pay(2), strict()).await.unwrap();
        assert_eq!((other.outcome, other.command_id), (ScheduleOutcome::Conflict, first.command_id));
        // Another contract is a conflict, even with the same payload.
        let renamed = Contracts::new().register::<super::kit::Pay>("payments.other", 1).unwrap();
        let other = fixture.oncebox.scheduler(&renamed).schedule(&pay(1), strict()).await.unwrap();
        assert_eq!((other.outcome, other.contract), (ScheduleOutcome::Conflict, first.contract));
        assert_eq!(fixture.commands().await.ready, 1);
    });
}
