//! The stores of tests in made-up files.

use super::*;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn shown(code: &Code, holder: &str) -> String {
    code.of(holder).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_test_runs_on_what_it_and_its_helpers_mention() {
    let code = Code::read(&[
        file(
            "crates/cli/tests/it/rig.rs",
            "pub fn on_every_store(test: impl Fn(Server)) { on_each(&[Store::Memory, Store::Embedded, Store::Postgres]) }\n\
             impl Server<'_> { fn start(store: Store) -> Self { Self::open(); home.url(store) } fn open() {} }\n\
             impl Place { fn url() { PgBouncer::new() } }",
        ),
        file(
            "crates/cli/tests/it/one.rs",
            "fn all() { rig::on_every_store(|server| server.go()) }\n\
             async fn one() -> Result<(), X> { Server::start(Store::Embedded); }\n\
             proptest! { #[test] fn property(a in 0..3) { shop() } }\n\
             fn shop() -> Shop { Oncebox::builder().on_postgres(store) }\n\
             fn url() { open(\"memory:\") }\n\
             fn pure() { assert_eq!(1, 1) }",
        ),
        file("crates/wire/src/lib.rs", "fn shop() { MemoryStore::new() }"),
    ]);
    for (name, stores) in [
        ("all", "memory embedded postgres"),
        ("one", "embedded"),
        ("property", "postgres"),
        ("url", "memory"),
        ("pure", ""),
        ("unknown", ""),
    ] {
        assert_eq!(shown(&code, &format!("crates/cli/tests/it/one.rs::{name}")), stores, "{name}");
    }
}

#[test]
fn a_case_runs_where_its_macro_is_called() {
    let code = Code::read(&[
        file("crates/store-memory/tests/it/main.rs", "oncebox_testkit::conformance!(open);\n"),
        file(
            "crates/store-postgres/tests/it/main.rs",
            "oncebox_testkit::conformance!(open);\nfaulty_cases!(open);\n",
        ),
        file(
            "crates/store-postgres/tests/it/pooled.rs",
            "fn a() { PgBouncer::start(server) }\nconformance!(open);\n",
        ),
        file("crates/oncebox/src/lib.rs", "/// conformance!(open);\nfn a() {}\n"),
    ]);
    let case = "crates/testkit/src/conformance/claims.rs::a_claim";
    assert_eq!(shown(&code, case), "memory postgres pgbouncer");
    assert_eq!(shown(&code, "crates/testkit/src/faulty/cases.rs::a_lost_claim"), "postgres");
}

#[test]
fn a_test_in_a_stores_crate_runs_on_that_store() {
    let code = Code::default();
    assert_eq!(shown(&code, "crates/store-embedded/tests/it/crash.rs::crash_points"), "embedded");
    assert_eq!(shown(&code, "crates/core/src/text.rs::texts"), "");
}

#[test]
fn stores_have_one_name() {
    for (name, store) in NAMES {
        assert_eq!((Store::parse(name), store.to_string()), (Some(store), name.to_owned()));
    }
    assert_eq!(Store::parse("oracle"), None);
}
