//! The statements, each from its file, with the names of the schema in them.
//!
//! Where one joins what it is given with a table, it says `= any(array[…])`: a join of two columns may be made by walking all of the
//! table, if the planner believes that it is empty.

use std::sync::Arc;

use crate::Pooler;
use crate::query::Query;
use crate::rows::GIVEN;
use crate::rows::columns::{self, kind_of};

/// What `accept` needs to know beside the messages.
const CLOCK: &str = "select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, \
     {schema}.next_ticket() * 16384 as ticket, set_config('lock_timeout', '50', true) as lock_timeout";

/// What makes a statement wait but a little for locks, and the rest of its transaction too.
const BRIEFLY: &str = "set_config('lock_timeout', '50', true)";

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// Every statement, ready to be prepared.
        pub(crate) struct Sql {
            $(pub(crate) $name: Statement,)*
            pub(crate) accept: Accept,
            /// As `accept` and `lock`, but locks are waited for as the transaction says.
            pub(crate) accept_patiently: Accept,
            pub(crate) lock_patiently: Statement,
        }

        impl Sql {
            /// The statements for a schema, whose name is quoted already.
            pub(crate) fn new(schema: &str, pooler: Pooler) -> Self {
                let new = |text: &str| Statement { text: render(text, schema).into(), pooler };
                let accept = |text: &str, clock: &str| Accept {
                    one: new(&accept_one(text, clock)),
                    many: new(&accept_many(text, clock)),
                };
                Self {
                    $($name: new(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    accept: accept(include_str!("../sql/accept.sql"), CLOCK),
                    accept_patiently: accept(include_str!("../sql/accept.sql"), &patient(CLOCK)),
                    lock_patiently: new(&patient(include_str!("../sql/lock.sql"))),
                }
            }
        }
    };
}

statements!(
    work,
    wait,
    missed,
    replay,
    lanes,
    lanes_of,
    extend,
    lock,
    lock_leases,
    clock,
    get,
    with_key,
    update,
    insert,
    unkey,
    message_drop,
    lease_put,
    lease_drop,
    due,
    due_wait,
    next_due,
    free,
    forget,
    letter_topics,
    letter_counts,
    forget_letters,
    page_up,
    page_down,
    counts,
    counts_topic,
    steady,
    ready_topics,
    topic_counts,
    lane_counts,
    in_flight,
    inherited,
    still_out,
    ahead_lock,
    ahead_put,
    ahead_forget,
    usage,
    keys,
);

/// A statement as it is sent. Nothing in its text comes from a caller but the quoted name of the schema.
pub(crate) struct Statement {
    text: Arc<str>,
    pooler: Pooler,
}

impl Statement {
    /// To be bound and run.
    pub(crate) fn query<'q>(&self) -> Query<'q> {
        Query::new(Arc::clone(&self.text), self.pooler)
    }
}

/// Taking in, in two forms: with a value for each column, and with an array.
pub(crate) struct Accept {
    one: Statement,
    many: Statement,
}

impl Accept {
    pub(crate) fn of(&self, messages: usize) -> &Statement {
        if messages == 1 { &self.one } else { &self.many }
    }
}

/// The columns that a sender gives, after the place in the call.
fn given() -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let places = std::iter::once(("place", "bigint")).chain(GIVEN.iter().map(|name| (*name, kind_of(name))));
    places.zip(2..).map(|((name, kind), parameter)| (parameter, name, kind))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// What both forms of `accept` write from what is given.
fn accept(text: &str) -> String {
    let cast = |name: &str| if name == "attributes" { "::jsonb" } else { "" };
    let values = joined(GIVEN.iter().map(|name| format!("given.{name}{}", cast(name))));
    text.replace("{given_names}", &GIVEN.join(", ")).replace("{given_values}", &values)
}

/// For any number of messages. The clock is materialized: it is asked once, however the rows are joined with it.
fn accept_many(text: &str, clock: &str) -> String {
    let arrays = joined(given().map(|(parameter, _, kind)| format!("${parameter}::{kind}[]")));
    let names = joined(given().map(|(_, name, _)| name.to_owned()));
    let given = format!("unnest({arrays}) as given ({names})");
    let insert = accept(text).replace("{clock}", "clock").replace("{given}", &given);
    format!("with clock as materialized ({clock})\n{insert}")
}

/// For a single message, with a value for each column: reading so many arrays side by side takes longer than the rest of it. A single row
/// asks the clock once.
fn accept_one(text: &str, clock: &str) -> String {
    let cells = joined(given().map(|(parameter, name, kind)| format!("${parameter}::{kind} as {name}")));
    let given = format!("(select {cells}) as given");
    let clock = format!("({clock}) as clock");
    accept(text).replace("{clock}", &clock).replace("{given}", &given)
}

/// The same, waiting for locks as long as its transaction says.
fn patient(text: &str) -> String {
    text.replace(BRIEFLY, "''")
}

fn render(text: &str, schema: &str) -> String {
    complete(&statement(text), schema)
}

/// The text with its names, the lists of columns, and the conditions that several have.
pub(crate) fn complete(text: &str, schema: &str) -> String {
    let claimable = statement(include_str!("../sql/claimable.sql"));
    let text = text.replace("{claimable}", claimable.trim_end());
    columns::complete(&text).replace("{schema}", schema)
}

/// What the comments say is not sent with every call.
fn statement(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    lines.collect::<Vec<_>>().join("\n")
}

/// A name as PostgreSQL takes it literally.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
