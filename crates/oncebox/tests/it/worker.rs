//! Handlers and the outcomes of their messages.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use oncebox::{
    Backoff, Bytes, Context, Failure, Json, Message, MessageState, Oncebox, State, Text, Worker,
    WorkerSummary,
    message::DeadReason,
    worker::{FromState, Growth, Handler, Jitter, Route},
};
use serde::Deserialize;
use tokio::sync::{Semaphore, watch};

use super::fixture::on_every_store;
use crate::timed::until;

/// What handlers recorded, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn counts(stopped: WorkerSummary) -> [u64; 3] {
    [stopped.handled, stopped.retrying, stopped.dead]
}

/// Holds: IBX-021, IBX-073.
#[test]
fn each_topic_goes_to_its_handler_and_topics_differ_by_case() {
    on_every_store(async |fixture| {
        let seen = Seen::default();
        for (topic, id) in [("Order.Created", "1"), ("order.created", "2"), ("order.paid", "3")] {
            fixture.enqueue(topic, id).await;
        }
        let stopped = Worker::new(&fixture.oncebox)
            .with_state(seen.clone())
            .on("Order.Created", async |State(seen): State<Seen>, id: Text| {
                seen.push(format!("Upper {}", id.0));
            })
            .on("order.created", async |State(seen): State<Seen>, id: Text| {
                seen.push(format!("lower {}", id.0));
            })
            .run_until_idle()
            .await
            .unwrap();
        let mut handled = seen.take();
        handled.sort();
        assert_eq!(handled, ["Upper 1", "lower 2"]);
        assert_eq!(counts(stopped), [2, 0, 0]);
        assert_eq!(fixture.show("2").await.state, MessageState::Done);
        let left = fixture.show("3").await;
        assert_eq!(
            (left.state, left.deliveries),
            (MessageState::Processing, 0),
            "left for a worker that handles it"
        );
    });
}

/// Holds: IBX-076.
#[test]
fn a_handler_sees_all_fields_of_the_message_and_its_delivery() {
    on_every_store(async |fixture| {
        let sent = Message::new("t", "test", "1")
            .text("payload")
            .attribute("region", "eu")
            .correlation("story")
            .hash("sha256", &[1; 32])
            .partition("p")
            .due_in(Duration::from_secs(1))
            .expires_in(Duration::from_secs(60));
        fixture.oncebox.inbox().enqueue(sent).await.unwrap();
        fixture.advance(Duration::from_secs(1));
        let seen = Seen::default();
        let failing = async |State(seen): State<Seen>, message: Message, context: Context, bytes: Bytes| {
            assert_eq!((message.topic(), message.source(), message.id()), ("t", "test", "1"));
            assert_eq!((message.payload(), &bytes), (&Bytes::from("payload"), &context.payload()));
            assert_eq!(message.attributes().get("region"), Some("eu"));
            assert_eq!(context.attributes(), message.attributes());
            assert_eq!(message.trace().correlation(), Some("story"));
            assert_eq!(context.trace(), message.trace());
            assert_eq!(message.sender_hash().unwrap().as_bytes(), [1; 32]);
            assert_eq!(message.partition_key(), Some("p"));
            assert_eq!(message.due(), Some(context.first_seen().after(Duration::from_secs(1))));
            assert!(message.expires() > message.due() && context.last_seen() >= context.first_seen());
            assert_eq!((context.topic(), context.source(), context.id()), ("t", "test", "1"));
            assert!(!context.is_cancelled());
            seen.push(format!("{} {} {:?}", context.attempts(), context.delivery(), context.last_error()));
            match context.attempts() {
                0 => Err(Failure::retry("not yet")),
                _ => Ok(()),
            }
        };
        let worker = || Worker::new(&fixture.oncebox).with_state(seen.clone()).on("t", failing);
        assert_eq!(counts(worker().run_until_idle().await.unwrap()), [0, 1, 0]);
        fixture.advance(Duration::from_secs(2));
        assert_eq!(counts(worker().run_until_idle().await.unwrap()), [1, 0, 0]);
        assert_eq!(seen.take(), ["0 1 None", "1 2 Some(\"not yet\")"]);
    });
}

