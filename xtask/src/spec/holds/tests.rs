//! Which comments are claims, and which are rejected.

use super::*;

fn scanned(path: &str, text: &str) -> Claims {
    scan(&File { path: path.to_owned(), text: text.to_owned() })
}

fn held(text: &str) -> Vec<String> {
    let claims = scanned("a.rs", text);
    assert_eq!(claims.problems, [""; 0]);
    claims.held.iter().map(|(id, holder)| format!("{id} {holder}")).collect()
}

fn problem(path: &str, text: &str) -> String {
    let claims = scanned(path, text);
    assert_eq!((claims.held.len(), claims.problems.len()), (0, 1), "{claims:?}");
    claims.problems.concat()
}

#[test]
fn tests_hold_what_their_comment_lists() {
    let text = "mod tests {\n/// A fact.\n/// Holds: IBX-046, RULE-05.\n#[test]\nfn it_holds() {}\n}\n";
    assert_eq!(held(text), ["IBX-046 a.rs::it_holds", "RULE-05 a.rs::it_holds"]);
    assert_eq!(held("/// Holds: CMD-01\n#[tokio::test]\nasync fn a() {}\n"), ["CMD-01 a.rs::a"]);
}

#[test]
fn a_list_may_wrap_and_ends_at_its_full_stop() {
    let text =
        "/// Holds: IBX-001…IBX-002,\n/// CMD-01\n/// LDG-01.\n/// IBX-9 is prose.\n#[test]\nfn a() {}\n";
    assert_eq!(held(text), ["IBX-001 a.rs::a", "IBX-002 a.rs::a", "CMD-01 a.rs::a", "LDG-01 a.rs::a"]);
    assert_eq!(held("/// Holds: IBX-001\n/// Prose.\n#[test]\nfn a() {}\n"), ["IBX-001 a.rs::a"]);
}

#[test]
fn properties_hold_too() {
    let text = "proptest! {\n#![proptest_config(Config::default())]\n/// Holds: RULE-10.\n#[test]\n\
        fn a(x in 0..5u8, (y, z) in pairs()) { assert!(x < 5); }\n\n/// Holds: RULE-09.\n#[test]\nfn b(x: u8) {}\n}\n";
    assert_eq!(held(text), ["RULE-10 a.rs::a", "RULE-09 a.rs::b"]);
}

#[test]
fn conformance_cases_are_tests_and_helpers_are_not() {
    let case = "/// Holds: IBX-046.\npub async fn a() {}\n";
    let path = "crates/testkit/src/conformance/leases.rs";
    assert_eq!(scanned(path, case).held.len(), 1);
    assert!(problem(path, &case.replace("pub ", "")).contains("is not a test"));
    assert!(problem("crates/testkit/src/fixture.rs", case).contains("is not a test"));
}

#[test]
fn a_claim_outside_a_test_is_rejected() {
    for text in [
        "//! Holds: IBX-046.\n",
        "/// Holds: IBX-046.\nstruct A;\n",
        "other! {\n/// Holds: IBX-046.\n#[test]\nfn a() {}\n}\n",
    ] {
        assert!(problem("a.rs", text).contains("belongs to a test function"), "{text}");
    }
    let method = "struct A;\nimpl A {\n/// Holds: IBX-046.\nfn a() {}\n}\n";
    assert!(problem("a.rs", method).starts_with("a.rs:3: `a` holds ids but is not a test"));
}

#[test]
fn unknown_ids_are_rejected() {
    assert!(
        problem("a.rs", "/// Holds: IBX-999.\n#[test]\nfn a() {}\n")
            .starts_with("a.rs:1: `IBX-999` is neither")
    );
    let wrapped = "/// Holds: IBX-001\n/// IBX-2.\n#[test]\nfn a() {}\n";
    assert!(problem("a.rs", wrapped).contains("`IBX-2`"));
}

#[test]
fn the_marker_in_backticks_is_prose() {
    assert_eq!(held("//! Lists ids after `Holds:`.\n"), [""; 0]);
}
