//! The command line.

use std::path::PathBuf;

use oncebox_store_embedded::Durability;

use crate::postgres::{Handler, KillHandlers, KillWorkers, Plant, Sender, Way, Worker};

pub(crate) const USAGE: &str = "\
usage: oncebox-torture <mode>

  load DIRECTORY --seed S [--durability sync|os]    works on a store until it is killed
  dump DIRECTORY                                    lists a store and claims all that is ready
  kill --cycles N [--seed S]                        kills `load` N times and checks what is left
  kill-server --rounds N [--seed S] [--store memory]
                                                    kills a server under load N times and checks its answers
  kill-workers --workers W --messages N [--seed S] [--plant stale-ack|async-commit]
                                                    kills processes that share a PostgreSQL, cuts off its backends and
                                                    restarts it, and checks what they wrote down
  kill-handlers --rounds N [--seed S] [--plant strays]
                                                    kills handlers in transactions N times and compares their writes
                                                    with the inbox
  failover [--seed S]                               kills a PostgreSQL under load, lets its replica take over, and checks
                                                    what was written down
  pg-handle URL-FILE LOG SEED [--sends|--strays]    handles messages in transactions until it is killed
  pg-send URL-FILE LOG SEED SENDER COUNT [LOG]      sends messages; in the place of whom the second log is from
  pg-work URL-FILE LOG SEED [--lies]                works on messages until it is killed
  powercut --cuts N [--seed S]                      copies the disk under `load` N times and checks the copies; needs root";

/// The seed of a campaign that is given none.
const SEED_DEFAULT: u64 = 1;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Load {
        directory: PathBuf,
        seed: u64,
        durability: Durability,
    },
    Dump {
        directory: PathBuf,
    },
    Kill {
        cycles: u64,
        seed: u64,
    },
    /// In memory, the server must be found guilty: that is how to see that the judge looks.
    KillServer {
        rounds: u64,
        seed: u64,
        memory: bool,
    },
    KillWorkers(KillWorkers),
    Failover {
        seed: u64,
    },
    KillHandlers(KillHandlers),
    PgHandle(Handler),
    PgSend(Sender),
    PgWork(Worker),
    Powercut {
        cuts: u64,
        seed: u64,
    },
}

/// Reads the words after the program's name; none if they make no sense.
pub(crate) fn parse(words: &[String]) -> Option<Mode> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["dump", directory] => Some(Mode::Dump { directory: directory.into() }),
        ["load", directory, options @ ..] => {
            let (mut seed, mut durability) = (None, Durability::Sync);
            for option in options.chunks(2) {
                match *option {
                    ["--seed", value] => seed = Some(value.parse().ok()?),
                    ["--durability", "sync"] => durability = Durability::Sync,
                    ["--durability", "os"] => durability = Durability::Os,
                    _ => return None,
                }
            }
            Some(Mode::Load { directory: directory.into(), seed: seed?, durability })
        }
        ["kill", options @ ..] => {
            campaign(options, "--cycles").map(|(cycles, seed)| Mode::Kill { cycles, seed })
        }
        ["kill-server", options @ .., "--store", "memory"] => kill_server(options, true),
        ["kill-server", options @ ..] => kill_server(options, false),
        ["kill-workers", "--workers", workers, options @ .., "--plant", plant] => {
            let plant = match *plant {
                "stale-ack" => Plant::StaleAck,
                "async-commit" => Plant::AsyncCommit,
                _ => return None,
            };
            kill_workers(workers, options, Some(plant))
        }
        ["kill-workers", "--workers", workers, options @ ..] => kill_workers(workers, options, None),
        ["kill-handlers", options @ .., "--plant", "strays"] => kill_handlers(options, true),
        ["kill-handlers", options @ ..] => kill_handlers(options, false),
        ["failover"] => Some(Mode::Failover { seed: SEED_DEFAULT }),
        ["failover", "--seed", seed] => Some(Mode::Failover { seed: seed.parse().ok()? }),
        ["pg-handle", urls, log, seed, way @ ..] => {
            let way = match way {
                [] => Way::Handles,
                ["--sends"] => Way::Sends,
                ["--strays"] => Way::Strays,
                _ => return None,
            };
            let (urls, log, seed) = (urls.into(), log.into(), seed.parse().ok()?);
            Some(Mode::PgHandle(Handler { urls, log, seed, way }))
        }
        ["pg-send", urls, log, seed, place, count, after @ ..] if after.len() < 2 => {
            let (urls, log) = (urls.into(), log.into());
            let [seed, place, count] = [seed, place, count].map(|number| number.parse().ok());
            let after = after.first().map(PathBuf::from);
            Some(Mode::PgSend(Sender { urls, log, seed: seed?, place: place?, count: count?, after }))
        }
        ["pg-work", urls, log, seed, lies @ ..] if matches!(lies, [] | ["--lies"]) => {
            let (urls, log, seed) = (urls.into(), log.into(), seed.parse().ok()?);
            Some(Mode::PgWork(Worker { urls, log, seed, lies: !lies.is_empty() }))
        }
        ["powercut", options @ ..] => {
            campaign(options, "--cuts").map(|(cuts, seed)| Mode::Powercut { cuts, seed })
        }
        _ => None,
    }
}