/// Holds: IBX-075, IBX-080, IBX-081, IBX-082, RULE-10.
#[test]
fn a_failed_message_is_retried_according_to_its_backoff() {
    on_every_store(async |fixture| {
        for id in ["default", "route", "handler"] {
            fixture.enqueue(id, id).await;
        }
        let fixed = Backoff::new(Duration::from_secs(7), Duration::from_secs(7), Growth::Fixed, Jitter::None);
        let fail = async || Err::<(), _>(std::io::Error::other("disk on fire"));
        let fail_with_delay = async || Err::<(), _>(Failure::retry_after(Duration::from_secs(9), "busy"));
        let stopped = Worker::new(&fixture.oncebox)
            .on("default", fail)
            .route(Route::new("route", fail).backoff(fixed.unwrap()))
            .on("handler", fail_with_delay)
            .run_until_idle()
            .await
            .unwrap();
        assert_eq!(counts(stopped), [0, 3, 0]);
        for (id, seconds, error) in [
            ("default", 2, "std::io::error::Error: disk on fire"),
            ("route", 7, "std::io::error::Error: disk on fire"),
            ("handler", 9, "busy"),
        ] {
            let found = fixture.show(id).await;
            assert_eq!((found.state, found.attempts), (MessageState::Processing, 1));
            assert_eq!(found.retry_at.unwrap().since(found.accepted_at), Duration::from_secs(seconds));
            assert_eq!(found.last_error.unwrap().as_str(), error);
        }
    });
}

/// The limit of the sender applies; otherwise that of the route, of the worker, and finally the default of ten.
/// Holds: IBX-083, IBX-084, RULE-07.
#[test]
fn a_message_is_dead_when_its_attempts_are_used_up() {
    on_every_store(async |fixture| {
        for id in ["worker", "topic", "default"] {
            fixture.enqueue(id, id).await;
        }
        let sender = Oncebox::builder().clock(fixture.clock.clone()).attempts_max(2);
        let sender = sender.on(fixture.store.clone()).unwrap();
        sender.inbox().enqueue(Message::new("topic", "test", "sender").text("x")).await.unwrap();
        let fail = async || Err::<(), _>("no");
        let strict = || {
            let topic = Route::new("topic", fail).attempts_max(1);
            Worker::new(&fixture.oncebox).on("worker", fail).route(topic).attempts_max(3)
        };
        let default = || Worker::new(&fixture.oncebox).on("default", fail);
        let mut tried = 0;
        while fixture.show("default").await.dead.is_none() {
            strict().run_until_idle().await.unwrap();
            default().run_until_idle().await.unwrap();
            fixture.advance(Duration::from_secs(60));
            tried += 1;
            assert!(tried <= 10, "the default limit applies if no other is set");
        }
        for (id, attempts) in [("topic", 1), ("sender", 2), ("worker", 3), ("default", 10)] {
            let dead = fixture.show(id).await;
            assert_eq!((dead.dead, dead.attempts), (Some(DeadReason::Exhausted), attempts), "{id}");
            assert_eq!(dead.last_error.unwrap().as_str(), "no", "{id}");
        }
    });
}

/// A worker that crashes cannot report a failure; the attempt limit in its claim still applies.
/// Holds: IBX-083, CMD-16, RULE-07.
#[test]
fn a_message_that_crashes_its_worker_is_dead_at_the_workers_attempt_limit() {
    on_every_store(async |fixture| {
        fixture.enqueue("topic", "1").await;
        let mut started = 0;
        while fixture.show("1").await.dead.is_none() {
            let hang = async || std::future::pending::<Result<(), String>>().await;
            let worker =
                Worker::new(&fixture.oncebox).on("topic", hang).attempts_max(3).without_maintenance();
            let worker = tokio::spawn(worker.run_until_idle());
            started += 1;
            assert!(started <= 3, "no more attempts than the worker's limit");
            while fixture.show("1").await.lease().is_none() {
                tokio::task::yield_now().await;
            }
            // The worker crashes: no settlement, no heartbeat.
            worker.abort();
            assert!(worker.await.unwrap_err().is_cancelled());
            fixture.advance(Duration::from_secs(30));
        }
        let dead = fixture.show("1").await;
        assert_eq!((started, dead.attempts, dead.dead), (3, 3, Some(DeadReason::Exhausted)));
    });
}

