//! Opening by URL.

use oncebox::{Kind, Message, Oncebox, Outcome};

use super::fixture::Directory;

/// Holds: IBX-013, RULE-03, RULE-13.
#[tokio::test(flavor = "multi_thread")]
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

#[tokio::test]
async fn a_bad_url_or_setting_is_refused_with_what_to_do() {
    for (url, text) in [
        (
            "oracle:x",
            "no store is called `oracle`: use one of memory:, embedded:DIRECTORY, or enable its feature",
        ),
        ("memory:here", "`memory:` takes no path: its content goes with the process"),
        (
            "memory:?messages=1",
            "no setting is called `messages`: this store knows payloads, messages_max, keys_max, live_bytes_max",
        ),
        ("memory:?keys_max=many", "keys_max is not a whole number"),
        ("memory:?keys_max", "a setting is not name=value"),
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
