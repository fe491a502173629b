//! From a URL to a store: the only place that names stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncebox_core::{Clock, Error, Kind, Store};

use crate::transaction::Transactions;

/// A store that is open.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// How it takes part in transactions, if it does.
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    /// Tells it from others in logs (IBX-113), and nothing secret.
    pub(crate) name: Arc<str>,
}

/// Opens the store that `url` names. `name` is what its user calls it, if that was said.
pub(crate) async fn store(
    url: &str,
    name: Option<Arc<str>>,
    clock: Option<Arc<dyn Clock>>,
) -> Result<Opened, Error> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    #[cfg(feature = "postgres")]
    if matches!(scheme, "postgres" | "postgresql") {
        return postgres(url, clock).await;
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let settings = Settings::parse(query)?;
    let (store, usual) = match scheme {
        #[cfg(feature = "memory")]
        "memory" => (memory(path, settings, clock)?, numbered("memory")),
        #[cfg(feature = "embedded")]
        "embedded" => (embedded(path, settings, name.clone(), clock).await?, format!("embedded:{path}")),
        _ => {
            return Err(invalid(format!(
                "no store is called `{scheme}`: use one of {}, or enable its feature",
                SCHEMES.join(", ")
            )));
        }
    };
    Ok(Opened { store, transactions: None, name: name.unwrap_or_else(|| usual.into()) })
}

/// The name of a store that has no place to be named by: the first of the process is number 1.
pub(crate) fn numbered(kind: &str) -> String {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    format!("{kind}-{}", OPENED.fetch_add(1, Ordering::Relaxed) + 1)
}

const SCHEMES: &[&str] = &[
    #[cfg(feature = "memory")]
    "memory:",
    #[cfg(feature = "embedded")]
    "embedded:DIRECTORY",
    #[cfg(feature = "postgres")]
    "postgres://HOST/DATABASE",
];

#[cfg(feature = "memory")]
fn memory(path: &str, settings: Settings, clock: Option<Arc<dyn Clock>>) -> Result<Arc<dyn Store>, Error> {
    use oncebox_store_memory::{MemoryStore, Options, Payloads};
    use oncebox_system::{SystemClock, SystemRng};

    if !path.is_empty() {
        return Err(invalid("`memory:` takes no path: its content goes with the process"));
    }
    let mut settings = settings;
    let mut options = Options::default();
    options.capacity = settings.capacity()?;
    options.payloads = match settings.take("payloads").as_deref() {
        None | Some("freed") => Payloads::Freed,
        Some("wiped") => Payloads::Wiped,
        Some(_) => return Err(invalid("payloads is neither `freed` nor `wiped`")),
    };
    settings.all_known(&["payloads", "messages_max", "keys_max", "live_bytes_max"])?;
    let clock = clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
    Ok(Arc::new(MemoryStore::with(options, clock, Box::new(SystemRng::default()))))
}

#[cfg(feature = "embedded")]
async fn embedded(
    path: &str,
    mut settings: Settings,
    name: Option<Arc<str>>,
    clock: Option<Arc<dyn Clock>>,
) -> Result<Arc<dyn Store>, Error> {
    use std::path::PathBuf;

    use oncebox_store_embedded::{EmbeddedStore, Options};

    if path.starts_with("//") && !path.starts_with("///") {
        return Err(invalid("`embedded://` names a host: leave the slashes out, as in `embedded:./data`"));
    }
    if path.is_empty() {
        return Err(invalid("`embedded:` needs a directory, as in `embedded:./data`"));
    }
    let mut options = Options::default();
    options.capacity = settings.capacity()?;
    (options.name, options.clock) = (name, clock);
    if let Some(text) = settings.take("durability") {
        options.durability = durability(&text)?;
    }
    settings.all_known(&["durability", "messages_max", "keys_max", "live_bytes_max"])?;
    let path = PathBuf::from(path);
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, &options)).await;
    let opened = opened.map_err(|error| Error::new(Kind::Unavailable, error.to_string()))?;
    Ok(Arc::new(opened?))
}

#[cfg(feature = "embedded")]
fn durability(text: &str) -> Result<oncebox_store_embedded::Durability, Error> {
    use std::time::Duration;

    use oncebox_store_embedded::Durability;

    let millis = text.strip_prefix("interval-").and_then(|text| text.strip_suffix("ms"));
    match (text, millis.and_then(|millis| millis.parse().ok())) {
        ("sync", _) => Ok(Durability::Sync),
        ("os", _) => Ok(Durability::Os),
        (_, Some(millis)) if millis > 0 => Ok(Durability::Interval(Duration::from_millis(millis))),
        _ => Err(invalid("durability is none of `sync`, `interval-50ms` (any number), `os`")),
    }
}

/// Its settings are taken out of the URL where the rest is understood, too.
#[cfg(feature = "postgres")]
async fn postgres(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<Opened, Error> {
    use oncebox_store_postgres::{Options, PostgresStore};

    let mut options = Options::default();
    options.clock = clock;
    Ok(on_postgres(Arc::new(PostgresStore::open(url, options).await?)))
}

/// A store on PostgreSQL whose calls are merged, and the same for transactions.
#[cfg(feature = "postgres")]
pub(crate) fn on_postgres(store: Arc<oncebox_store_postgres::PostgresStore>) -> Opened {
    use crate::layers::{Coalesced, coalesce};

    let hasty = Arc::new(store.hasty());
    let merged = Coalesced::with(hasty, store.clone(), coalesce::Options::DEFAULT);
    let name = store.name().into();
    Opened { store: Arc::new(merged), transactions: Some(crate::transaction::of(store)), name }
}

/// The pairs after the question mark.
struct Settings(BTreeMap<String, String>);

impl Settings {
    fn parse(query: &str) -> Result<Self, Error> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let pair = pair.split_once('=').ok_or_else(|| invalid("a setting is not name=value"));
            pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn number(&mut self, name: &'static str, usual: u64) -> Result<u64, Error> {
        let Some(text) = self.take(name) else { return Ok(usual) };
        text.parse().map_err(|_| invalid(format!("{name} is not a whole number")))
    }

    fn capacity(&mut self) -> Result<oncebox_core::machine::Capacity, Error> {
        let mut capacity = oncebox_core::machine::Capacity::default();
        capacity.messages_max = self.number("messages_max", capacity.messages_max)?;
        capacity.keys_max = self.number("keys_max", capacity.keys_max)?;
        capacity.live_bytes_max = self.number("live_bytes_max", capacity.live_bytes_max)?;
        Ok(capacity)
    }

    /// Refuses what nobody took: a misspelt bound must not be no bound.
    fn all_known(self, known: &[&str]) -> Result<(), Error> {
        let Some((name, _)) = self.0.first_key_value() else { return Ok(()) };
        Err(invalid(format!("no setting is called `{name}`: this store knows {}", known.join(", "))))
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(Kind::Invalid, text)
}
