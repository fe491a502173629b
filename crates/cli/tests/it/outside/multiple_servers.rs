//! Several servers on one database: none is special, and any of them may die.

use serde_json::json;

use super::mailbox_client::{NOTHING, text};
use super::rig::{Server, Store, new_storage};

/// Holds: CMD-20, MBX-I-3, RULE-05.
#[test]
fn servers_on_one_database_are_one_mailbox() {
    let storage = new_storage();
    let [one, two] =
        [(); 2].map(|()| Server::start_in(storage.clone(), Store::Postgres, &["mailbox.shards=1"]));
    let id = one.sent("t", "1");
    let again = two.send("t", "1", "1").ok();
    assert_eq!((&again["duplicate"], text(&again, "msg_id")), (&json!(true), &*id));
    let request = json!({"topic": "t", "visibility_ms": 1_000, "wait_ms": 60_000});
    let held = one.recv_as(&request).remove(0);
    assert_eq!(two.recv("t"), NOTHING, "the other server's receiver holds it");
    one.kill();
    // The other server delivers it when the visibility timeout has ended; the late ack is refused.
    let taken = two.recv_one("t");
    assert_eq!((text(&taken, "msg_id"), &taken["attempt"]), (&*id, &json!(2)));
    two.ack(text(&held, "receipt")).refused(404, "E_LEASE_LOST");
    let third = Server::start_in(storage, Store::Postgres, &["mailbox.shards=1"]);
    assert_eq!(third.ack(text(&taken, "receipt")).ok(), json!({"ok": true}), "any server accepts the ack");
    assert_eq!(two.counts("t")["in_flight"], 0);
}