#[derive(Deserialize)]
struct Payment {
    cents: u64,
}

/// Errors must not quote the payload, because they appear in logs and listings.
/// Holds: IBX-075, IBX-127.
#[test]
fn an_undecodable_message_is_dead_and_its_error_quotes_no_payload() {
    on_every_store(async |fixture| {
        let inbox = fixture.oncebox.inbox();
        for (id, payload) in
            [("good", r#"{"cents":1}"#), ("type", r#"{"cents":"secret"}"#), ("text", "secret")]
        {
            inbox.enqueue(Message::new("pay", "test", id).text(payload)).await.unwrap();
        }
        inbox.enqueue(Message::new("read", "test", "bytes").bytes(vec![b's', 0xFF])).await.unwrap();
        let stopped = Worker::new(&fixture.oncebox)
            .on("pay", async |Json(payment): Json<Payment>| assert_eq!(payment.cents, 1))
            .on("read", async |Text(_): Text| {})
            .run_until_idle()
            .await
            .unwrap();
        assert_eq!(counts(stopped), [1, 0, 3]);
        for (id, error) in [
            ("type", "payload does not match the type that its handler expects (at line 1 column 17)"),
            ("text", "payload is not JSON (at line 1 column 1)"),
            ("bytes", "payload is not UTF-8 (at byte 1)"),
        ] {
            let dead = fixture.show(id).await;
            assert_eq!(dead.dead, Some(DeadReason::Undecodable));
            assert_eq!(dead.last_error.unwrap().as_str(), error);
        }
    });
}

/// Holds: IBX-075.
#[test]
fn a_panic_is_a_failure_and_a_handler_can_dead_letter_its_message() {
    on_every_store(async |fixture| {
        fixture.enqueue("panic", "1").await;
        fixture.enqueue("dead", "2").await;
        let stopped = Worker::new(&fixture.oncebox)
            .on("panic", async |text: Text| assert!(text.0.is_empty(), "out of {}", "cheese"))
            .on("dead", async || Err::<(), _>(Failure::dead("never")))
            .run_until_idle()
            .await
            .unwrap();
        assert_eq!(counts(stopped), [0, 1, 1]);
        assert_eq!(fixture.show("1").await.last_error.unwrap().as_str(), "panic: out of cheese");
        assert_eq!(fixture.show("2").await.dead, Some(DeadReason::Failed));
    });
}

#[test]
fn a_worker_with_invalid_settings_does_not_start() {
    on_every_store(async |fixture| {
        let worker = || Worker::new(&fixture.oncebox).on("t", async || {});
        for (worker, text) in [
            (Worker::new(&fixture.oncebox), "handlers must not be empty: add at least one with `on`"),
            (worker().on("t", async || {}), "topic `t` has two handlers: a topic can have only one"),
            (worker().on("", async || {}), "topic is empty: give at least one character"),
            (worker().concurrency(0), "concurrency must be greater than zero"),
            (worker().batch(0), "batch size must be greater than zero"),
            (worker().lease(Duration::ZERO), "lease must be greater than zero"),
            (worker().attempts_max(0), "attempts_max must be greater than zero"),
            (worker().timeout(Duration::ZERO), "timeout must be greater than zero"),
            (
                worker().route(Route::new("u", async || {}).concurrency(0)),
                "concurrency of a topic must be greater than zero",
            ),
            (
                worker().route(Route::new("u", async || {}).per_second(-1.0)),
                "rate of a topic must be greater than zero",
            ),
        ] {
            assert_eq!(worker.run_until_idle().await.unwrap_err().to_string(), text);
        }
    });
}

struct Mailer(Seen);

#[async_trait]
impl Handler for Mailer {
    fn topic(&self) -> &'static str {
        "mail"
    }

    async fn handle(&self, message: Message, context: Context) -> Result<(), Failure> {
        self.0.push(format!("{} {}", message.id(), context.delivery()));
        // A follow-up message goes back into the inbox.
        let receipt = Message::new("mail.sent", "mailer", message.id());
        context.inbox().enqueue(receipt).await?;
        Ok(())
    }
}

#[test]
fn a_handler_object_can_enqueue_follow_up_messages() {
    on_every_store(async |fixture| {
        let seen = Seen::default();
        fixture.enqueue("mail", "1").await;
        let stopped = Worker::new(&fixture.oncebox)
            .handler(Mailer(seen.clone()))
            .on("mail.sent", async || {})
            .run_until_idle()
            .await
            .unwrap();
        assert_eq!((seen.take(), stopped.handled), (vec!["1 1".to_owned()], 2));
    });
}

#[derive(Clone)]
struct App {
    seen: Seen,
    region: Region,
}

#[derive(Clone)]
struct Region(&'static str);

impl FromState<App> for Region {
    fn from_state(app: &App) -> Self {
        app.region.clone()
    }
}

#[test]
fn a_handler_can_extract_a_part_of_the_state() {
    on_every_store(async |fixture| {
        let seen = Seen::default();
        fixture.enqueue("t", "1").await;
        let app = App { seen: seen.clone(), region: Region("eu") };
        let handler = async |State(app): State<App>, State(region): State<Region>| app.seen.push(region.0);
        Worker::new(&fixture.oncebox).with_state(app).on("t", handler).run_until_idle().await.unwrap();
        assert_eq!(seen.take(), ["eu"]);
    });
}

/// Makes each handler wait for a permit, and records the maximum number of concurrent handlers.
#[derive(Clone)]
struct Gate {
    permits: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Gate {
    fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), running: Arc::default(), most: Arc::default() }
    }

    async fn pass(&self) {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Holds: IBX-079.
#[test]
fn concurrency_is_limited_per_worker_and_per_topic() {
    on_every_store(async |fixture| {
        for id in 0..20 {
            fixture.enqueue(if id < 10 { "narrow" } else { "wide" }, &id.to_string()).await;
        }
        let (narrow, wide) = (Gate::new(), Gate::new());
        let both = (narrow.clone(), wide.clone());
        let worker = Worker::new(&fixture.oncebox)
            .with_state(both)
            .route(
                Route::new("narrow", async |State((narrow, _)): State<(Gate, Gate)>| narrow.pass().await)
                    .concurrency(2),
            )
            .on("wide", async |State((_, wide)): State<(Gate, Gate)>| wide.pass().await)
            .concurrency(5)
            .start()
            .unwrap();
        until("five handlers run", async || {
            narrow.running.load(Ordering::SeqCst) + wide.running.load(Ordering::SeqCst) >= 5
        })
        .await;
        narrow.permits.add_permits(10);
        wide.permits.add_permits(10);
        let operator = fixture.oncebox.operator("t");
        until("all are handled", async || operator.counts(None).await.unwrap().done >= 20).await;
        let stopped = worker.stop().await.unwrap();
        assert_eq!(stopped.handled, 20);
        assert_eq!(narrow.most.load(Ordering::SeqCst), 2);
        let most = wide.most.load(Ordering::SeqCst);
        assert!((3..=5).contains(&most), "{most}");
    });
}

/// Holds: IBX-105, IBX-106.
#[test]
fn two_workers_share_the_work_and_no_message_is_handled_twice() {
    on_every_store(async |fixture| {
        let seen = Seen::default();
        for id in 0..200 {
            fixture.enqueue("t", &id.to_string()).await;
        }
        // No handler finishes before both workers have started one; otherwise one worker could handle everything.
        let both = Arc::new(watch::Sender::new(0));
        let worker = || {
            let (seen, both, started) = (seen.clone(), both.clone(), Arc::new(AtomicBool::new(false)));
            Worker::new(&fixture.oncebox).on("t", move |id: Text| {
                let (seen, both, mut workers) = (seen.clone(), both.clone(), both.subscribe());
                if !started.swap(true, Ordering::SeqCst) {
                    both.send_modify(|count| *count += 1);
                }
                async move {
                    workers.wait_for(|count| *count == 2).await.unwrap();
                    drop(both);
                    seen.push(id.0);
                }
            })
        };
        let (one, two) = tokio::join!(worker().run_until_idle(), worker().run_until_idle());
        let (one, two) = (one.unwrap().handled, two.unwrap().handled);
        assert_eq!(one + two, 200);
        assert!(one > 0 && two > 0, "{one} and {two}");
        let mut handled = seen.take();
        handled.sort();
        handled.dedup();
        assert_eq!(handled.len(), 200);
    });
}

/// Holds: RULE-11.
#[test]
fn one_message_of_a_partition_is_handled_at_a_time_in_order() {
    on_every_store(async |fixture| {
        let seen = Seen::default();
        for id in 0..10 {
            let message = Message::new("t", "test", id.to_string()).text(id.to_string()).partition("p");
            fixture.oncebox.inbox().enqueue(message).await.unwrap();
        }
        let handler = async |State(seen): State<Seen>, id: Text| {
            seen.push(format!("+{}", id.0));
            tokio::task::yield_now().await;
            seen.push(format!("-{}", id.0));
        };
        let worker = Worker::new(&fixture.oncebox).with_state(seen.clone()).on("t", handler);
        assert_eq!(worker.run_until_idle().await.unwrap().handled, 10);
        let expected: Vec<_> = (0..10).flat_map(|id| [format!("+{id}"), format!("-{id}")]).collect();
        assert_eq!(seen.take(), expected);
    });
}

/// The newer content is never lost.
/// Holds: RULE-08.
#[test]
fn a_message_replaced_while_it_is_handled_is_delivered_again() {
    on_every_store(async |fixture| {
        let seen = Seen::default();
        fixture.enqueue("t", "1").await;
        let handler = async |State(seen): State<Seen>, text: Text, context: Context| {
            seen.push(text.0);
            if context.delivery() == 1 {
                let newer = Message::new("t", "test", "1").text("newer");
                let _ = context.inbox().enqueue(newer).await.unwrap();
            }
        };
        let worker = Worker::new(&fixture.oncebox).with_state(seen.clone()).on("t", handler);
        let stopped = worker.run_until_idle().await.unwrap();
        assert_eq!((stopped.handled, stopped.superseded), (1, 1));
        assert_eq!(seen.take(), ["1", "newer"]);
    });
}

#[derive(Clone)]
struct Counting<S>(S, Seen);

impl<S: tower::Service<Context>> tower::Service<Context> for Counting<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, task: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, context: Context) -> S::Future {
        self.1.push(context.topic());
        self.0.call(context)
    }
}

