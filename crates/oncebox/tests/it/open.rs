//! Opening by URL.

use oncebox::postgres::Tx;
use oncebox::{BoxError, Kind, Message, Oncebox, Outcome, Worker};
use oncebox_testkit::servers::Postgres;

use super::fixture::Directory;

/// Holds: IBX-013, RULE-03, RULE-13.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread")]
async fn an_embedded_inbox_knows_after_a_restart_what_it_took_in() {
    let directory = Directory::new();
    let url = format!("embedded:{}?durability=sync", directory.0.display());
    let message = || Message::new("t", "test", "1").text("kept");
    let first = Oncebox::open(&url).await.unwrap();
    assert_eq!(first.inbox().enqueue(message()).await.unwrap().outcome, Outcome::Accepted);
    let busy = Oncebox::open(&url).await.unwrap_err();
    assert!(busy.to_string().contains(&std::process::id().to_string()), "{busy}");
    first.close().await.unwrap();
    assert_eq!(first.inbox().enqueue(message()).await.unwrap_err().kind(), Kind::Closed);
    let second = Oncebox::open(&url).await.unwrap();
    assert_eq!(second.inbox().enqueue(message()).await.unwrap().outcome, Outcome::Duplicate);
    assert!(!second.name().contains('?'));
}

#[tokio::test(crate = "crate::timed")]
async fn a_bad_url_or_setting_is_refused_with_what_to_do() {
    for (url, text) in [
        (
            "oracle:x",
            "no store is called `oracle`: use one of memory:, embedded:DIRECTORY, postgres://HOST/DATABASE, \
             or enable its feature",
        ),
        ("memory:here", "`memory:` takes no path: its content goes with the process"),
        (
            "memory:?messages=1",
            "no setting is called `messages`: this store knows payloads, messages_max, keys_max, live_bytes_max",
        ),
        ("memory:?keys_max=many", "keys_max is not a whole number"),
        ("memory:?keys_max", "a setting is not name=value"),
        ("postgres:here", "a store on PostgreSQL has a URL like `postgres://user@host/database`"),
        ("postgres://u:secret@h/d?ensure=perhaps", "ensure is neither `yes` nor `no`"),
        ("embedded:", "`embedded:` needs a directory, as in `embedded:./data`"),
        ("embedded://x", "`embedded://` names a host: leave the slashes out, as in `embedded:./data`"),
        ("embedded:x?durability=maybe", "durability is none of `sync`, `interval-50ms` (any number), `os`"),
        (
            "embedded:x?durability=interval-0ms",
            "durability is none of `sync`, `interval-50ms` (any number), `os`",
        ),
    ] {
        let refused = Oncebox::open(url).await.unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (Kind::Invalid, text), "{url}");
    }
    let refused = Oncebox::builder().attempts_max(0).open("memory:").await.unwrap_err();
    assert_eq!(refused.to_string(), "attempts_max must be greater than zero");
    let refused = Oncebox::builder().payload_bytes_max(usize::MAX).open("memory:").await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
}

/// What every connection has that is made from a URL.
async fn settings_hold(mut tx: Tx) -> Result<(), BoxError> {
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

/// By its URL alone: no pool, no options.
/// Holds: CMD-08, IBX-114.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread")]
async fn an_inbox_on_postgres_is_opened_by_its_url() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let message = || Message::new("t", "test", "1").text("kept");
    let first = Oncebox::open(&format!("{}?ensure=yes&schema=my+inbox", database.url())).await.unwrap();
    let place =
        database.url().rsplit_once('@').map(|(_, place)| format!("postgres://{place}?schema=my inbox"));
    assert_eq!(Some(first.name()), place.as_deref());
    assert_eq!(first.inbox().enqueue(message()).await.unwrap().outcome, Outcome::Accepted);
    let second = Oncebox::open(&format!("{}?schema=my+inbox&connections=4", database.url())).await.unwrap();
    assert_eq!(second.inbox().enqueue(message()).await.unwrap().outcome, Outcome::Duplicate);
    let handled = Worker::new(&second).on("t", settings_hold).run_until_idle().await.unwrap().handled;
    assert_eq!(handled, 1, "what a handler asks for is as the guide says");
    for oncebox in [first, second] {
        oncebox.close().await.unwrap();
    }
}
