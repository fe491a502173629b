//! Opening an inbox by URL.

use oncebox::postgres::Tx;
use oncebox::{EnqueueOutcome, ErrorKind, Message, Oncebox, Worker, worker::BoxError};
use oncebox_testkit::servers::Postgres;

use super::fixture::Directory;

/// Holds: IBX-013, RULE-03, RULE-13.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread")]
async fn an_embedded_inbox_keeps_accepted_messages_across_a_restart() {
    let directory = Directory::new();
    let url = format!("embedded:{}?durability=sync", directory.0.display());
    let message = || Message::new("t", "test", "1").text("kept");
    let first = Oncebox::open(&url).await.unwrap();
    assert_eq!(first.inbox().enqueue(message()).await.unwrap().outcome, EnqueueOutcome::Accepted);
    let busy = Oncebox::open(&url).await.unwrap_err();
    assert!(busy.to_string().contains(&std::process::id().to_string()), "{busy}");
    first.close().await.unwrap();
    assert_eq!(first.inbox().enqueue(message()).await.unwrap_err().kind(), ErrorKind::Closed);
    let second = Oncebox::open(&url).await.unwrap();
    assert_eq!(second.inbox().enqueue(message()).await.unwrap().outcome, EnqueueOutcome::Duplicate);
    assert!(!second.name().contains('?'));
}

#[tokio::test(crate = "crate::timed")]
async fn an_invalid_url_or_setting_is_rejected_with_a_hint() {
    for (url, text) in [
        (
            "oracle:x",
            "unknown store `oracle`: use one of memory:, embedded:DIRECTORY, postgres://HOST/DATABASE, \
             or enable the store's cargo feature",
        ),
        ("memory:here", "`memory:` takes no path: nothing is written to disk"),
        (
            "memory:?messages=1",
            "unknown setting `messages`: this store supports payloads, messages_max, keys_max, live_bytes_max",
        ),
        ("memory:?keys_max=many", "keys_max must be a whole number"),
        ("memory:?keys_max", "invalid setting in the URL: expected name=value"),
        ("postgres:here", "invalid PostgreSQL URL: expected `postgres://user@host/database`"),
        ("postgres://u:secret@h/d?ensure=perhaps", "ensure must be `yes` or `no`"),
        ("embedded:", "`embedded:` needs a directory, as in `embedded:./data`"),
        ("embedded://x", "`embedded://` names a host: leave the slashes out, as in `embedded:./data`"),
        (
            "embedded:x?durability=maybe",
            "durability must be `sync`, `os` or an interval such as `interval-50ms`",
        ),
        (
            "embedded:x?durability=interval-0ms",
            "durability must be `sync`, `os` or an interval such as `interval-50ms`",
        ),
    ] {
        let refused = Oncebox::open(url).await.unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (ErrorKind::Invalid, text), "{url}");
    }
    let refused = Oncebox::builder().attempts_max(0).open("memory:").await.unwrap_err();
    assert_eq!(refused.to_string(), "attempts_max must be greater than zero");
    let refused = Oncebox::builder().payload_bytes_max(usize::MAX).open("memory:").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

/// Checks the settings of connections that are opened by URL.
async fn check_connection_settings(mut tx: Tx) -> Result<(), BoxError> {
    for (name, value) in
        [("plan_cache_mode", "force_generic_plan"), ("jit", "off"), ("statement_timeout", "30s")]
    {
        let query = sqlx::query_scalar::<_, String>("select current_setting($1)").bind(name);
        let set = query.fetch_one(&mut **tx).await?;
        if set != value {
            return Err(format!("{name} is {set}").into());
        }
    }
    Ok(())
}

/// The URL is enough; no pool and no options are needed.
/// Holds: CMD-08, IBX-114.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread")]
async fn an_inbox_on_postgres_is_opened_by_its_url() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let message = || Message::new("t", "test", "1").text("kept");
    let first = Oncebox::open(&format!("{}?ensure=yes&schema=my+inbox", database.url())).await.unwrap();
    let place =
        database.url().rsplit_once('@').map(|(_, place)| format!("postgres://{place}?schema=my inbox"));
    assert_eq!(Some(first.name()), place.as_deref());
    assert_eq!(first.inbox().enqueue(message()).await.unwrap().outcome, EnqueueOutcome::Accepted);
    let second = Oncebox::open(&format!("{}?schema=my+inbox&connections=4", database.url())).await.unwrap();
    assert_eq!(second.inbox().enqueue(message()).await.unwrap().outcome, EnqueueOutcome::Duplicate);
    let handled =
        Worker::new(&second).on("t", check_connection_settings).run_until_idle().await.unwrap().handled;
    assert_eq!(handled, 1, "connections have the settings that the guide documents");
    for oncebox in [first, second] {
        oncebox.close().await.unwrap();
    }
}
