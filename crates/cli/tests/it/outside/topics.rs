//! The topic listing for operators.

use serde_json::{Value, json};

use super::http::{Connection, Request};
use super::mailbox_client::{NOTHING, base64, text, texts, timestamp_ms};
use super::rig::{Server, new_storage, on_durable_stores, on_every_store};

const QUICK: [&str; 2] = ["mailbox.topic.attempts_max=1", "mailbox.topic.backoff_base=1ms"];

fn listed(server: &Server, path: &str) -> Vec<Value> {
    server.get(path).ok()["topics"].as_array().expect("a list").clone()
}

fn numbers(topic: &Value) -> Value {
    json!([topic["ready"], topic["waiting"], topic["in_flight"], topic["dead"]])
}

#[test]
fn topics_are_listed_with_their_counts() {
    on_every_store(&QUICK, |server| {
        assert_eq!(listed(&server, "/v1/admin/topics"), NOTHING);
        for idem_key in ["1", "2", "3"] {
            server.sent("a/1", idem_key);
        }
        let held = server.recv_one("a/1");
        server.sent("b", "4");
        server.fail("b", 1);
        server.sent("done", "5");
        let done = server.recv_one("done");
        server.ack(text(&done, "receipt")).ok();
        let topics = listed(&server, "/v1/admin/topics");
        assert_eq!(
            texts(&topics, "topic"),
            ["a/1", "b"],
            "topics with only finished messages are not listed"
        );
        assert_eq!(numbers(&topics[0]), json!([2, 0, 1, 0]));
        assert_eq!(numbers(&topics[1]), json!([0, 0, 0, 1]));
        let second = listed_messages(&server);
        assert_eq!(topics[0]["oldest_at"], second, "the first ready message");
        assert!(timestamp_ms(text(&topics[0], "oldest_at")) >= server.accepted_ms(&held));
        assert!(topics[0]["oldest_age_ms"].is_u64() && topics[1].get("oldest_at").is_none(), "{topics:?}");
        let rates = |topic: &Value| json!([topic["accepted_last_minute"], topic["delivered_last_minute"]]);
        assert_eq!((rates(&topics[0]), rates(&topics[1])), (json!([3, 1]), json!([1, 1])));
        assert_eq!(topics[0]["estimated"], false);
        assert_eq!(listed(&server, "/v1/admin/topics?topic=b")[0]["dead"], 1);
        assert_eq!(texts(&listed(&server, "/v1/admin/topics?topic=a%2F1"), "topic"), ["a/1"]);
        assert_eq!(listed(&server, "/v1/admin/topics?topic=a"), NOTHING);
        // There is at most one result, so limit and cursor have no effect.
        assert_eq!(texts(&listed(&server, "/v1/admin/topics?topic=b&limit=1&after=c"), "topic"), ["b"]);
        assert_eq!(listed(&server, "/v1/admin/topics?namespace=inbox"), NOTHING);
        assert!(topics[0].get("workers").is_none(), "the receiver gave no name: {topics:?}");
        server.post("/v1/recv", &json!({"topic": "a/1", "worker": "billing-1", "max_messages": 1})).ok();
        assert_eq!(listed(&server, "/v1/admin/topics?topic=a%2F1")[0]["workers"], json!(["billing-1"]));
        let admin =
            Connection::tcp(&server.admin_address()).call(&Request::get("/v1/admin/topics?topic=b")).ok();
        assert_eq!(admin["topics"][0]["dead"], 1, "the operator address serves it, too");
    });
}

/// The acceptance time of the first ready message of `a/1`.
fn listed_messages(server: &Server) -> Value {
    let messages = server.get("/v1/admin/messages?topic=a%2F1&state=processing").ok();
    let free = messages["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|message| message.get("lease").is_none());
    free.expect("one is not held")["accepted_at"].clone()
}

/// The rates of a topic without activity since the start are zero.
#[test]
fn rates_restart_at_zero_after_a_restart() {
    on_durable_stores(|store| {
        let storage = new_storage();
        let server = Server::start_in(storage.clone(), store, &[]);
        server.sent("t", "1");
        assert_eq!(listed(&server, "/v1/admin/topics")[0]["accepted_last_minute"], 1);
        server.stop();
        let server = Server::start_in(storage, store, &[]);
        let topics = listed(&server, "/v1/admin/topics");
        assert_eq!((&topics[0]["ready"], &topics[0]["accepted_last_minute"]), (&json!(1), &json!(0)));
    });
}

#[test]
fn thousands_of_topics_are_listed_page_by_page() {
    on_every_store(&[], |server| {
        let name = |number: usize| format!("t{number}");
        let message =
            |number: usize| json!({"topic": name(number), "idem_key": "k", "payload_b64": base64("x")});
        for numbers in [0..1_000, 1_000..1_500] {
            let batch: Vec<_> = numbers.map(message).collect();
            server.post("/v1/queues/mailbox/send", &json!({ "messages": batch })).ok();
        }
        let mut sorted: Vec<_> = (0..1_500).map(name).collect();
        sorted.sort();
        for (path, pages_min) in [("/v1/admin/topics", 15), ("/v1/admin/topics?limit=400", 4)] {
            let (mut found, mut after, mut pages) = (Vec::new(), String::new(), 0);
            loop {
                let page = server.get(&format!("{path}{after}")).ok();
                pages += 1;
                found.extend(page["topics"].as_array().expect("a list").clone());
                let Some(next) = page["next"].as_str() else { break };
                after = format!("{}after={next}", if path.contains('?') { '&' } else { '?' });
            }
            assert!(texts(&found, "topic") == sorted, "{path}: {} topics", found.len());
            assert!(pages >= pages_min, "{path}: {pages} pages");
            assert!(found.iter().all(|topic| numbers(topic) == json!([1, 0, 0, 0])), "{path}");
        }
        // Rates are only known for topics with their own metrics.
        let unknown = |topic: &&Value| topic.get("accepted_last_minute").is_none();
        assert!(listed(&server, "/v1/admin/topics?limit=100").iter().filter(unknown).count() > 30);
    });
}

#[test]
fn an_invalid_topic_query_is_refused_with_the_parameter_name() {
    on_every_store(&[], |server| {
        for (query, named) in [
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=x", "limit"),
            ("topic=", "topic"),
            ("topic=a&limit=0", "limit"),
            ("topic=a&after=", "after"),
            ("after=", "after"),
            ("namespace=odd", "namespace"),
            ("odd=1", "topic"),
        ] {
            let reply = server.get(&format!("/v1/admin/topics?{query}")).refused(400, "E_SCHEMA");
            assert!(reply.contains(named), "{query}: {reply}");
        }
    });
}
