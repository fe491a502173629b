//! The command line.

use std::path::PathBuf;

use oncebox_store_embedded::Durability;

pub(crate) const USAGE: &str = "\
usage: oncebox-torture <mode>

  load DIRECTORY --seed S [--durability sync|os]    works on a store until it is killed
  dump DIRECTORY                                    lists a store and claims all that is ready
  kill --cycles N [--seed S]                        kills `load` N times and checks what is left
  kill-server --rounds N [--seed S] [--store memory]
                                                    kills a server under load N times and checks its answers
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
        ["powercut", options @ ..] => {
            campaign(options, "--cuts").map(|(cuts, seed)| Mode::Powercut { cuts, seed })
        }
        _ => None,
    }
}

fn kill_server(options: &[&str], memory: bool) -> Option<Mode> {
    campaign(options, "--rounds").map(|(rounds, seed)| Mode::KillServer { rounds, seed, memory })
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
        for bad in ["", "load d", "load d --seed", "dump", "kill", "kill --cuts 1", "powercut --cuts many"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
