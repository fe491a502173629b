//! The options of `cargo xtask test`.

/// Maximum number of repeats, so that a typo does not run for weeks.
const REPEAT_MAX: u64 = 1_000;

/// Which tests to run, how often, and under which load.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) repeat: u64,
    /// Keep all cores busy with other processes.
    pub(crate) under_load: bool,
    /// The packages by name. If empty, the whole workspace and its doc tests.
    pub(crate) packages: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { repeat: 1, under_load: false, packages: Vec::new() }
    }
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` of `test` needs a value"));
            match *word {
                "--under-load" => options.under_load = true,
                "--package" => options.packages.push((*value()?).to_owned()),
                "--repeat" => {
                    let number = value()?.parse().ok().filter(|number| (1..=REPEAT_MAX).contains(number));
                    options.repeat =
                        number.ok_or_else(|| format!("`--repeat` needs a number from 1 to {REPEAT_MAX}"))?;
                }
                other => return Err(format!("`test` does not take `{other}`")),
            }
        }
        Ok(options)
    }

    /// The arguments by which cargo selects the packages.
    pub(super) fn packages(&self) -> Vec<String> {
        if self.packages.is_empty() {
            return vec!["--workspace".to_owned()];
        }
        self.packages.iter().flat_map(|package| ["--package".to_owned(), package.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn parses_options() {
        assert_eq!(parsed(""), Ok(Options::default()));
        let options = parsed("--repeat 10 --under-load --package oncebox-cli --package oncebox").unwrap();
        assert_eq!(
            options,
            Options {
                repeat: 10,
                under_load: true,
                packages: vec!["oncebox-cli".to_owned(), "oncebox".to_owned()]
            }
        );
        assert_eq!(options.packages(), ["--package", "oncebox-cli", "--package", "oncebox"]);
        assert_eq!(Options::default().packages(), ["--workspace"]);
    }

    #[test]
    fn errors_name_the_invalid_option() {
        for bad in ["--repeat", "--repeat 0", "--repeat many", "--repeat 1001", "--package", "--fast"] {
            assert!(parsed(bad).unwrap_err().contains(bad.split(' ').next().unwrap()), "{bad}");
        }
    }
}
