//! A store's URL: the server's address, the credentials, and the store's own settings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use oncebox_core::{Error, ErrorKind};
use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool};

use crate::db_error;
use crate::options::PostgresOptions;
use crate::pooler::Pooler;
use crate::reserve::RESERVED;
use crate::schema::Schema;

/// The application name reported to the server, unless the URL sets one.
const APPLICATION: &str = "oncebox";
/// A call that gets no connection within this time fails.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was idle for longer is pinged before a call uses it.
const IDLE_UNCHECKED_MAX: Duration = Duration::from_secs(1);
/// No statement of the store takes long, but one may wait for a row that another transaction has locked. After this
/// time its caller has given up, and it must not occupy a connection forever. `ensure` has no such limit.
const STATEMENT_TIMEOUT: (&str, &str) = ("statement_timeout", "30s");
/// The statements are long, and the best plan does not depend on the contents of the arrays bound to them: planning
/// for every call would cost several times as much as the call. JIT compilation does not pay off either. A plan that
/// was made while the tables were empty is kept, so it must use indexes from the start.
const PLANNER_SETTINGS: [(&str, &str); 3] =
    [("plan_cache_mode", "force_generic_plan"), ("jit", "off"), ("enable_seqscan", "off")];
const CONNECTIONS_MAX: u32 = 1_000;

const STORE_SETTINGS: [&str; 5] = ["schema", "connections", "ensure", "pooler", "keys_max"];
/// The driver's settings, in all spellings that it accepts.
const DRIVER_SETTINGS: [&str; 18] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "ssl-mode",
    "ssl-root-cert",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "options[…]",
];

/// A parsed URL. It never prints its input, which may contain a password.
#[derive(Clone)]
pub struct Address {
    connect: PgConnectOptions,
    options: PostgresOptions,
}

impl fmt::Debug for Address {
    fn fmt(&self, fmt: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt.debug_struct("Address").field("schema", &self.options.schema.name()).finish_non_exhaustive()
    }
}

impl Address {
    /// Parses a URL like `postgres://user:password@host/database?sslmode=require&schema=oncebox`. Settings of the
    /// store in the URL override `options`: `schema`, `connections`, `ensure` (`yes` or `no`), `pooler`
    /// (`transaction`) and `keys_max`; all others are the driver's. Unknown settings are [`ErrorKind::Invalid`].
    pub fn parse(url: &str, options: PostgresOptions) -> Result<Self, Error> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        if !base.starts_with("postgres://") && !base.starts_with("postgresql://") {
            return Err(invalid("invalid PostgreSQL URL: expected `postgres://user@host/database`"));
        }
        if query.contains('@') {
            return Err(invalid("found `@` after `?`: in a password, write `?` as %3F and `@` as %40"));
        }
        let mut options = options;
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid("invalid setting in the URL: expected name=value"))?;
            if STORE_SETTINGS.contains(&name) {
                set(&mut options, name, &decoded(value)?)?;
            } else if DRIVER_SETTINGS.contains(&name) || name.starts_with("options[") {
                rest.push(pair);
            } else {
                let (store, driver) = (STORE_SETTINGS.join(", "), DRIVER_SETTINGS[..12].join(", "));
                let text =
                    format!("unknown setting `{name}`: the store has {store}; the driver has {driver}");
                return Err(invalid(text));
            }
        }
        // The driver's error may quote parts of the URL.
        let connect = PgConnectOptions::from_str(&format!("{base}?{}", rest.join("&"))).map_err(|_| {
            invalid("cannot parse the database URL: percent-encode special characters in passwords and settings, such as `@` as %40")
        })?;
        Ok(Self { connect: with_session_settings(connect, options.pooler), options })
    }

    /// The store's settings.
    pub fn options(&self) -> &PostgresOptions {
        &self.options
    }

    /// Connects: at least one connection works.
    pub async fn connect(&self) -> Result<PgPool, Error> {
        self.connect_with(self.options.connections).await
    }

    /// Like `connect`, but reserved connections count towards `connections`.
    pub(crate) async fn connect_beside_reserve(&self) -> Result<PgPool, Error> {
        let reserved = if self.reserves() { RESERVED } else { 0 };
        self.connect_with(self.options.connections - reserved).await
    }

    /// Whether there are enough connections to reserve some.
    pub(crate) fn reserves(&self) -> bool {
        self.options.connections > RESERVED
    }

    async fn connect_with(&self, connections: u32) -> Result<PgPool, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, state| {
                Box::pin(
                    async move { Ok(state.idle_for < IDLE_UNCHECKED_MAX || connection.ping().await.is_ok()) },
                )
            });
        pool.connect_with(self.connect.clone()).await.map_err(connect_error)
    }
}

fn set(options: &mut PostgresOptions, name: &str, value: &str) -> Result<(), Error> {
    match (name, value) {
        ("schema", _) => options.schema = Schema::new(value)?,
        ("connections", _) => {
            let connections = value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
            options.connections =
                connections.ok_or_else(|| invalid("connections must be a number from 1 to 1000"))?;
        }
        ("keys_max", _) => {
            let keys = value.parse().ok().filter(|count| *count > 0);
            options.keys_max = keys.ok_or_else(|| invalid("keys_max must be a number of at least 1"))?;
        }
        ("ensure", "yes") => options.ensure = true,
        ("ensure", "no") => options.ensure = false,
        ("ensure", _) => return Err(invalid("ensure must be `yes` or `no`")),
        ("pooler", "transaction") => options.pooler = Pooler::Transaction,
        _ => return Err(invalid("pooler must be `transaction`: without a pooler, leave it out")),
    }
    Ok(())
}

/// Decodes a value of the URL.
fn decoded(value: &str) -> Result<String, Error> {
    let value = value.replace('+', " ");
    let decoded = percent_decode_str(&value).decode_utf8();
    Ok(decoded.map_err(|_| invalid("a setting in the URL is not valid UTF-8"))?.into_owned())
}

fn with_session_settings(connect: PgConnectOptions, pooler: Pooler) -> PgConnectOptions {
    let mut connect = connect;
    if connect.get_application_name().is_none() {
        connect = connect.application_name(APPLICATION);
    }
    match pooler {
        // Poolers reject startup settings that they cannot carry from session to session.
        Pooler::Transaction => connect.extra_float_digits(None),
        Pooler::None => {
            let set = connect.get_options().unwrap_or_default().to_owned();
            let defaults = PLANNER_SETTINGS.into_iter().chain([STATEMENT_TIMEOUT]);
            connect.options(defaults.filter(|(name, _)| !set.contains(name)))
        }
    }
}

/// The error when the first connection fails.
fn connect_error(error: sqlx::Error) -> Error {
    let text = match db_error::sqlstate(&error).as_deref() {
        Some(code @ "08P01") => format!(
            "protocol violation (SQLSTATE {code}): if a pooler in transaction mode answers at this address, set `pooler=transaction`"
        ),
        None if matches!(error, sqlx::Error::PoolTimedOut) => {
            "the database does not answer: check that it is running and that its address is right".to_owned()
        }
        _ => return db_error::into_error(error),
    };
    Error::new(ErrorKind::Unavailable, text)
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, text)
}
