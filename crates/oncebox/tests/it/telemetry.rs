//! Logs, metrics and traces, and what they must never contain.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use oncebox::telemetry::{TRACE_PARENT, TraceContext, names};
use oncebox::{Failure, Message, Oncebox, Text, Worker};
use oncebox_testkit::servers::Postgres;
use tracing::{Level, Span};

use super::capture::Capture;
use super::fixture::{Directory, on_every_store};

/// Holds: IBX-008, IBX-107, IBX-108, IBX-109, IBX-110, IBX-111, IBX-112.
#[test]
fn events_are_logged_at_their_level_with_the_store_name() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        let inbox = fixture.oncebox.inbox();
        inbox.already_processed_with_hash("test", "1", ("sha256", &[1; 32])).await.unwrap();
        inbox.already_processed_with_hash("test", "1", ("sha256", &[2; 32])).await.unwrap();
        fixture.enqueue("t", "1").await;
        let worker =
            Worker::new(&fixture.oncebox).on("t", async || Err::<(), _>(Failure::retry("why it failed")));
        worker.without_maintenance().run_until_idle().await.unwrap();
        fixture.enqueue("u", "2").await;
        let queue = fixture.oncebox.queue();
        queue.claim(queue.new_owner(), Duration::from_secs(1), 1).await.unwrap();
        fixture.advance(Duration::from_secs(1));
        fixture.oncebox.maintenance().run_once().await.unwrap();
        let store = format!("store={}", fixture.oncebox.name());
        for (level, texts) in [
            (Level::DEBUG, ["checked for a duplicate", "source=test id=1", "processed=false"]),
            (Level::WARN, ["duplicate message has different content", "source=test id=1", ""]),
            (Level::INFO, ["enqueued", "topic=t source=test id=1", "outcome=Accepted"]),
            (Level::DEBUG, ["claimed", "claimed=1", "owner="]),
            (Level::INFO, ["reaped", "reaped=1", ""]),
        ] {
            let lines = capture.find(level, &[texts[0], texts[1], texts[2], &store]);
            assert!(!lines.is_empty(), "{level} {texts:?} in {:#?}", capture.lines());
        }
        let span =
            capture.find(Level::INFO, &["oncebox.handle", "topic=t", "source=test", "id=1", "attempt=0"]);
        assert_eq!(span.len(), 1);
        assert_eq!(capture.find(Level::INFO, &["message=handling", "in=oncebox.handle"]).len(), 1);
        let errors = capture.find(Level::ERROR, &["handler failed", "why it failed", "in=oncebox.handle"]);
        assert_eq!(errors.len(), 1);
    });
}

/// The lines and spans that are logged while one message is handled.
async fn logged(oncebox: &Oncebox) -> Vec<String> {
    let (capture, _guard) = Capture::start();
    oncebox.inbox().enqueue(Message::new("t", "test", "1")).await.unwrap();
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let stop = std::sync::Mutex::new(Some(stop));
    let handler = move || {
        drop(stop.lock().unwrap().take());
        async {}
    };
    let worker = Worker::new(oncebox).on("t", handler).lease(Duration::from_secs(9)).batch(101);
    worker.run(async { drop(stopping.await) }).await.unwrap();
    oncebox.close().await.unwrap();
    capture.lines().into_iter().map(|(_, line)| line).filter(|line| line.starts_with("oncebox")).collect()
}

