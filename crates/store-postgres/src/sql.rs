//! The statements, each from its own file, with the names of the schema filled in.
//!
//! A statement that joins its input with a table uses `= any(array[…])`: for a join of two columns the planner may
//! choose to scan the whole table if it believes that the table is empty.

use std::sync::Arc;

use crate::pooler::Pooler;
use crate::query::Query;
use crate::rows::INPUT_COLUMNS;
use crate::rows::columns::{self, sql_type_of};

/// The time, an id block and the lock timeout for `accept`.
const CLOCK: &str = "select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, \
     {schema}.next_id_block() * 16384 as id_block, set_config('lock_timeout', '50', true) as lock_timeout";

/// Limits lock waits of a statement and the rest of its transaction to 50 ms.
const LOCK_TIMEOUT: &str = "set_config('lock_timeout', '50', true)";

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement, ready to be prepared.
        pub(crate) struct Sql {
            $(pub(crate) $name: Statement,)*
            pub(crate) accept: Accept,
            /// Like `accept` and `lock`, but with the lock timeout of the transaction.
            pub(crate) accept_blocking: Accept,
            pub(crate) lock_blocking: Statement,
        }

        impl Sql {
            /// Creates the statements for a schema, whose name is already quoted.
            pub(crate) fn new(schema: &str, pooler: Pooler) -> Self {
                let new = |text: &str| Statement { text: render(text, schema).into(), pooler };
                let accept = |text: &str, clock: &str| Accept {
                    one: new(&accept_one(text, clock)),
                    many: new(&accept_many(text, clock)),
                };
                Self {
                    $($name: new(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    accept: accept(include_str!("../sql/accept.sql"), CLOCK),
                    accept_blocking: accept(include_str!("../sql/accept.sql"), &without_lock_timeout(CLOCK)),
                    lock_blocking: new(&without_lock_timeout(include_str!("../sql/lock.sql"))),
                }
            }
        }
    };
}

statements!(
    work,
    wait_for_message,
    locked_candidate,
    replay,
    lanes,
    lanes_of_topics,
    extend,
    lock,
    lock_leases,
    clock,
    get,
    with_key,
    update,
    insert,
    release_keys,
    message_delete,
    lease_upsert,
    lease_delete,
    due,
    due_wait,
    next_due,
    mark_removable,
    delete_removable,
    dead_letter_topics,
    dead_letter_counts,
    dead_letter_delete,
    page_up,
    page_down,
    counts,
    counts_topic,
    read_settings,
    ready_topics,
    topic_counts,
    lane_counts,
    in_flight,
    inherited,
    still_outstanding,
    ahead_lock,
    ahead_write,
    ahead_delete,
    record_lock,
    record_use,
    record_get,
    record_read,
    record_list_up,
    record_list_down,
    record_write,
    record_delete,
    record_expired,
    record_oldest,
    record_kinds_due,
    key_estimate,
    key_count,
);

/// A statement as it is sent. Apart from the quoted name of the schema, nothing in its text comes from a caller.
pub(crate) struct Statement {
    text: Arc<str>,
    pooler: Pooler,
}

impl Statement {
    /// Starts a query, to be bound and run.
    pub(crate) fn query<'q>(&self) -> Query<'q> {
        Query::new(Arc::clone(&self.text), self.pooler)
    }
}

/// The accept statement in two forms: with one value per column, and with one array per column.
pub(crate) struct Accept {
    one: Statement,
    many: Statement,
}

impl Accept {
    pub(crate) fn of(&self, messages: usize) -> &Statement {
        if messages == 1 { &self.one } else { &self.many }
    }
}

/// The parameters of `accept`: the ordinal in the call, then the columns that a sender provides.
fn inputs() -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let columns = std::iter::once(("ordinal", "bigint"))
        .chain(INPUT_COLUMNS.iter().map(|name| (*name, sql_type_of(name))));
    columns.zip(2..).map(|((name, sql_type), parameter)| (parameter, name, sql_type))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// Fills in the columns that both forms of `accept` write.
fn accept(text: &str) -> String {
    let cast = |name: &str| if name == "attributes" { "::jsonb" } else { "" };
    let values = joined(INPUT_COLUMNS.iter().map(|name| format!("input.{name}{}", cast(name))));
    text.replace("{input_names}", &INPUT_COLUMNS.join(", ")).replace("{input_values}", &values)
}

/// The form for any number of messages. The clock is materialized, so that it is evaluated once, however the rows are
/// joined with it.
fn accept_many(text: &str, clock: &str) -> String {
    let arrays = joined(inputs().map(|(parameter, _, sql_type)| format!("${parameter}::{sql_type}[]")));
    let names = joined(inputs().map(|(_, name, _)| name.to_owned()));
    let input = format!("unnest({arrays}) as input ({names})");
    let insert = accept(text).replace("{clock}", "clock").replace("{input}", &input);
    format!("with clock as materialized ({clock})\n{insert}")
}

/// The form for a single message, with one value per column: unnesting that many arrays in parallel takes longer than
/// the rest of the statement. With a single row the clock is evaluated once.
fn accept_one(text: &str, clock: &str) -> String {
    let cells =
        joined(inputs().map(|(parameter, name, sql_type)| format!("${parameter}::{sql_type} as {name}")));
    let input = format!("(select {cells}) as input");
    let clock = format!("({clock}) as clock");
    accept(text).replace("{clock}", &clock).replace("{input}", &input)
}

/// Replaces the statement's own lock timeout with the transaction's.
fn without_lock_timeout(text: &str) -> String {
    text.replace(LOCK_TIMEOUT, "''")
}

fn render(text: &str, schema: &str) -> String {
    complete(&statement(text), schema)
}

/// Fills in the schema's name, the column lists and the shared conditions.
pub(crate) fn complete(text: &str, schema: &str) -> String {
    let claimable = statement(include_str!("../sql/claimable.sql"));
    let text = text.replace("{claimable}", claimable.trim_end());
    columns::complete(&text).replace("{schema}", schema)
}

/// Strips the comments, which need not be sent with every call.
fn statement(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Quotes an identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
