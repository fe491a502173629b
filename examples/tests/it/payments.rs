//! The `payments` example: a complete run on both stores, and repeated kills on PostgreSQL.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::{Postgres, psql};

/// Default number of kills; `cargo xtask kill-payments` sets another.
const ROUNDS_DEFAULT: u64 = 10;
/// Payments that one run of the example orders.
const EACH: u64 = 20;
/// Maximum run time before a kill.
const WORK_MS_MAX: u64 = 300;

/// Counts, in one snapshot: payments without a command or vice versa; payments that are paid but whose command is not
/// completed or vice versa; payments that were paid twice.
const DISAGREEMENTS: &str = "\
select count(*) filter (where p.command is null or m.uid is null),
       count(*) filter (where (p.paid > 0) is distinct from (m.state = 2)),
       count(*) filter (where p.paid > 1)
  from payments p full join (select uid, state from oncebox.message where namespace = 1) m on m.uid = p.command";
const NONE: &str = "0|0|0";

fn example(url: &str, first: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payments"));
    command.args([url, &first.to_string()]);
    command
}

/// Runs the example to its end, and returns its output.
fn run(url: &str, first: u64) -> String {
    let output = example(url, first).output().expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn check_output(url: &str) {
    let text = run(url, 0);
    for line in [
        "dead letter key/7 after 3 attempts: the branch is closed",
        "dead letter key/17 after 3 attempts: the branch is closed",
        "redriven: 2",
        // 3 and 13 were retried once, 7 and 17 twice before they were dead-lettered.
        "completed: 20, retries: 6, dead letters: 2",
    ] {
        assert!(text.lines().any(|found| found == line), "no line `{line}` in:\n{text}");
    }
    // The same payments again are duplicates, and nothing is left to do.
    assert!(run(url, 0).contains("completed: 0, retries: 0, dead letters: 0"));
}

#[test]
fn payments_are_scheduled_retried_dead_lettered_and_redriven() {
    let directory = tempfile::tempdir().unwrap();
    check_output(&format!("embedded:{}", directory.path().display()));
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    let database = server.fresh_database().expect("a database is created");
    check_output(&database);
    assert_eq!(psql(&database, DISAGREEMENTS).unwrap().trim(), NONE);
    assert_eq!(
        psql(&database, "select count(*), sum(paid), sum(cents) from payments").unwrap().trim(),
        "20|20|19000"
    );
}

/// A running example; killed on drop.
struct Killed(Child);

impl Killed {
    fn start(url: &str, first: u64) -> Self {
        let mut process = example(url, first).stdout(Stdio::piped()).spawn().expect("the example starts");
        let output = process.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(output).lines();
        let line = lines.next().and_then(Result::ok);
        assert_eq!(line.as_deref(), Some("open"), "it has opened the database");
        // Drain the rest of its output, so that a full pipe does not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Self(process)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a whole number"))
}

/// Whenever the program is killed, a payment is paid, once, if and only if its command is completed.
/// Holds: CMD-17, RULE-01.
#[test]
fn killed_payments_and_their_commands_never_disagree() {
    let rounds = number("ONCEBOX_PAYMENTS_ROUNDS", ROUNDS_DEFAULT);
    let seed = number("ONCEBOX_PAYMENTS_SEED", u64::from(std::process::id()));
    let mut rng = SplitMix::new(seed);
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    let database = server.fresh_database().expect("a database is created");
    let agree = |round| {
        let found = psql(&database, DISAGREEMENTS).expect("the database answers");
        assert_eq!(found.trim(), NONE, "round {round}, seed {seed}: unmatched | inconsistent | paid twice");
    };
    let mut unfinished = 0;
    for round in 0..rounds {
        let killed = Killed::start(&database, round * EACH);
        std::thread::park_timeout(Duration::from_millis(rng.below(WORK_MS_MAX)));
        agree(round);
        drop(killed);
        agree(round);
        let open = psql(&database, "select count(*) from oncebox.message where namespace = 1 and state = 1");
        unfinished += u64::from(open.expect("the database answers").trim() != "0");
    }
    // Commands that a killed run held are delivered again when their leases end.
    psql(&database, "update oncebox.lease set until = 0, check_at = 0").expect("the database answers");
    run(&database, rounds * EACH);
    agree(rounds);
    let left =
        psql(&database, "select count(*) from payments where paid <> 1").expect("the database answers");
    assert_eq!(left.trim(), "0", "every ordered payment is paid in the end");
    let paid = psql(&database, "select count(*) from payments").expect("the database answers");
    println!(
        "{rounds} kills from seed {seed}, {unfinished} of them with commands unfinished: {} payments, all paid once",
        paid.trim()
    );
    assert!(unfinished > 0, "no kill interrupted any work, so the test shows nothing");
    // The check detects disagreements.
    let last = rounds * EACH;
    psql(&database, &format!("update payments set paid = 0 where payment = {last}"))
        .expect("the database answers");
    psql(&database, &format!("delete from payments where payment = {last} + 1"))
        .expect("the database answers");
    assert_eq!(psql(&database, DISAGREEMENTS).expect("the database answers").trim(), "1|2|0");
}
