//! The columns of both tables, defined once: what is read, what is written, and the lists that statements are built
//! from.
//!
//! A group of columns is a row in Rust, one array per column for binding, and a list for SQL, all in the same order.
//! A column added here is read and written everywhere; `schema.sql` creates it, and `input.rs` lists it if senders
//! provide it.

use oncebox_core::Error;
use uuid::Uuid;

use super::cells::Cells;
use crate::query::Query;

/// A column and its SQL type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) sql_type: &'static str,
}

/// A group of columns of one row.
pub(crate) trait Row: Sized {
    const COLUMNS: &[Column];

    /// Reads the cells of these columns, which must be the next ones.
    fn read(cells: &mut Cells<'_>) -> Result<Self, Error>;
}

macro_rules! columns {
    ($(#[$doc:meta])* $row:ident, $arrays:ident { $($column:ident: $type:ty = $sql_type:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $row {
            $(pub(crate) $column: $type,)*
        }

        impl Row for $row {
            const COLUMNS: &[Column] = &[$(Column { name: stringify!($column), sql_type: $sql_type }),*];

            fn read(cells: &mut Cells<'_>) -> Result<Self, Error> {
                Ok(Self { $($column: cells.next()?,)* })
            }
        }

        /// The same columns as one array each.
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
    /// The columns of a message that a delivery contains, without its content.
    DeliveryColumns, DeliveryArrays {
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
    /// The remaining columns of a message, without its content.
    InternalColumns, InternalArrays {
        finished_at: Option<i64> = "bigint",
        retry_at: Option<i64> = "bigint",
        window_ms: i64 = "bigint",
        keep_ms: Option<i64> = "bigint",
        maintenance_at: Option<i64> = "bigint",
        attempts_max: Option<i32> = "integer",
        redrives: i32 = "integer",
        namespace: i16 = "smallint",
        state: i16 = "smallint",
        dead: Option<i16> = "smallint",
        divergence: i16 = "smallint",
        maintenance_class: Option<i16> = "smallint",
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
    /// A message's content to be written. Unchanged content is left out.
    ContentInput, ContentArrays {
        content_unchanged: bool = "boolean",
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
    pub(crate) delivery: DeliveryArrays,
    pub(crate) internal: InternalArrays,
    pub(crate) content: ContentArrays,
}

impl MessageArrays {
    pub(crate) fn len(&self) -> usize {
        self.delivery.uid.len()
    }

    pub(crate) fn push(
        &mut self,
        delivery: DeliveryColumns,
        internal: InternalColumns,
        content: ContentInput,
    ) {
        self.delivery.push(delivery);
        self.internal.push(internal);
        self.content.push(content);
    }

    pub(crate) fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        self.content.bind(self.internal.bind(self.delivery.bind(query)))
    }
}

/// The content including the payload, as deliveries read it.
const CONTENT: &str = "m.attributes::text as attributes, m.payload";
/// The content without the payload, of which only the size is read.
const CONTENT_WITHOUT_PAYLOAD: &str =
    "m.attributes::text as attributes, octet_length(m.payload) as payload_bytes";

fn message_columns() -> impl Iterator<Item = &'static Column> {
    DeliveryColumns::COLUMNS.iter().chain(InternalColumns::COLUMNS)
}

fn written_columns() -> impl Iterator<Item = &'static Column> {
    message_columns().chain(ContentInput::COLUMNS)
}

fn list<'a>(columns: impl Iterator<Item = &'a Column>, each: impl Fn(&Column) -> String) -> String {
    columns.map(each).collect::<Vec<_>>().join(", ")
}

/// The SQL type of a message's column; `input.rs` uses some of them.
pub(crate) fn sql_type_of(name: &str) -> &'static str {
    let column = written_columns().find(|column| column.name == name);
    column.unwrap_or_else(|| panic!("there is a column `{name}`")).sql_type
}

/// Inserts the column lists into the text of a statement.
pub(crate) fn complete(text: &str) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let of_message = |column: &Column| format!("m.{}", column.name);
    let name = |column: &Column| column.name.to_owned();
    let delivery = || list(DeliveryColumns::COLUMNS.iter(), of_message);
    let columns = || list(message_columns(), of_message);
    let parameters = |columns: &mut dyn Iterator<Item = &'static Column>| {
        let casts = columns.zip(1..).map(|(column, number)| format!("${number}::{}[]", column.sql_type));
        casts.collect::<Vec<_>>().join(", ")
    };
    let input_names = list(written_columns(), name);
    let lists = [
        ("{columns}", columns()),
        ("{content}", CONTENT.to_owned()),
        ("{content_without_payload}", CONTENT_WITHOUT_PAYLOAD.to_owned()),
        ("{delivery}", format!("{}, {CONTENT}", delivery())),
        (
            "{delivery_table}",
            format!(
                "{}, attributes text, payload bytea",
                list(DeliveryColumns::COLUMNS.iter(), |column| format!(
                    "{} {}",
                    column.name, column.sql_type
                ))
            ),
        ),
        ("{lease}", list(LeaseRow::COLUMNS.iter(), |column| format!("l.{}", column.name))),
        ("{lease_names}", list(LeaseRow::COLUMNS.iter(), name)),
        (
            "{lease_input}",
            format!(
                "unnest({}) as input ({})",
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
                format!("{0} = input.{0}", column.name)
            }),
        ),
        (
            "{message_input}",
            format!("unnest({}) as input ({input_names})", parameters(&mut written_columns())),
        ),
    ];
    lists.iter().fold(text.to_owned(), |text, (placeholder, list)| text.replace(placeholder, list))
}
