//! What every benchmark can be told on the command line.

use std::path::PathBuf;

pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) long: bool,
    /// The libraries that others wrote for the same purpose, too.
    pub(crate) libraries: bool,
    /// Only the lines whose load has this name.
    pub(crate) only: Option<String>,
    pub(crate) json: Option<PathBuf>,
    /// Where to write the picture of a benchmark that has one.
    pub(crate) plot: Option<PathBuf>,
}

impl Options {
    /// The benchmark's name and its options; none if the words make no sense.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Option<(String, Self)> {
        let bench = words.next()?;
        let mut options =
            Self { quick: false, long: false, libraries: false, only: None, json: None, plot: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--long" => options.long = true,
                "--libraries" => options.libraries = true,
                "--only" => options.only = Some(words.next()?),
                "--json" => options.json = Some(words.next()?.into()),
                "--plot" => options.plot = Some(words.next()?.into()),
                _ => return None,
            }
        }
        Some((bench, options))
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &str) -> Option<(String, Options)> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        assert!(parse("").is_none());
        assert!(parse("machine --fast").is_none());
        assert!(parse("machine --json").is_none());
        let (bench, options) = parse("machine --quick --json figures.json").unwrap();
        assert_eq!((bench.as_str(), options.quick), ("machine", true));
        assert_eq!(options.json.unwrap().to_str(), Some("figures.json"));
    }
}
