//! The list of the cases about repeats, and what is made of it.

/// Makes a test of every case about repeats after a call of unknown outcome, each on a store of its own.
///
/// `open` is the path of an `async fn() -> Fixture` that opens a fresh, empty store; a [`crate::faulty::FaultyStore`]
/// is put in front of it.
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
            a_lost_sighting_comes_again
            a_lost_settlement_is_answered_on_repeat
            a_settlement_that_failed_before_counts_on_repeat
            a_lost_claim_gets_its_deliveries_on_repeat
            a_lost_claim_without_a_request_id_comes_back
            a_lost_call_of_work_is_repeated_whole
            a_lost_order_is_unchanged_on_repeat
            a_lost_begin_is_busy_until_its_lease_ends
            a_lost_extension_and_upkeep_are_harmless
            a_lost_read_is_read_again
            a_delayed_call_that_is_given_up_did_nothing
            a_call_that_never_answers_happened
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
