//! Command line parsing.

use std::path::PathBuf;

use oncebox_store_embedded::Durability;

use crate::postgres::{Handler, HandlerMode, KillHandlers, KillWorkers, PlantedBug, Sender, Worker};

pub(crate) const USAGE: &str = "\
usage: oncebox-torture <mode>

  load DIRECTORY --seed S [--durability sync|os]    use a store until killed
  dump DIRECTORY                                    list a store and claim everything that is ready
  kill --cycles N [--seed S]                        kill `load` N times and check what is left
  kill-server --rounds N [--seed S] [--store memory]
                                                    kill a server under load N times and check its responses
  kill-workers --workers W --messages N [--seed S] [--plant stale-ack|async-commit]
                                                    kill processes that share a PostgreSQL server, terminate its
                                                    backends, restart it, and check the logs of the processes
  kill-handlers --rounds N [--seed S] [--plant strays]
                                                    kill handlers in transactions N times and compare their writes
                                                    with the inbox
  failover [--seed S]                               kill a PostgreSQL server under load, promote its replica, and
                                                    check the logs of the processes
  pg-handle URL-FILE LOG SEED [--send|--write-outside]
                                                    handle messages in transactions until killed
  pg-send URL-FILE LOG SEED SENDER COUNT [LOG]      send messages; continue where the sender of the second log stopped
  pg-work URL-FILE LOG SEED [--fake-acks]           claim and settle messages until killed
  powercut --cuts N [--seed S]                      copy the disk under `load` N times and check the copies; needs root";

/// The seed of a campaign without `--seed`.
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
    /// With `memory`, the server loses everything at each kill, and the campaign must fail.
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

/// Parses the arguments after the program's name; none if they are invalid.
pub(crate) fn parse(arguments: &[String]) -> Option<Mode> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
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
                "stale-ack" => PlantedBug::StaleAck,
                "async-commit" => PlantedBug::AsyncCommit,
                _ => return None,
            };
            kill_workers(workers, options, Some(plant))
        }
        ["kill-workers", "--workers", workers, options @ ..] => kill_workers(workers, options, None),
        ["kill-handlers", options @ .., "--plant", "strays"] => kill_handlers(options, true),
        ["kill-handlers", options @ ..] => kill_handlers(options, false),
        ["failover"] => Some(Mode::Failover { seed: SEED_DEFAULT }),
        ["failover", "--seed", seed] => Some(Mode::Failover { seed: seed.parse().ok()? }),
        ["pg-handle", url_file, log, seed, mode @ ..] => {
            let mode = match mode {
                [] => HandlerMode::Handle,
                ["--send"] => HandlerMode::Send,
                ["--write-outside"] => HandlerMode::WriteOutside,
                _ => return None,
            };
            let (url_file, log, seed) = (url_file.into(), log.into(), seed.parse().ok()?);
            Some(Mode::PgHandle(Handler { url_file, log, seed, mode }))
        }
        ["pg-send", url_file, log, seed, index, count, previous_log @ ..] if previous_log.len() < 2 => {
            let (url_file, log) = (url_file.into(), log.into());
            let [seed, index, count] = [seed, index, count].map(|number| number.parse().ok());
            let previous_log = previous_log.first().map(PathBuf::from);
            Some(Mode::PgSend(Sender {
                url_file,
                log,
                seed: seed?,
                index: index?,
                count: count?,
                previous_log,
            }))
        }
        ["pg-work", url_file, log, seed, fake_acks @ ..] if matches!(fake_acks, [] | ["--fake-acks"]) => {
            let (url_file, log, seed) = (url_file.into(), log.into(), seed.parse().ok()?);
            Some(Mode::PgWork(Worker { url_file, log, seed, fake_acks: !fake_acks.is_empty() }))
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

fn kill_workers(workers: &str, options: &[&str], plant: Option<PlantedBug>) -> Option<Mode> {
    let (workers, (messages, seed)) = (workers.parse().ok()?, campaign(options, "--messages")?);
    Some(Mode::KillWorkers(KillWorkers { workers, messages, seed, plant }))
}

fn kill_handlers(options: &[&str], write_outside: bool) -> Option<Mode> {
    let (rounds, seed) = campaign(options, "--rounds")?;
    Some(Mode::KillHandlers(KillHandlers { rounds, seed, write_outside }))
}

fn campaign(options: &[&str], count_option: &str) -> Option<(u64, u64)> {
    let (mut count, mut seed) = (None, SEED_DEFAULT);
    for option in options.chunks(2) {
        match *option {
            [name, value] if name == count_option => count = Some(value.parse().ok()?),
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
    fn parses_every_mode_and_rejects_the_rest() {
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
        let planted = workers(Some(PlantedBug::StaleAck));
        assert_eq!(parsed(&format!("{line} --plant stale-ack")), Some(Mode::KillWorkers(planted)));
        assert_eq!(parsed(&format!("{line} --plant other")), None);
        let handlers =
            |write_outside| Some(Mode::KillHandlers(KillHandlers { rounds: 9, seed: 3, write_outside }));
        assert_eq!(parsed("kill-handlers --rounds 9 --seed 3"), handlers(false));
        assert_eq!(parsed("kill-handlers --rounds 9 --seed 3 --plant strays"), handlers(true));
        assert_eq!(parsed("failover"), Some(Mode::Failover { seed: SEED_DEFAULT }));
        let (url_file, log) = (PathBuf::from("u"), PathBuf::from("l"));
        let sender = Sender { url_file, log, seed: 3, index: 1, count: 9, previous_log: Some("o".into()) };
        assert_eq!(parsed("pg-send u l 3 1 9 o"), Some(Mode::PgSend(sender)));
        for bad in [
            "pg-send u l 3 1 9 o p",
            "pg-work u l",
            "pg-work u l 3 --other",
            "pg-handle u l 3 --other",
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
