//! The `payments_in_one_transaction` example, killed repeatedly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use oncebox_testkit::servers::{Postgres, psql};

/// The example on a free port; killed on drop.
struct Receiver {
    process: Child,
    address: SocketAddr,
}

impl Receiver {
    fn start(database: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_payments_in_one_transaction"))
            .args([database, "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        Self { process, address: address.unwrap_or_else(|| panic!("no address in `{line}`")) }
    }

    /// The status of the response; `None` without a response.
    fn pay(&self, id: &str, body: &str) -> Option<u16> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        let length = body.len();
        let request = format!(
            "POST /payments HTTP/1.1\r\nHost: test\r\nPayment-Id: {id}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        response.split(' ').nth(1)?.parse().ok()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Each confirmed payment is booked once, and is booked if and only if its message is Done.
/// Holds: RULE-01.
#[test]
fn payments_are_booked_once_however_often_the_program_is_killed() {
    const ROUNDS: u32 = 6;
    const EACH: u32 = 10;
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    let database = server.fresh_database().expect("a database is created");
    let mut receiver = Receiver::start(&database);
    assert_eq!(receiver.pay("bad", r#"{"account": "ann", "cents": 0}"#), Some(202));
    for round in 0..ROUNDS {
        for payment in 0..EACH {
            let (id, body) = (format!("p-{round}-{payment}"), r#"{"account": "ann", "cents": 5}"#);
            assert_eq!(receiver.pay(&id, body), Some(202));
            assert_eq!(receiver.pay(&id, body), Some(202), "the bank sends it twice");
        }
        // Kills it at whatever point its handlers are.
        drop(receiver);
        let inconsistent = "select count(*) from oncebox.message m full join bookings b on b.payment = m.id \
                    where (m.state = 2) is distinct from (b.payment is not null)";
        assert_eq!(
            psql(&database, inconsistent).expect("the database answers").trim(),
            "0",
            "bookings and messages disagree"
        );
        receiver = Receiver::start(&database);
    }
    let booked = "select count(*), count(distinct payment), sum(cents) from bookings";
    let expected = format!("{0}|{0}|{1}", ROUNDS * EACH, ROUNDS * EACH * 5);
    // Messages whose handler was killed are delivered again when their leases end.
    psql(&database, "update oncebox.lease set until = 0, check_at = 0").expect("the database answers");
    let all = (0..600).any(|_| {
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        psql(&database, booked).expect("the database answers").trim() == expected
    });
    assert!(all, "{} instead of {expected}", psql(&database, booked).expect("the database answers"));
    assert_eq!(
        psql(&database, "select id from oncebox.message where state = 3")
            .expect("the database answers")
            .trim(),
        "bad"
    );
}
