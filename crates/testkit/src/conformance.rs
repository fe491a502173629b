//! The conformance suite: one case per rule that every store follows, each on a fresh store.

mod list;

pub mod accept;
pub mod attempts;
pub mod begin;
pub mod calls;
pub mod claims;
pub mod concurrency;
pub mod dead_letters;
pub mod divergence;
pub mod erasure;
pub mod expiry;
pub mod holds;
pub mod leases;
pub mod maintenance;
pub mod mass_expiry;
pub mod namespaces;
pub mod observations;
pub mod order;
pub mod orders;
pub mod partitions;
pub mod reads;
pub mod records;
pub mod repeats;
pub mod scale;
pub mod settlements;
pub mod topics;
pub mod wakeups;

#[cfg(test)]
mod tests {
    /// The text between `start` and `end` in the lines that begin with `start`.
    fn names<'a>(text: &'a str, start: &str, end: char) -> Vec<&'a str> {
        let rests = text.lines().filter_map(|line| line.strip_prefix(start));
        rests.filter_map(|rest| rest.split(end).next()).collect()
    }

    #[test]
    fn every_case_is_in_the_list() {
        let listed = crate::conformance!(@cases sources ());
        let groups: Vec<_> = listed.iter().map(|(group, ..)| *group).collect();
        assert_eq!(names(include_str!("conformance.rs"), "pub mod ", ';'), groups);
        for (group, source, cases) in listed {
            assert_eq!(names(source, "pub async fn ", '('), cases, "{group}");
        }
    }
}
