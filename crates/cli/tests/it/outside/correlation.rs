//! Correlation ids: log lines about a message have the id that it was sent with.

use serde_json::{Value, json};

use super::mailbox_client::{base64, text};
use super::rig::{Server, on_every_store};

const FIRST: &str = "01890a5d-ac96-774b-bcce-b302099a8051";
const AGAIN: &str = "01890a5d-ac96-774b-bcce-b302099a8052";
const OTHER: &str = "01890a5d-ac96-774b-bcce-b302099a8053";

fn send(server: &Server, corr_id: &str, payload: &str) {
    let message = json!({"topic": "t", "idem_key": "k", "payload_b64": base64(payload), "corr_id": corr_id});
    server.post("/v1/send", &message);
}

/// The log line with this message, as JSON.
#[track_caller]
fn line(server: &Server, says: &str) -> Value {
    let line = server.wait_for_line(&format!("\"message\":\"{says}\""));
    serde_json::from_str(&line).expect("a line is JSON")
}

/// Holds: MBX-P-8.
#[test]
fn every_line_about_a_message_has_its_correlation_id() {
    let set = [
        "mailbox.topic.attempts_max=2",
        "mailbox.topic.backoff_base=1ms",
        "mailbox.topic.backoff_max=5ms",
        "log.level=debug",
    ];
    on_every_store(&set, |server| {
        send(&server, FIRST, "a");
        send(&server, AGAIN, "a");
        send(&server, OTHER, "b");
        server.fail("t", 2);
        server.post("/v1/dlq/reprocess", &json!({"topic": "t"})).ok();
        let received = server.recv_one("t");
        assert_eq!(received["corr_id"], FIRST);
        server.ack(text(&received, "msg_id")).refused(409, "E_RECEIPT");
        let more = json!({"visibility_ms": 60_000});
        server.post(&format!("/v1/extend/{}", text(&received, "receipt")), &more).ok();
        server.ack(text(&received, "receipt")).ok();
        for says in [
            "accepted",
            "delivered",
            "not acknowledged: will be redelivered",
            "dead-lettered",
            "extended",
            "acknowledged",
        ] {
            assert_eq!(line(&server, says)["corr_id"], FIRST, "{says}");
        }
        for (says, corr_id) in
            [("duplicate", AGAIN), ("idempotency key reused with a different payload", OTHER)]
        {
            let line = line(&server, says);
            assert_eq!(
                (&line["corr_id"], &line["first_corr_id"]),
                (&json!(corr_id), &json!(FIRST)),
                "{says}"
            );
        }
        let audit: Value =
            serde_json::from_str(&server.wait_for_line("mailbox.message.revived")).expect("JSON");
        assert_eq!(audit["corr_id"], FIRST);
        // Every line with the topic of a message is about a message.
        let log = server.log();
        for line in log.lines().filter(|line| line.contains("\"topic\":\"t\"")) {
            assert!(line.contains("\"corr_id\":\""), "{line}");
        }
    });
}