fn kill_server(options: &[&str], memory: bool) -> Option<Mode> {
    campaign(options, "--rounds").map(|(rounds, seed)| Mode::KillServer { rounds, seed, memory })
}

fn kill_workers(workers: &str, options: &[&str], plant: Option<Plant>) -> Option<Mode> {
    let (workers, (messages, seed)) = (workers.parse().ok()?, campaign(options, "--messages")?);
    Some(Mode::KillWorkers(KillWorkers { workers, messages, seed, plant }))
}

fn kill_handlers(options: &[&str], strays: bool) -> Option<Mode> {
    let (rounds, seed) = campaign(options, "--rounds")?;
    Some(Mode::KillHandlers(KillHandlers { rounds, seed, strays }))
}

fn campaign(options: &[&str], how_often: &str) -> Option<(u64, u64)> {
    let (mut count, mut seed) = (None, SEED_DEFAULT);
    for option in options.chunks(2) {
        match *option {
            [name, value] if name == how_often => count = Some(value.parse().ok()?),
            ["--seed", value] => seed = value.parse().ok()?,
            _ => return None,
        }
    }
    count.map(|count| (count, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Mode> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_mode_has_one_spelling() {
        let load = Mode::Load { directory: "d".into(), seed: 7, durability: Durability::Os };
        assert_eq!(parsed("load d --seed 7 --durability os"), Some(load));
        assert_eq!(parsed("dump d"), Some(Mode::Dump { directory: "d".into() }));
        assert_eq!(parsed("kill --cycles 9"), Some(Mode::Kill { cycles: 9, seed: SEED_DEFAULT }));
        let server = |memory| Mode::KillServer { rounds: 9, seed: 3, memory };
        assert_eq!(parsed("kill-server --rounds 9 --seed 3"), Some(server(false)));
        assert_eq!(parsed("kill-server --rounds 9 --seed 3 --store memory"), Some(server(true)));
        assert_eq!(parsed("powercut --cuts 9 --seed 3"), Some(Mode::Powercut { cuts: 9, seed: 3 }));
        let workers = |plant| KillWorkers { workers: 8, messages: 9, seed: 3, plant };
        let line = "kill-workers --workers 8 --messages 9 --seed 3";
        assert_eq!(parsed(line), Some(Mode::KillWorkers(workers(None))));
        let planted = workers(Some(Plant::StaleAck));
        assert_eq!(parsed(&format!("{line} --plant stale-ack")), Some(Mode::KillWorkers(planted)));
        assert_eq!(parsed(&format!("{line} --plant roses")), None);
        let handlers = |strays| Some(Mode::KillHandlers(KillHandlers { rounds: 9, seed: 3, strays }));
        assert_eq!(parsed("kill-handlers --rounds 9 --seed 3"), handlers(false));
        assert_eq!(parsed("kill-handlers --rounds 9 --seed 3 --plant strays"), handlers(true));
        assert_eq!(parsed("failover"), Some(Mode::Failover { seed: SEED_DEFAULT }));
        let (urls, log) = (PathBuf::from("u"), PathBuf::from("l"));
        let sender = Sender { urls, log, seed: 3, place: 1, count: 9, after: Some("o".into()) };
        assert_eq!(parsed("pg-send u l 3 1 9 o"), Some(Mode::PgSend(sender)));
        for bad in [
            "pg-send u l 3 1 9 o p",
            "pg-work u l",
            "pg-work u l 3 --truth",
            "pg-handle u l 3 --sings",
            "",
            "load d",
            "load d --seed",
            "dump",
            "kill",
            "kill --cuts 1",
            "powercut --cuts many",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
