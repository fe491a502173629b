//! The columns of both tables, named once: what is read, what is written, and the lists that statements are made of.
//!
//! A group of columns is a row in Rust, an array per column to bind, and a list for SQL, all in one order. A column that is added
//! here is read and written everywhere; `schema.sql` makes it, and `accept.rs` names it if senders give it.

use oncebox_core::Error;
use uuid::Uuid;

use super::cells::Cells;
use crate::query::Query;

/// A column and its type in the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
}

/// A group of columns, as one row has them.
pub(crate) trait Row: Sized {
    const COLUMNS: &[Column];

    /// Reads the cells of these columns, which are the next ones.
    fn read(cells: &mut Cells<'_>) -> Result<Self, Error>;
}

macro_rules! columns {
    ($(#[$doc:meta])* $row:ident, $arrays:ident { $($column:ident: $type:ty = $kind:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $row {
            $(pub(crate) $column: $type,)*
        }

        impl Row for $row {
            const COLUMNS: &[Column] = &[$(Column { name: stringify!($column), kind: $kind }),*];

            fn read(cells: &mut Cells<'_>) -> Result<Self, Error> {
                Ok(Self { $($column: cells.next()?,)* })
            }
        }

        /// The same as one array per column.
        #[derive(Default)]
        pub(crate) struct $arrays {
            $(pub(crate) $column: Vec<$type>,)*
        }

        impl $arrays {
            pub(crate) fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)*
            }

            /// Binds every array, in order.
            pub(crate) fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> {
                query$(.bind(&self.$column))*
            }
        }
    };
}

columns!(
    /// What a delivery shows of a message, beside its content.
    Shown, ShownArrays {
        uid: Uuid = "uuid",
        number: i64 = "bigint",
        accepted_at: i64 = "bigint",
        last_seen_at: i64 = "bigint",
        due: Option<i64> = "bigint",
        expires: Option<i64> = "bigint",
        attempts: i32 = "integer",
        deliveries: i32 = "integer",
        shard: Option<i32> = "integer",
        source: String = "text",
        id: String = "text",
        topic: Option<String> = "text",
        partition: Option<String> = "text",
        correlation: Option<String> = "text",
        causation: Option<String> = "text",
        tenant: Option<String> = "text",
        hash_name: Option<String> = "text",
        last_error: Option<String> = "text",
        hash: Option<Vec<u8>> = "bytea",
        fingerprint: Option<Vec<u8>> = "bytea",
        seal: Option<Vec<u8>> = "bytea",
    }
);

columns!(
    /// The rest of a message, without its content.
    Kept, KeptArrays {
        finished_at: Option<i64> = "bigint",
        retry_at: Option<i64> = "bigint",
        window_ms: i64 = "bigint",
        keep_ms: Option<i64> = "bigint",
        shelf_at: Option<i64> = "bigint",
        attempts_max: Option<i32> = "integer",
        redrives: i32 = "integer",
        namespace: i16 = "smallint",
        state: i16 = "smallint",
        dead: Option<i16> = "smallint",
        divergence: i16 = "smallint",
        shelf: Option<i16> = "smallint",
        keyed: bool = "boolean",
        keep_finished: bool = "boolean",
        ready: bool = "boolean",
        superseded: bool = "boolean",
        key_hash: Uuid = "uuid",
        end_fence: i64 = "bigint",
        end_until: Option<i64> = "bigint",
        end_limit: Option<i64> = "bigint",
        end_retry_at: Option<i64> = "bigint",
        end_kind: Option<i16> = "smallint",
        end_outcome: Option<i16> = "smallint",
        end_dead: Option<i16> = "smallint",
        end_superseded: bool = "boolean",
        end_owner: Option<Uuid> = "uuid",
        end_request: Option<Uuid> = "uuid",
        end_partition: Option<String> = "text",
        end_worker: Option<String> = "text",
    }
);

columns!(
    /// What is written of a message's content. If it stays as it is stored, none of it is given.
    ContentGiven, ContentArrays {
        content_stays: bool = "boolean",
        attributes: Option<String> = "text",
        payload: Option<Vec<u8>> = "bytea",
    }
);