#[test]
fn tower_layers_wrap_every_handler() {
    on_every_store(async |fixture| {
        for topic in ["good", "dead", "slow"] {
            fixture.enqueue(topic, topic).await;
        }
        let seen = Seen::default();
        let layer_seen = seen.clone();
        let stopped = Worker::new(&fixture.oncebox)
            .on("good", async || {})
            .on("dead", async || Err::<(), _>(Failure::dead("never")))
            .layer(tower::timeout::TimeoutLayer::new(Duration::from_millis(1)))
            .layer(tower::layer::layer_fn(move |service| Counting(service, layer_seen.clone())))
            .on("slow", async || std::future::pending::<()>().await)
            .run_until_idle()
            .await
            .unwrap();
        assert_eq!(counts(stopped), [1, 1, 1]);
        let mut topics = seen.take();
        topics.sort();
        assert_eq!(topics, ["dead", "good", "slow"]);
        assert_eq!(
            fixture.show("dead").await.dead,
            Some(DeadReason::Failed),
            "the failure action passes through the layers"
        );
        let slow = fixture.show("slow").await.last_error.unwrap();
        assert!(slow.as_str().contains("timed out"), "{slow:?}");
    });
}

/// Holds: IBX-102.
#[test]
fn more_topics_than_fit_in_one_claim_are_all_served() {
    on_every_store(async |fixture| {
        let mut worker = Worker::new(&fixture.oncebox).concurrency(3);
        for topic in 0..150 {
            fixture.enqueue(&format!("topic-{topic}"), &topic.to_string()).await;
            worker = worker.on(format!("topic-{topic}"), async || {});
        }
        let stopped = worker.run_until_idle().await.unwrap();
        let counts = fixture.oncebox.operator("t").counts(None).await.unwrap();
        assert_eq!((stopped.handled, counts.done), (150, 150), "{stopped:?} {counts:?}");
    });
}
