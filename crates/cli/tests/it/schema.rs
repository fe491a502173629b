//! `oncebox schema` on a real PostgreSQL server.

use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};
use serde_json::{Value, json};

use crate::rig::{CommandOutput, oncebox, run};

fn schema(arguments: &[&str], store: &str) -> CommandOutput {
    run(&[&["schema"], arguments, &["--store", store]].concat())
}

/// Holds: CMD-09.
#[test]
fn tables_are_created_once_and_then_valid() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = format!("{}?schema=my+inbox", database.url());
    let ran = schema(&["validate"], &url);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "the schema `my inbox` has no oncebox tables\n"));
    let ran = schema(&["ensure"], &url);
    let created = "created the tables in the schema `my inbox`, version 1\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), created), "{}", ran.stderr);
    let ran = schema(&["ensure", "--output", "json"], &url);
    let output: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(output, json!({ "schema": "my inbox", "before": 1, "version": 1 }));
    let ran = schema(&["validate"], &url);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "the schema is valid\n"), "{}", ran.stderr);
    Ok(())
}

/// Holds: CMD-09.
#[test]
fn every_difference_is_listed_and_the_exit_code_is_1() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    assert_eq!(schema(&["ensure"], database.url()).code, Some(0));
    psql(
        database.url(),
        "alter table oncebox.message alter due type integer; drop index oncebox.message_lane",
    )?;
    let ran = schema(&["validate"], database.url());
    let differences = "column `message.due` is integer, not bigint\nindex `message_lane` is missing\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), differences));
    assert!(ran.stderr.contains("2 differences"), "{}", ran.stderr);
    let ran = schema(&["validate", "--output", "ndjson"], database.url());
    let output: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(
        (ran.code, &output["ok"], output["differences"].as_array().map(Vec::len)),
        (Some(1), &json!(false), Some(2))
    );
    Ok(())
}

/// Holds: CMD-09.
#[test]
fn the_dumped_sql_can_be_run_by_hand() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let ran = schema(&["dump"], "postgres://nowhere.invalid/x?schema=it%27s");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    psql(database.url(), &ran.stdout)?;
    let ran = schema(&["validate"], &format!("{}?schema=it%27s", database.url()));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(())
}

#[test]
fn the_store_url_can_come_from_the_environment() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let output = oncebox(&["schema", "ensure"]).env("ONCEBOX__STORE", database.url()).output()?;
    assert!(output.status.success(), "{output:?}");
    Ok(())
}

#[test]
fn a_store_without_a_schema_is_a_usage_error() {
    for store in ["memory:", "embedded:x", "postgres://u:secret@h/d?ensur=yes"] {
        let ran = schema(&["validate"], store);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

#[test]
fn a_server_that_refuses_connections_is_a_retryable_error() -> TestResult {
    let ran = schema(&["validate"], &Postgres::shared()?.url_for("nowhere"));
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("the database does not exist"), "{}", ran.stderr);
    Ok(())
}
