//! The list of cases about repeats, and the macro that turns it into tests.

/// Defines a test for every case about repeats after a call with an unknown outcome, each on its own store.
///
/// `open` is the path of an `async fn() -> Fixture` that opens a fresh, empty store, which is wrapped in a
/// [`crate::faulty::FaultyStore`].
///
/// ```
/// # use oncebox_testkit::Fixture;
/// async fn open() -> Fixture {
///     # std::future::pending().await
/// }
///
/// oncebox_testkit::faulty_cases!(open);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! faulty_cases {
    ($open:path) => {
        $crate::faulty_cases!(@cases tests ($open));
    };
    (@cases $then:ident ($($open:path)?)) => {
        $crate::faulty_cases! { @$then ($($open)?)
            a_call_that_fails_before_changes_nothing
            a_lost_accept_is_repeated_as_a_duplicate
            a_lost_observation_can_be_repeated
            a_lost_settlement_has_the_same_outcome_on_repeat
            a_settlement_that_failed_before_takes_effect_on_repeat
            a_lost_claim_gets_its_deliveries_on_repeat
            a_lost_claim_without_a_request_id_is_redelivered
            a_lost_work_call_is_repeated_as_a_whole
            a_lost_order_is_unchanged_on_repeat
            a_lost_begin_is_busy_until_its_lease_ends
            a_lost_extension_and_maintenance_are_harmless
            a_lost_read_can_be_repeated
            a_cancelled_delayed_call_did_nothing
            a_call_that_never_returns_took_effect
        }
    };
    (@tests ($open:path) $($case:ident)*) => {
        async fn faulty_fixture() -> $crate::Fixture {
            $open().await
        }

        mod faulty {
            $(#[test]
            fn $case() -> $crate::TestResult {
                $crate::block_on(async {
                    $crate::faulty::cases::$case(super::faulty_fixture().await).await
                })
            })*
        }
    };
    (@names () $($case:ident)*) => {
        [$(stringify!($case)),*]
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_list() {
        let starts = include_str!("cases.rs").lines().filter_map(|line| line.strip_prefix("pub async fn "));
        let written: Vec<_> = starts.filter_map(|rest| rest.split('(').next()).collect();
        assert_eq!(written, crate::faulty_cases!(@cases names ()));
    }
}
