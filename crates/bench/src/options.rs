//! Command-line options of the benchmarks.

use std::path::PathBuf;

pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) long: bool,
    /// Also compare with other libraries.
    pub(crate) libraries: bool,
    /// Run only the load with this name.
    pub(crate) only: Option<String>,
    pub(crate) json: Option<PathBuf>,
    /// Where to write the chart, for a benchmark that has one.
    pub(crate) plot: Option<PathBuf>,
}

impl Options {
    /// The benchmark's name and its options; `None` if the arguments are invalid.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Option<(String, Self)> {
        let bench = arguments.next()?;
        let mut options =
            Self { quick: false, long: false, libraries: false, only: None, json: None, plot: None };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--long" => options.long = true,
                "--libraries" => options.libraries = true,
                "--only" => options.only = Some(arguments.next()?),
                "--json" => options.json = Some(arguments.next()?.into()),
                "--plot" => options.plot = Some(arguments.next()?.into()),
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
    fn invalid_arguments_are_rejected() {
        assert!(parse("").is_none());
        assert!(parse("machine --fast").is_none());
        assert!(parse("machine --json").is_none());
        let (bench, options) = parse("machine --quick --json figures.json").unwrap();
        assert_eq!((bench.as_str(), options.quick), ("machine", true));
        assert_eq!(options.json.unwrap().to_str(), Some("figures.json"));
    }
}
