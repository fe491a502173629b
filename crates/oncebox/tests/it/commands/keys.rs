//! What makes two submissions the same.

use oncebox::commands::{Command, Contracts, Outcome, ScheduleOptions};
use oncebox::{Kind, Uid};
use serde::{Deserialize, Serialize};

use super::kit::{pay, plain};
use crate::fixture::on_every_store;

/// A command that brings its own key.
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
fn a_key_comes_from_the_call_then_from_the_command_and_a_blank_one_is_none() {
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
                (key("own"), Outcome::Accepted),
                (key("given"), Outcome::Accepted),
                (key("own"), Outcome::AlreadyAccepted),
                (None, Outcome::Accepted),
                (None, Outcome::Accepted),
                (None, Outcome::Accepted),
            ]
        );
    });
}

/// Holds: CMD-12.
#[test]
fn keys_of_two_tenants_never_meet() {
    on_every_store(async |fixture| {
        let keyed = || plain().idempotency_key("k");
        let scheduler = fixture.scheduler();
        // No name of a tenant is that of none.
        for options in [keyed(), keyed().tenant("a"), keyed().tenant("b"), keyed().tenant("no-tenant")] {
            assert_eq!(scheduler.schedule(&pay(1), options).await.unwrap().outcome, Outcome::Accepted);
        }
        let again = scheduler.schedule(&pay(1), keyed().tenant("b")).await.unwrap();
        assert_eq!((again.outcome, again.trace.tenant()), (Outcome::AlreadyAccepted, Some("b")));
        assert_eq!(
            scheduler.schedule(&pay(1), keyed().tenant(" ")).await.unwrap().outcome,
            Outcome::AlreadyAccepted
        );
    });
}

/// Holds: CMD-04, CMD-12.
#[test]
fn a_command_id_alone_is_the_key_and_beside_a_key_is_only_recorded() {
    on_every_store(async |fixture| {
        let scheduler = fixture.scheduler();
        let id = Uid::from_u128(0xA);
        let first = scheduler.schedule(&pay(1), plain().command_id(id)).await.unwrap();
        let again = scheduler.schedule(&pay(2), plain().command_id(id)).await.unwrap();
        assert_eq!((first.command_id, first.outcome), (id, Outcome::Accepted));
        assert_eq!((again.command_id, again.outcome), (id, Outcome::AlreadyAccepted));
        assert_eq!(
            fixture.record(id).await.payload,
            r#"{"payment":1,"cents":100}"#,
            "the first payload stays"
        );

        let both = |id, key: &str| plain().command_id(Uid::from_u128(id)).idempotency_key(key);
        let first = scheduler.schedule(&pay(1), both(0xB, "k")).await.unwrap();
        let again = scheduler.schedule(&pay(1), both(0xC, "k")).await.unwrap();
        assert_eq!((first.command_id, again.command_id), (Uid::from_u128(0xB), Uid::from_u128(0xB)));
        // A key that reads as an id is none, and an id that is taken is told.
        let text = scheduler.schedule(&pay(1), plain().idempotency_key(id.to_string())).await.unwrap();
        assert_eq!(text.outcome, Outcome::Accepted);
        let taken = scheduler.schedule(&pay(1), both(0xA, "other")).await.unwrap_err();
        assert_eq!(taken.kind(), Kind::Invalid);
        assert!(taken.to_string().starts_with("the command id belongs to another command"), "{taken}");
    });
}

/// Holds: CMD-12.
#[test]
fn a_strict_call_is_told_of_a_conflict() {
    on_every_store(async |fixture| {
        let strict = || -> ScheduleOptions { plain().idempotency_key("k").strict() };
        let scheduler = fixture.scheduler();
        let first = scheduler.schedule(&pay(1), strict()).await.unwrap();
        let same = scheduler.schedule(&pay(1), strict()).await.unwrap();
        assert_eq!((same.outcome, same.command_id), (Outcome::AlreadyAccepted, first.command_id));
        let other = scheduler.schedule(&pay(2), strict()).await.unwrap();
        assert_eq!((other.outcome, other.command_id), (Outcome::Conflict, first.command_id));
        // Another contract is another submission, even with the same payload.
        let renamed = Contracts::new().register::<super::kit::Pay>("payments.other", 1).unwrap();
        let other = fixture.oncebox.scheduler(&renamed).schedule(&pay(1), strict()).await.unwrap();
        assert_eq!((other.outcome, other.contract), (Outcome::Conflict, first.contract));
        assert_eq!(fixture.commands().await.ready, 1);
    });
}
