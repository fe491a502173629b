//! Payments as commands: the story to its end on both stores, and killed again and again on PostgreSQL.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::{Postgres, psql};

/// Kills in an ordinary run; `cargo xtask kill-payments` says otherwise.
const ROUNDS_DEFAULT: u64 = 10;
/// Payments that one run of the example orders.
const EACH: u64 = 20;
/// It works for so long before it is killed, at most.
const WORK_MS_MAX: u64 = 300;

/// In one snapshot: payments and commands of which there is only one, paid and not completed or the other way round, paid twice.
const DISAGREEMENTS: &str = "\
select count(*) filter (where p.command is null or m.uid is null),
       count(*) filter (where (p.paid > 0) is distinct from (m.state = 2)),
       count(*) filter (where p.paid > 1)
  from payments p full join (select uid, state from oncebox.message where namespace = 1) m on m.uid = p.command";
const NONE: &str = "0|0|0";

fn example(place: &str, first: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payments"));
    command.args([place, &first.to_string()]);
    command
}

/// Runs it to its end, and gives back what it says.
fn run(place: &str, first: u64) -> String {
    let output = example(place, first).output().expect("the example starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn tells(place: &str) {
    let text = run(place, 0);
    for line in [
        "dead letter key/7 after 3 runs: the branch is closed",
        "dead letter key/17 after 3 runs: the branch is closed",
        "redriven: 2",
        // 3 and 13 failed once, 7 and 17 twice before they were given up.
        "completed: 20, failed runs: 6, dead letters: 2",
    ] {
        assert!(text.lines().any(|found| found == line), "no line `{line}` in:\n{text}");
    }
    // The same payments again are known, and nothing is left to do.
    assert!(run(place, 0).contains("completed: 0, failed runs: 0, dead letters: 0"));
}

#[test]
fn payments_are_scheduled_failed_given_up_and_brought_back() {
    let directory = tempfile::tempdir().unwrap();
    tells(&format!("embedded:{}", directory.path().display()));
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    let database = server.fresh_database().expect("a database is made");
    tells(&database);
    assert_eq!(psql(&database, DISAGREEMENTS).unwrap().trim(), NONE);
    assert_eq!(
        psql(&database, "select count(*), sum(paid), sum(cents) from payments").unwrap().trim(),
        "20|20|19000"
    );
}

/// A run of the example that has begun its work; killed when it is dropped.
struct Killed(Child);

impl Killed {
    fn start(place: &str, first: u64) -> Self {
        let mut process = example(place, first).stdout(Stdio::piped()).spawn().expect("the example starts");
        let output = process.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(output).lines();
        let line = lines.next().and_then(Result::ok);
        assert_eq!(line.as_deref(), Some("open"), "it has opened the database");
        // What it says later nobody hears; that must not stop it.
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

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a whole number"))
}

/// Whenever it is killed, a payment is paid if its command is completed, and only then, and once.
/// Holds: CMD-17, RULE-01.
#[test]
fn killed_payments_and_their_commands_never_disagree() {
    let rounds = number("ONCEBOX_PAYMENTS_ROUNDS", ROUNDS_DEFAULT);
    let seed = number("ONCEBOX_PAYMENTS_SEED", u64::from(std::process::id()));
    let mut rng = SplitMix::new(seed);
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    let database = server.fresh_database().expect("a database is made");
    let agree = |round| {
        let found = psql(&database, DISAGREEMENTS).expect("it answers");
        assert_eq!(found.trim(), NONE, "round {round}, seed {seed}: alone | torn | twice");
    };
    let mut unfinished = 0;
    for round in 0..rounds {
        let killed = Killed::start(&database, round * EACH);
        std::thread::park_timeout(Duration::from_millis(rng.below(WORK_MS_MAX)));
        agree(round);
        drop(killed);
        agree(round);
        let open = psql(&database, "select count(*) from oncebox.message where namespace = 1 and state = 1");
        unfinished += u64::from(open.expect("it answers").trim() != "0");
    }
    // Those that a killed run held come again when their leases end.
    psql(&database, "update oncebox.lease set until = 0, check_at = 0").expect("it answers");
    run(&database, rounds * EACH);
    agree(rounds);
    let left = psql(&database, "select count(*) from payments where paid <> 1").expect("it answers");
    assert_eq!(left.trim(), "0", "everything that was ordered is paid in the end");
    let paid = psql(&database, "select count(*) from payments").expect("it answers");
    println!(
        "{rounds} kills from seed {seed}, {unfinished} of them with commands unfinished: {} payments, all paid once",
        paid.trim()
    );
    assert!(unfinished > 0, "no kill came in time: the test shows nothing");
    // The comparison is not blind.
    let last = rounds * EACH;
    psql(&database, &format!("update payments set paid = 0 where payment = {last}")).expect("it answers");
    psql(&database, &format!("delete from payments where payment = {last} + 1")).expect("it answers");
    assert_eq!(psql(&database, DISAGREEMENTS).expect("it answers").trim(), "1|2|0");
}