/// Holds: IBX-113.
#[tokio::test(crate = "crate::timed")]
async fn every_log_line_identifies_its_store_by_a_default_name() {
    let server = Postgres::shared().unwrap();
    let databases = [server.lend_database().unwrap(), server.lend_database().unwrap()];
    let [one, two] = databases.each_ref().map(|database| format!("{}?ensure=yes", database.url()));
    let (first, second) = (Directory::new(), Directory::new());
    let schema = format!("{one}&schema=other&password=hush");
    let urls = [one, two, schema, "memory:".to_owned(), "memory:?keys_max=9".to_owned()];
    let directories =
        [&first, &second].map(|directory| format!("embedded:{}?durability=os", directory.0.display()));
    let mut names = std::collections::BTreeSet::new();
    for url in urls.iter().chain(&directories) {
        let oncebox = Oncebox::open(url).await.unwrap();
        let name = oncebox.name().to_owned();
        let address = url.split_once('?').map_or(&**url, |(address, _)| address);
        // The part after user and password, for a store on a server.
        let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
        assert!(name.contains(address) || name.starts_with("memory-"), "{name} is at {address}");
        assert!(!name.contains("hush") && !name.contains("ensure") && !name.contains("durability"), "{name}");
        let lines = logged(&oncebox).await;
        for text in
            ["oncebox.worker", "oncebox.maintenance", "oncebox.handle", "lease is outside", "worker started"]
        {
            assert!(lines.iter().any(|line| line.contains(text)), "{text} in {lines:#?}");
        }
        for line in lines {
            // Events inside a handler span need not repeat the store.
            let has_store =
                line.contains(&format!("store={name}")) || line.contains(&format!("store=\"{name}\""));
            assert!(has_store || line.contains("in=oncebox.handle"), "{name}: {line}");
        }
        assert!(names.insert(name), "{names:?}");
    }
    let stores = [1, 2].map(|seed| {
        let clock = Arc::new(oncebox_testkit::ManualClock::default());
        let rng = Box::new(oncebox_testkit::SplitMix::new(seed));
        let store = oncebox_store_memory::MemoryStore::with(
            oncebox_store_memory::MemoryOptions::default(),
            clock,
            rng,
        );
        Oncebox::builder().on(Arc::new(store)).unwrap()
    });
    assert_ne!(stores[0].name(), stores[1].name(), "stores passed to the builder are numbered");
}

/// A store that is passed to the builder has the same name as if it were opened by URL.
/// Holds: IBX-113.
#[tokio::test(crate = "crate::timed")]
async fn a_store_passed_by_pool_has_the_same_name_as_one_opened_by_url() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let opened = Oncebox::open(&format!("{}?ensure=yes", database.url())).await.unwrap();
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    let store = oncebox::postgres::PostgresStore::new(pool, &oncebox::postgres::PostgresOptions::default());
    let passed = Oncebox::builder().on_postgres(Arc::new(store)).unwrap();
    assert_eq!(passed.name(), opened.name());
    assert_eq!(Oncebox::builder().name("mine").open("memory:").await.unwrap().name(), "mine");
}

/// Holds: IBX-127, RULE-22.
#[test]
fn no_payload_and_no_attribute_is_ever_logged() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        let inbox = fixture.oncebox.inbox();
        for (topic, id) in [("ok", "1"), ("fail", "2"), ("json", "3"), ("none", "4"), ("dead", "5")] {
            let message = Message::new(topic, "test", id).text("sesame").attribute("password", "sesame");
            inbox.enqueue(message.clone()).await.unwrap();
            inbox.enqueue(message.clone().text("sesame, newer")).await.unwrap();
            assert!(!format!("{message:?}").contains("sesame"));
        }
        Worker::new(&fixture.oncebox)
            .on("ok", async |text: Text| assert!(text.0.contains("sesame")))
            .on("fail", async || Err::<(), _>("no"))
            .on("json", async |_: oncebox::Json<u32>| {})
            .on("dead", async || Err::<(), _>(Failure::dead("no")))
            .on_unhandled(oncebox::worker::Unhandled::Abandon)
            .run_until_idle()
            .await
            .unwrap();
        let operator = fixture.oncebox.operator("ann");
        operator.redrive_where(&oncebox::operator::SweepFilter::dead()).await.unwrap();
        operator
            .purge(&oncebox::operator::SweepFilter::state(oncebox::MessageState::Processing))
            .await
            .unwrap();
        assert!(capture.lines().len() > 20);
        for (_, line) in capture.lines() {
            assert!(!line.contains("sesame"), "{line}");
        }
    });
}

