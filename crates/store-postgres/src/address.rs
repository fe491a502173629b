//! A store's URL: where the server is, who we are there, and the store's own settings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use oncebox_core::{Error, Kind};
use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool};

use crate::reserve::RESERVED;
use crate::{Options, Pooler, Schema, fault};

/// What the server is told about who connects, unless the URL says otherwise.
const APPLICATION: &str = "oncebox";
/// A call that got no connection after this is told so.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that nobody used for so long is asked whether it is still there, before a call relies on it.
const IDLE_TRUSTED: Duration = Duration::from_secs(1);
/// No statement of ours takes long, but one may wait for a row that somebody else holds. After this nobody waits for its
/// answer any more, and it must not have a connection for ever. `ensure` has no such bound.
const STATEMENT_TIMEOUT: (&str, &str) = ("statement_timeout", "30s");
/// Our statements are long, and what is in the arrays that are bound to them does not change how they are best run: a plan of
/// its own for every call would cost several times what the call does. Nor is there anything to compile. A plan that was made while
/// the tables were empty stays, so it must go by index already.
const PLANS: [(&str, &str); 3] =
    [("plan_cache_mode", "force_generic_plan"), ("jit", "off"), ("enable_seqscan", "off")];
const CONNECTIONS_MAX: u32 = 1_000;

const OWN: [&str; 5] = ["schema", "connections", "ensure", "pooler", "keys_max"];
/// What the driver understands, in the ways in which it may be written.
const DRIVERS: [&str; 18] = [
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

/// A URL, taken apart. It never shows what it was made from: there may be a password in it.
#[derive(Clone)]
pub struct Address {
    connect: PgConnectOptions,
    options: Options,
}

impl fmt::Debug for Address {
    fn fmt(&self, fmt: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt.debug_struct("Address").field("schema", &self.options.schema.name()).finish_non_exhaustive()
    }
}

impl Address {
    /// Takes a URL like `postgres://user:password@host/database?sslmode=require&schema=oncebox` apart. Settings of the store
    /// hold over `options`: `schema`, `connections`, `ensure` (`yes` or `no`), `pooler` (`transaction`) and `keys_max`; all others are the
    /// driver's. One that nobody knows is [`Kind::Invalid`].
    pub fn parse(url: &str, options: Options) -> Result<Self, Error> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        if !place.starts_with("postgres://") && !place.starts_with("postgresql://") {
            return Err(invalid("a store on PostgreSQL has a URL like `postgres://user@host/database`"));
        }
        if query.contains('@') {
            return Err(invalid(
                "an `@` stands after the `?`: write `?` in a password as %3F, and `@` as %40",
            ));
        }
        let mut options = options;
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| invalid("a setting is not name=value"))?;
            if OWN.contains(&name) {
                set(&mut options, name, &decoded(value)?)?;
            } else if DRIVERS.contains(&name) || name.starts_with("options[") {
                rest.push(pair);
            } else {
                let (own, drivers) = (OWN.join(", "), DRIVERS[..12].join(", "));
                let text = format!(
                    "no setting is called `{name}`: this store knows {own}; the driver knows {drivers}"
                );
                return Err(invalid(text));
            }
        }
        // What the driver says about a URL may repeat parts of it.
        let connect = PgConnectOptions::from_str(&format!("{place}?{}", rest.join("&"))).map_err(|_| {
            invalid("the URL of the database cannot be read: write what is special in a password or a setting as %40 for `@`")
        })?;
        Ok(Self { connect: dressed(connect, options.pooler), options })
    }

    /// The store's settings.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Connects: at least one connection works.
    pub async fn connect(&self) -> Result<PgPool, Error> {
        self.connect_with(self.options.connections).await
    }

    /// The same, with so many connections that there are no more than set together with the reserved ones.
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
                Box::pin(async move { Ok(state.idle_for < IDLE_TRUSTED || connection.ping().await.is_ok()) })
            });
        pool.connect_with(self.connect.clone()).await.map_err(unreached)
    }
}

fn set(options: &mut Options, name: &str, value: &str) -> Result<(), Error> {
    match (name, value) {
        ("schema", _) => options.schema = Schema::new(value)?,
        ("connections", _) => {
            let connections = value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
            options.connections =
                connections.ok_or_else(|| invalid("connections is not a number from 1 to 1000"))?;
        }
        ("keys_max", _) => {
            let keys = value.parse().ok().filter(|count| *count > 0);
            options.keys_max = keys.ok_or_else(|| invalid("keys_max is not a number from 1 on"))?;
        }
        ("ensure", "yes") => options.ensure = true,
        ("ensure", "no") => options.ensure = false,
        ("ensure", _) => return Err(invalid("ensure is neither `yes` nor `no`")),
        ("pooler", "transaction") => options.pooler = Pooler::Transaction,
        _ => return Err(invalid("pooler is not `transaction`: without a pooler, leave it out")),
    }
    Ok(())
}

/// A value as it was before it was put into a URL.
fn decoded(value: &str) -> Result<String, Error> {
    let value = value.replace('+', " ");
    let decoded = percent_decode_str(&value).decode_utf8();
    Ok(decoded.map_err(|_| invalid("a setting is not UTF-8"))?.into_owned())
}

fn dressed(connect: PgConnectOptions, pooler: Pooler) -> PgConnectOptions {
    let mut connect = connect;
    if connect.get_application_name().is_none() {
        connect = connect.application_name(APPLICATION);
    }
    match pooler {
        // Poolers refuse what they cannot carry from session to session.
        Pooler::Transaction => connect.extra_float_digits(None),
        Pooler::None => {
            let set = connect.get_options().unwrap_or_default().to_owned();
            let usual = PLANS.into_iter().chain([STATEMENT_TIMEOUT]);
            connect.options(usual.filter(|(name, _)| !set.contains(name)))
        }
    }
}

/// Why there is not even a first connection.
fn unreached(error: sqlx::Error) -> Error {
    let text = match fault::state(&error).as_deref() {
        Some(code @ "08P01") => format!(
            "what answers there is no PostgreSQL (SQLSTATE {code}): if it is a pooler in transaction mode, set `pooler=transaction`"
        ),
        None if matches!(error, sqlx::Error::PoolTimedOut) => {
            "the database does not answer: is it running, and is its address right?".to_owned()
        }
        _ => return fault::told(error),
    };
    Error::new(Kind::Unavailable, text)
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(Kind::Invalid, text)
}
