//! The ledger API: was this key processed?

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{text, timestamp_ms};
use super::rig::{Server, on_durable_stores, on_every_store, on_own_stores};

fn begin(server: &Server, key: &str) -> Value {
    server.post("/v1/inbox/try-begin", &json!({"key": key})).ok()
}

fn mark(server: &Server, key: &str, lease_id: &str) -> Value {
    server.post("/v1/inbox/mark-processed", &json!({"key": key, "leaseId": lease_id})).ok()
}

fn release(server: &Server, key: &str, lease_id: &str) -> Value {
    server.post("/v1/inbox/release", &json!({"key": key, "leaseId": lease_id})).ok()
}

fn names(json: &Value) -> Vec<&str> {
    json.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Holds: LDG-05, LDG-06, LDG-08, LDG-09, RULE-16.
#[test]
fn a_key_is_begun_marked_processed_and_reported_as_processed() {
    on_every_store(&[], |server| {
        assert_eq!(server.get("/v1/inbox/k").ok(), json!({"status": "Unknown", "attempts": 0}));
        let begun = begin(&server, "k");
        assert_eq!(
            (text(&begun, "status"), names(&begun)),
            ("Acquired", vec!["expiresAt", "leaseId", "status"])
        );
        let entry = server.get("/v1/inbox/k").ok();
        assert_eq!((text(&entry, "status"), &entry["attempts"]), ("Busy", &json!(1)));
        assert_eq!(names(&entry), ["attempts", "firstSeen", "lastSeen", "leaseUntil", "status"]);
        assert_eq!(entry["leaseUntil"], begun["expiresAt"]);
        assert_eq!(mark(&server, "k", text(&begun, "leaseId")), json!({"status": "Processed"}));
        assert_eq!(mark(&server, "k", text(&begun, "leaseId")), json!({"status": "Processed"}), "again");
        assert_eq!(begin(&server, "k"), json!({"status": "Processed"}));
        let entry = server.get("/v1/inbox/k").ok();
        assert_eq!((text(&entry, "status"), &entry["leaseUntil"]), ("Processed", &json!(null)));
    });
}

/// Holds: LDG-05, RULE-16.
#[test]
fn a_leased_key_is_busy_even_for_the_same_owner() {
    on_every_store(&[], |server| {
        let request = json!({"key": "k", "owner": "ann"});
        let begun = server.post("/v1/inbox/try-begin", &request).ok();
        for owner in ["ann", "bob", ""] {
            let busy = server.post("/v1/inbox/try-begin", &json!({"key": "k", "owner": owner})).ok();
            assert_eq!(busy, json!({"status": "Busy", "expiresAt": begun["expiresAt"]}), "{owner}");
        }
        assert_eq!(
            server.get("/v1/inbox/k").ok()["attempts"],
            1,
            "a busy answer does not count as an attempt"
        );
    });
}

/// Holds: LDG-07, LDG-08, LDG-09.
#[test]
fn a_released_key_can_be_begun_again() {
    on_every_store(&[], |server| {
        let first = begin(&server, "k");
        assert_eq!(release(&server, "k", text(&first, "leaseId")), json!({"status": "Released"}));
        assert_eq!(text(&server.get("/v1/inbox/k").ok(), "status"), "Pending");
        let second = begin(&server, "k");
        assert_eq!(text(&second, "status"), "Acquired");
        assert_eq!(server.get("/v1/inbox/k").ok()["attempts"], 2);
        let late = text(&first, "leaseId");
        assert_eq!(mark(&server, "k", late), json!({"status": "LeaseLost"}));
        assert_eq!(release(&server, "k", late), json!({"status": "LeaseLost"}));
        assert_eq!(text(&server.get("/v1/inbox/k").ok(), "status"), "Busy", "the second lease is still held");
    });
}

/// Holds: LDG-06, LDG-07, LDG-09.
#[test]
fn foreign_and_invalid_lease_ids_are_lost_leases_and_change_nothing() {
    on_every_store(&[], |server| {
        let (mine, foreign) = (begin(&server, "mine"), begin(&server, "foreign"));
        let foreign = text(&foreign, "leaseId");
        for lease_id in [foreign, "", "nonsense", &"0".repeat(80), "ключ", &"x".repeat(5_000)] {
            assert_eq!(mark(&server, "mine", lease_id), json!({"status": "LeaseLost"}), "{lease_id}");
            assert_eq!(release(&server, "mine", lease_id), json!({"status": "LeaseLost"}), "{lease_id}");
            assert_eq!(mark(&server, "nobody knows it", lease_id), json!({"status": "LeaseLost"}));
        }
        assert_eq!(text(&server.get("/v1/inbox/mine").ok(), "status"), "Busy");
        assert_eq!(text(&server.get("/v1/inbox/foreign").ok(), "status"), "Busy");
        assert_eq!(text(&server.get("/v1/inbox/nobody%20knows%20it").ok(), "status"), "Unknown");
        assert_eq!(mark(&server, "mine", text(&mine, "leaseId")), json!({"status": "Processed"}));
    });
}

/// Existing clients send only the key.
/// Holds: LDG-06.
#[test]
fn a_mark_without_a_lease_id_ignores_the_lease() {
    on_every_store(&[], |server| {
        let begun = begin(&server, "held");
        for key in ["held", "never begun"] {
            for lease in [json!({"key": key}), json!({"key": key, "leaseId": null})] {
                let marked = server.post("/v1/inbox/mark-processed", &lease).ok();
                assert_eq!(marked, json!({"status": "Processed"}), "{key}");
            }
            assert_eq!(begin(&server, key), json!({"status": "Processed"}), "{key}");
        }
        assert_eq!(release(&server, "held", text(&begun, "leaseId")), json!({"status": "LeaseLost"}));
        assert_eq!(text(&server.get("/v1/inbox/held").ok(), "status"), "Processed");
    });
}

/// Holds: LDG-09, RULE-16.
#[test]
fn field_names_are_case_insensitive_and_unknown_fields_are_ignored() {
    on_every_store(&[], |server| {
        let request = json!({"KEY": "k", "Owner": "ann", "LEASESECONDS": 60, "extra": {"deep": [1]}});
        let begun = server.post("/v1/inbox/try-begin", &request).ok();
        assert_eq!(text(&begun, "status"), "Acquired");
        let mark = json!({"Key": "k", "leaseid": begun["leaseId"], "Unknown": null});
        let foreign = json!({"Key": "k", "LeaseID": "nonsense"});
        assert_eq!(server.post("/v1/inbox/mark-processed", &foreign).ok()["status"], "LeaseLost");
        assert_eq!(server.post("/v1/inbox/mark-processed", &mark).ok()["status"], "Processed");
    });
}

/// Holds: LDG-11, LDG-05.
#[test]
fn lease_durations_are_clamped_to_30_to_120_seconds() {
    on_every_store(&[], |server| {
        let leases =
            [(json!(1), 30), (json!(0), 30), (json!(75), 75), (json!(9_999), 120), (json!(null), 30)];
        for (requested, granted) in leases {
            let key = format!("requested {requested}");
            let begun =
                server.post("/v1/inbox/try-begin", &json!({"key": key, "leaseSeconds": requested})).ok();
            let entry = server.get(&format!("/v1/inbox/{}", key.replace(' ', "%20"))).ok();
            let lasts = timestamp_ms(text(&begun, "expiresAt")) - timestamp_ms(text(&entry, "firstSeen"));
            assert_eq!(lasts, granted * 1_000, "{requested}: {begun} {entry}");
        }
        let request = json!({"key": "k", "leaseSeconds": -1});
        server.post("/v1/inbox/try-begin", &request).refused(400, "E_SCHEMA");
    });
}

/// Holds: LDG-08.
#[test]
fn a_key_is_one_percent_encoded_path_segment() {
    on_every_store(&[], |server| {
        let keys = [
            ("bus:group:alias:id", "bus:group:alias:id"),
            ("bus:group:alias:id two", "bus%3Agroup%3Aalias%3Aid%20two"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252Fb"),
            ("ключ?&#+", "%D0%BA%D0%BB%D1%8E%D1%87%3F%26%23%2B"),
            ("a+b", "a+b"),
            ("try-begin", "try-begin"),
            ("mark-processed", "mark-processed"),
            ("release", "release"),
            ("..", "%2E%2E"),
        ];
        for (key, path) in keys {
            assert_eq!(text(&server.get(&format!("/v1/inbox/{path}")).ok(), "status"), "Unknown", "{key}");
            assert_eq!(text(&begin(&server, key), "status"), "Acquired", "{key}");
            assert_eq!(text(&server.get(&format!("/v1/inbox/{path}")).ok(), "status"), "Busy", "{key}");
        }
    });
}

/// Holds: LDG-09.
#[test]
fn an_unknown_key_is_not_found_if_so_configured() {
    on_every_store(&["ledger.unknown_key=not-found"], |server| {
        server.get("/v1/inbox/k").refused(404, "E_NOT_FOUND");
        server.get("/v1/inbox/try-begin").refused(404, "E_NOT_FOUND");
        server.post("/v1/inbox/mark-processed", &json!({"key": "k"})).ok();
        assert_eq!(text(&server.get("/v1/inbox/k").ok(), "status"), "Processed");
    });
}

/// Holds: LDG-09, LDG-10.
#[test]
fn blank_keys_are_refused_and_no_authentication_is_required() {
    on_own_stores(&[], |server| {
        for key in ["", " ", "\t \n"] {
            for call in ["try-begin", "mark-processed", "release"] {
                let request = json!({"key": key, "leaseId": "x"});
                server.post(&format!("/v1/inbox/{call}"), &request).refused(400, "E_SCHEMA");
            }
        }
        server.get("/v1/inbox/%20").refused(400, "E_SCHEMA");
        server.post("/v1/inbox/release", &json!({"key": "k"})).refused(400, "E_SCHEMA");
        let form = Request::new("POST", "/v1/inbox/mark-processed").body(r#"{"key":"k"}"#);
        server.call(&form).refused(415, "E_SCHEMA");
        assert_eq!(server.get("/v1/admin/stats").ok()["auth"], "none");
    });
}

/// Holds: LDG-06.
#[test]
fn processed_keys_and_leases_survive_a_crash() {
    on_durable_stores(|store| {
        let server = Server::start(store, &[]);
        server.post("/v1/inbox/mark-processed", &json!({"key": "done"})).ok();
        let begun = begin(&server, "held");
        let server = Server::start_in(server.kill(), store, &[]);
        assert_eq!(begin(&server, "done"), json!({"status": "Processed"}));
        assert_eq!(text(&begin(&server, "held"), "status"), "Busy");
        assert_eq!(mark(&server, "held", text(&begun, "leaseId")), json!({"status": "Processed"}));
    });
}