/// Holds: IBX-008, RULE-22.
#[test]
fn outcomes_are_counted_by_topics_that_have_a_handler() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let oncebox = Oncebox::open("memory:").await.unwrap();
            let inbox = oncebox.inbox();
            for (topic, id, text) in
                [("ok", "1", "a"), ("ok", "1", "a"), ("ok", "1", "b"), ("no", "2", "a"), ("x", "3", "")]
            {
                inbox.enqueue(Message::new(topic, "test", id).text(text)).await.unwrap();
            }
            let worker = Worker::new(&oncebox).on("ok", async || {}).on("no", async || Err::<(), _>("no"));
            worker.without_maintenance().run_until_idle().await.unwrap();
        });
    });
    let mut counted: Vec<_> = snapshotter.snapshot().into_vec();
    let mut value = |name: &str, labels: &[(&str, &str)]| {
        let index = counted.iter().position(|(key, ..)| {
            let key = key.key();
            let labelled = |label: &metrics::Label| labels.contains(&(label.key(), label.value()));
            key.name() == name && key.labels().count() == labels.len() && key.labels().all(labelled)
        });
        index.map(|index| counted.swap_remove(index).3)
    };
    for (outcome, count) in [("accepted", 3), ("duplicate", 1), ("replaced", 1)] {
        assert_eq!(
            value(names::ENQUEUED, &[("outcome", outcome)]),
            Some(DebugValue::Counter(count)),
            "{outcome}"
        );
    }
    assert_eq!(value(names::DIVERGED, &[]), Some(DebugValue::Counter(1)));
    assert_eq!(value(names::SETTLED, &[("topic", "ok"), ("outcome", "done")]), Some(DebugValue::Counter(1)));
    assert_eq!(
        value(names::SETTLED, &[("topic", "no"), ("outcome", "retrying")]),
        Some(DebugValue::Counter(1))
    );
    assert!(
        matches!(value(names::HANDLER_SECONDS, &[("topic", "ok")]), Some(DebugValue::Histogram(times)) if times.len() == 1)
    );
    assert!(
        matches!(value(names::WAITED_SECONDS, &[("topic", "ok")]), Some(DebugValue::Histogram(times)) if times.len() == 1)
    );
    let labels = counted.iter().flat_map(|(key, ..)| key.key().labels());
    assert!(labels.filter(|label| label.key() == "topic").all(|label| ["ok", "no"].contains(&label.value())));
}

#[derive(Default)]
pub(crate) struct Traces(pub(crate) Mutex<Vec<String>>);

impl TraceContext for Traces {
    fn current(&self) -> Option<String> {
        Some("00-of-the-sender".to_owned())
    }

    fn child_of(&self, _: &Span, trace_parent: &str) {
        self.0.lock().unwrap().push(format!("child of {trace_parent}"));
    }

    fn link_to(&self, _: &Span, trace_parent: &str) {
        self.0.lock().unwrap().push(format!("link to {trace_parent}"));
    }
}

#[test]
fn the_first_attempt_is_a_child_of_the_senders_span_and_a_retry_links_to_it() {
    let traces = Arc::new(Traces::default());
    let set = |builder: oncebox::OnceboxBuilder| builder.trace_context(traces.clone());
    super::fixture::on_every_store_with(set, async |fixture| {
        fixture.enqueue("t", "1").await;
        let own = Message::new("t", "test", "2").attribute(TRACE_PARENT, "00-its-own");
        fixture.oncebox.inbox().enqueue(own).await.unwrap();
        let worker =
            || Worker::new(&fixture.oncebox).on("t", async || Err::<(), _>("no")).without_maintenance();
        worker().run_until_idle().await.unwrap();
        fixture.advance(Duration::from_secs(2));
        worker().run_until_idle().await.unwrap();
        let links = std::mem::take(&mut *traces.0.lock().unwrap());
        assert_eq!(
            links,
            [
                "child of 00-of-the-sender",
                "child of 00-its-own",
                "link to 00-of-the-sender",
                "link to 00-its-own"
            ]
        );
    });
}

/// Holds: IBX-119, IBX-120.
#[test]
fn unusual_worker_settings_cause_warnings() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        let worker = || Worker::new(&fixture.oncebox).on("t", async || {});
        worker().run_until_idle().await.unwrap();
        assert_eq!(capture.find(Level::WARN, &[]).len(), 0);
        worker().lease(Duration::from_secs(9)).batch(101).run_until_idle().await.unwrap();
        assert_eq!(capture.find(Level::WARN, &["lease is outside 10 to 300 s"]).len(), 1);
        assert_eq!(capture.find(Level::WARN, &["batch is over 100"]).len(), 1);
    });
}
