//! Opens a store by its URL. This is the only module that names concrete stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oncebox_core::{Clock, Error, ErrorKind, Store};

use crate::transaction::Transactions;

/// An open store.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// Set if the store supports transactions.
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    /// Identifies the store in logs (IBX-113). Contains no secrets.
    pub(crate) name: Arc<str>,
}

/// Opens the store that `url` names. `name` is its name in logs, if the application set one.
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
    let settings = UrlSettings::parse(query)?;
    match scheme {
        #[cfg(feature = "memory")]
        "memory" => Ok(Opened::new(memory(path, settings, clock)?, name, || numbered("memory"))),
        #[cfg(feature = "embedded")]
        "embedded" => {
            let store = embedded(path, settings, name.clone(), clock).await?;
            Ok(Opened::new(store, name, || format!("embedded:{path}")))
        }
        _ => Err(invalid(format!(
            "unknown store `{scheme}`: use one of {}, or enable the store's cargo feature",
            SCHEMES.join(", ")
        ))),
    }
}

#[cfg(any(feature = "memory", feature = "embedded"))]
impl Opened {
    /// A store without transactions.
    fn new(store: Arc<dyn Store>, name: Option<Arc<str>>, default_name: impl FnOnce() -> String) -> Self {
        Self { store, transactions: None, name: name.unwrap_or_else(|| default_name().into()) }
    }
}

/// A name for a store without a location. The first store of the process has number 1.
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
fn memory(path: &str, settings: UrlSettings, clock: Option<Arc<dyn Clock>>) -> Result<Arc<dyn Store>, Error> {
    use oncebox_store_memory::{MemoryOptions, MemoryStore, Payloads};
    use oncebox_system::{SystemClock, SystemRng};

    if !path.is_empty() {
        return Err(invalid("`memory:` takes no path: nothing is written to disk"));
    }
    let mut settings = settings;
    let mut options = MemoryOptions::default();
    options.capacity = settings.capacity()?;
    options.payloads = match settings.take("payloads").as_deref() {
        None | Some("freed") => Payloads::Freed,
        Some("wiped") => Payloads::Wiped,
        Some(_) => return Err(invalid("payloads must be `freed` or `wiped`")),
    };
    settings.reject_unknown(&["payloads", "messages_max", "keys_max", "live_bytes_max"])?;
    let clock = clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
    Ok(Arc::new(MemoryStore::with(options, clock, Box::new(SystemRng::default()))))
}

#[cfg(feature = "embedded")]
async fn embedded(
    path: &str,
    mut settings: UrlSettings,
    name: Option<Arc<str>>,
    clock: Option<Arc<dyn Clock>>,
) -> Result<Arc<dyn Store>, Error> {
    use std::path::PathBuf;

    use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};

    if path.starts_with("//") && !path.starts_with("///") {
        return Err(invalid("`embedded://` names a host: leave the slashes out, as in `embedded:./data`"));
    }
    if path.is_empty() {
        return Err(invalid("`embedded:` needs a directory, as in `embedded:./data`"));
    }
    let mut options = EmbeddedOptions::default();
    options.capacity = settings.capacity()?;
    (options.name, options.clock) = (name, clock);
    if let Some(text) = settings.take("durability") {
        options.durability = durability(&text)?;
    }
    settings.reject_unknown(&["durability", "messages_max", "keys_max", "live_bytes_max"])?;
    let path = PathBuf::from(path);
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, &options)).await;
    let opened = opened.map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()))?;
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
        _ => Err(invalid("durability must be `sync`, `os` or an interval such as `interval-50ms`")),
    }
}

/// The PostgreSQL store parses the whole URL itself, including its own settings.
#[cfg(feature = "postgres")]
async fn postgres(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<Opened, Error> {
    use oncebox_store_postgres::{PostgresOptions, PostgresStore};

    let mut options = PostgresOptions::default();
    options.clock = clock;
    Ok(on_postgres(Arc::new(PostgresStore::open(url, options).await?)))
}

/// A PostgreSQL store with coalesced calls, and the same store for transactions.
#[cfg(feature = "postgres")]
pub(crate) fn on_postgres(store: Arc<oncebox_store_postgres::PostgresStore>) -> Opened {
    use crate::layers::{Coalesced, coalesce};

    let fail_fast = Arc::new(store.with_lock_timeout());
    let coalesced = Coalesced::with(fail_fast, store.clone(), coalesce::CoalesceOptions::DEFAULT);
    let name = store.name().into();
    Opened {
        store: Arc::new(coalesced),
        transactions: Some(crate::transaction::transactions_of(store)),
        name,
    }
}

/// The settings after the question mark of a URL.
struct UrlSettings(BTreeMap<String, String>);

impl UrlSettings {
    fn parse(query: &str) -> Result<Self, Error> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let pair = pair
                .split_once('=')
                .ok_or_else(|| invalid("invalid setting in the URL: expected name=value"));
            pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn number(&mut self, name: &'static str, default: u64) -> Result<u64, Error> {
        let Some(text) = self.take(name) else { return Ok(default) };
        text.parse().map_err(|_| invalid(format!("{name} must be a whole number")))
    }

    fn capacity(&mut self) -> Result<oncebox_core::machine::Capacity, Error> {
        let mut capacity = oncebox_core::machine::Capacity::default();
        capacity.messages_max = self.number("messages_max", capacity.messages_max)?;
        capacity.keys_max = self.number("keys_max", capacity.keys_max)?;
        capacity.live_bytes_max = self.number("live_bytes_max", capacity.live_bytes_max)?;
        Ok(capacity)
    }

    /// Fails if a setting is left over: a misspelt limit must not mean no limit.
    fn reject_unknown(self, known: &[&str]) -> Result<(), Error> {
        let Some((name, _)) = self.0.first_key_value() else { return Ok(()) };
        Err(invalid(format!("unknown setting `{name}`: this store supports {}", known.join(", "))))
    }
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, text)
}