columns!(
    /// A lease.
    LeaseRow, LeaseArrays {
        uid: Uuid = "uuid",
        owner: Uuid = "uuid",
        request: Option<Uuid> = "uuid",
        fence: i64 = "bigint",
        until: i64 = "bigint",
        extend_max: i64 = "bigint",
        attempts_max: Option<i32> = "integer",
        worker: Option<String> = "text",
        namespace: i16 = "smallint",
        in_flight: bool = "boolean",
        partition: Option<String> = "text",
    }
);

/// Messages to be written, one array per column.
#[derive(Default)]
pub(crate) struct MessageArrays {
    pub(crate) shown: ShownArrays,
    pub(crate) kept: KeptArrays,
    pub(crate) content: ContentArrays,
}

impl MessageArrays {
    pub(crate) fn len(&self) -> usize {
        self.shown.uid.len()
    }

    pub(crate) fn push(&mut self, shown: Shown, kept: Kept, content: ContentGiven) {
        self.shown.push(shown);
        self.kept.push(kept);
        self.content.push(content);
    }

    pub(crate) fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        self.content.bind(self.kept.bind(self.shown.bind(query)))
    }
}

/// The payload as it is read for a delivery, and with it all other content.
const CONTENT: &str = "m.attributes::text as attributes, m.payload";
/// Without the payload, which stays where it is.
const CONTENT_WITHOUT_PAYLOAD: &str =
    "m.attributes::text as attributes, octet_length(m.payload) as payload_bytes";

fn message_columns() -> impl Iterator<Item = &'static Column> {
    Shown::COLUMNS.iter().chain(Kept::COLUMNS)
}

fn written_columns() -> impl Iterator<Item = &'static Column> {
    message_columns().chain(ContentGiven::COLUMNS)
}

fn list<'a>(columns: impl Iterator<Item = &'a Column>, each: impl Fn(&Column) -> String) -> String {
    columns.map(each).collect::<Vec<_>>().join(", ")
}

/// The type of a message's column; `accept.rs` names some of them.
pub(crate) fn kind_of(name: &str) -> &'static str {
    let column = written_columns().find(|column| column.name == name);
    column.unwrap_or_else(|| panic!("there is a column `{name}`")).kind
}

/// Puts the lists of columns into the text of a statement.
pub(crate) fn complete(text: &str) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let of_message = |column: &Column| format!("m.{}", column.name);
    let name = |column: &Column| column.name.to_owned();
    let shown = || list(Shown::COLUMNS.iter(), of_message);
    let columns = || list(message_columns(), of_message);
    let parameters = |columns: &mut dyn Iterator<Item = &'static Column>| {
        let places = columns.zip(1..).map(|(column, place)| format!("${place}::{}[]", column.kind));
        places.collect::<Vec<_>>().join(", ")
    };
    let given = list(written_columns(), name);
    let lists = [
        ("{columns}", columns()),
        ("{content}", CONTENT.to_owned()),
        ("{content_without_payload}", CONTENT_WITHOUT_PAYLOAD.to_owned()),
        ("{delivery}", format!("{}, {CONTENT}", shown())),
        (
            "{delivery_table}",
            format!(
                "{}, attributes text, payload bytea",
                list(Shown::COLUMNS.iter(), |column| format!("{} {}", column.name, column.kind))
            ),
        ),
        ("{lease}", list(LeaseRow::COLUMNS.iter(), |column| format!("l.{}", column.name))),
        ("{lease_names}", list(LeaseRow::COLUMNS.iter(), name)),
        (
            "{lease_given}",
            format!(
                "unnest({}) as given ({})",
                parameters(&mut LeaseRow::COLUMNS.iter()),
                list(LeaseRow::COLUMNS.iter(), name)
            ),
        ),
        (
            "{lease_assignments}",
            list(LeaseRow::COLUMNS.iter().filter(|column| column.name != "uid"), |column| {
                format!("{0} = excluded.{0}", column.name)
            }),
        ),
        ("{message_names}", list(message_columns(), name)),
        (
            "{message_assignments}",
            list(message_columns().filter(|column| column.name != "uid"), |column| {
                format!("{0} = given.{0}", column.name)
            }),
        ),
        ("{message_given}", format!("unnest({}) as given ({given})", parameters(&mut written_columns()))),
    ];
    lists.iter().fold(text.to_owned(), |text, (mark, list)| text.replace(mark, list))
}
