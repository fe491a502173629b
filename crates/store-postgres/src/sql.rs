//! The statements, each from its file, with the names of the schema in them.
//!
//! Where one joins what it is given with a table, it says `= any(array[…])`: a join of two columns may be made by walking all of the
//! table, if the planner believes that it is empty.

use std::sync::Arc;

use crate::Pooler;
use crate::query::Query;

/// A message's columns, in the order in which `row.rs` reads them; the payload is last.
const COLUMNS: &str = "m.uid, m.number, m.accepted_at, m.last_seen_at, m.finished_at, m.retry_at, m.due, m.expires, m.window_ms, m.keep_ms, \
     m.end_fence, m.end_until, m.end_limit, m.end_retry_at, m.attempts, m.deliveries, m.attempts_max, m.shard, \
     m.namespace, m.state, m.dead, m.divergence, m.end_kind, m.end_outcome, m.end_dead, \
     m.keyed, m.keep_finished, m.superseded, m.end_superseded, m.end_owner, m.end_request, \
     m.source, m.id, m.topic, m.partition, m.end_partition, m.correlation, m.causation, m.tenant, m.hash_name, m.last_error, \
     m.hash, m.fingerprint, m.attributes::text as attributes";

/// What a delivery has of a message, in the order in which `round.rs` reads it; the payload is last. `work_1.sql` has them too.
const DELIVERY: &str = "m.uid, m.number, m.accepted_at, m.last_seen_at, m.due, m.expires, m.attempts, m.deliveries, m.shard, \
     m.source, m.id, m.topic, m.partition, m.correlation, m.causation, m.tenant, m.hash_name, m.last_error, \
     m.hash, m.fingerprint, m.attributes::text as attributes, m.payload";

/// What is bound to `accept`, from the second value on: a column, and its type.
const GIVEN: [(&str, &str); 24] = [
    ("place", "bigint"),
    ("uid", "uuid"),
    ("namespace", "smallint"),
    ("key_hash", "uuid"),
    ("source", "text"),
    ("id", "text"),
    ("topic", "text"),
    ("shard", "integer"),
    ("partition", "text"),
    ("payload", "bytea"),
    ("attributes", "text"),
    ("due", "bigint"),
    ("expires", "bigint"),
    ("fingerprint", "bytea"),
    ("hash_name", "text"),
    ("hash", "bytea"),
    ("correlation", "text"),
    ("causation", "text"),
    ("tenant", "text"),
    ("attempts_max", "integer"),
    ("window_ms", "bigint"),
    ("keep_ms", "bigint"),
    ("divergence", "smallint"),
    ("keep_finished", "boolean"),
];

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
    page_up,
    page_down,
    counts,
    steady,
    ready_topics,
    lane_counts,
    in_flight,
    pick,
    grant,
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

/// For any number of messages. The clock is materialized: it is asked once, however the rows are joined with it.
fn accept_many(text: &str, clock: &str) -> String {
    let arrays = GIVEN.iter().zip(2..).map(|((_, kind), place)| format!("${place}::{kind}[]"));
    let names = GIVEN.map(|(name, _)| name);
    let given = format!("unnest({}) as given ({})", arrays.collect::<Vec<_>>().join(", "), names.join(", "));
    let insert = text.replace("{clock}", "clock").replace("{given}", &given);
    format!("with clock as materialized ({clock})\n{insert}")
}

/// For a single message, with a value for each column: reading so many arrays side by side takes longer than the rest of it. A single row
/// asks the clock once.
fn accept_one(text: &str, clock: &str) -> String {
    let cells = GIVEN.iter().zip(2..).map(|((name, kind), place)| format!("${place}::{kind} as {name}"));
    let given = format!("(select {}) as given", cells.collect::<Vec<_>>().join(", "));
    let clock = format!("({clock}) as clock");
    text.replace("{clock}", &clock).replace("{given}", &given)
}

/// The same, waiting for locks as long as its transaction says.
fn patient(text: &str) -> String {
    text.replace(BRIEFLY, "''")
}

fn render(text: &str, schema: &str) -> String {
    let text = statement(text);
    let text = text
        .replace("{columns_without_payload}", &format!("{COLUMNS}, octet_length(m.payload) as payload"))
        .replace("{columns}", &format!("{COLUMNS}, m.payload"))
        .replace("{delivery}", DELIVERY);
    complete(&text, schema)
}

/// The text with its names, and the conditions that several have.
pub(crate) fn complete(text: &str, schema: &str) -> String {
    let claimable = statement(include_str!("../sql/claimable.sql"));
    text.replace("{claimable}", claimable.trim_end()).replace("{schema}", schema)
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
