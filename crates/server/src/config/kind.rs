//! What a setting can be: how it is read, bounded, written and described.

use std::str::FromStr;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::field::Value;
use super::listen::{self, LISTEN_MAX};
use super::raw::{Raw, shown};
use super::store;
use super::unit;

const LEVELS_BYTES_MAX: usize = 1_024;

/// What keeps something for ever, or listens nowhere.
const OFF: &str = "off";

/// What a topic has no value of its own for.
const DEFAULT: &str = "default";

/// The kind of a setting, with the least and the most.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Flag,
    Count(u64, u64),
    Size(u64, u64),
    Duration(Duration, Duration),
    /// A duration, or `off`.
    Keep(Duration, Duration),
    /// A duration, or `default`: the one of the whole mailbox.
    Own(Duration, Duration),
    Word(&'static [&'static str]),
    Levels,
    Store,
    /// A list of places, this many at least.
    Listen(usize),
}

impl Kind {
    /// Reads a value. Each fault continues the sentence "`name` …".
    pub(super) fn read(self, raw: &Raw) -> Result<Value, Vec<String>> {
        match self {
            Self::Listen(least) => self.read_listen(least, raw),
            _ => self.read_one(raw).map_err(|fault| vec![fault]),
        }
    }

    fn read_listen(self, least: usize, raw: &Raw) -> Result<Value, Vec<String>> {
        if least == 0 && text(raw) == Some(OFF) {
            return Ok(Value::Listen(Vec::new()));
        }
        let entries: Option<Vec<&str>> = match raw {
            Raw::Untyped(text) => Some(text.split(',').map(str::trim).collect()),
            Raw::List(items) => items.iter().map(text).collect(),
            _ => None,
        };
        let entries = entries.ok_or_else(|| vec![self.wrong(raw)])?;
        listen::parse_all(&entries, least).map(Value::Listen)
    }

    fn read_one(self, raw: &Raw) -> Result<Value, String> {
        let wrong = || self.wrong(raw);
        match self {
            Self::Flag => flag(raw).map(Value::Flag).ok_or_else(wrong),
            Self::Count(least, most) => {
                let number = number(raw).ok_or_else(wrong)?;
                within(number, i128::from(least), i128::from(most), |number| number.to_string())?;
                u64::try_from(number).map(Value::Number).map_err(|_| wrong())
            }
            Self::Size(least, most) => {
                let size = text(raw).and_then(unit::parse_size).ok_or_else(wrong)?;
                within(size, least, most, unit::size)?;
                Ok(Value::Number(size))
            }
            Self::Duration(least, most) => {
                let duration = text(raw).and_then(unit::parse_duration).ok_or_else(wrong)?;
                within(duration, least, most, unit::duration)?;
                Ok(Value::Duration(duration))
            }
            Self::Keep(..) if text(raw) == Some(OFF) => Ok(Value::Keep(None)),
            Self::Own(..) if text(raw) == Some(DEFAULT) => Ok(Value::Keep(None)),
            Self::Keep(least, most) | Self::Own(least, most) => {
                let duration = text(raw).and_then(unit::parse_duration).ok_or_else(wrong)?;
                within(duration, least, most, unit::duration)?;
                Ok(Value::Keep(Some(duration)))
            }
            Self::Word(words) => {
                let word = text(raw).filter(|text| words.contains(text)).ok_or_else(wrong)?;
                Ok(Value::Text(word.to_owned()))
            }
            Self::Levels => {
                let levels = text(raw).ok_or_else(wrong)?;
                check_levels(levels)?;
                Ok(Value::Text(levels.to_owned()))
            }
            Self::Store => {
                let url = text(raw).ok_or_else(wrong)?;
                store::check(url)?;
                Ok(Value::Text(url.to_owned()))
            }
            Self::Listen(_) => Err(wrong()),
        }
    }

    fn wrong(self, raw: &Raw) -> String {
        format!("is {}: write {}", raw.shown(), self.expected())
    }

    fn expected(self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Count(..) => "a whole number, as in 16".to_owned(),
            Self::Size(..) => {
                "a size with its unit, as in \"100B\", \"512KiB\", \"1MiB\", \"1GiB\"".to_owned()
            }
            Self::Duration(..) => {
                "a duration with its unit, as in \"250ms\", \"5s\", \"10m\", \"1h\", \"7d\"".to_owned()
            }
            Self::Keep(..) => "\"off\", or a duration with its unit, as in \"30d\"".to_owned(),
            Self::Own(..) => "\"default\", or a duration with its unit, as in \"30s\"".to_owned(),
            Self::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| unit::quoted(word)).collect();
                words.join(" or ")
            }
            Self::Levels => "levels, as in \"info,oncebox=debug\"".to_owned(),
            Self::Store => "a URL, as in \"embedded:./oncebox-data\"".to_owned(),
            Self::Listen(0) => "\"off\", or a list of places, as in [\"127.0.0.1:7421\"]".to_owned(),
            Self::Listen(_) => "a list of places, as in [\"127.0.0.1:7420\"]".to_owned(),
        }
    }

    /// Its name in the reference.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Count(..) => "count",
            Self::Size(..) => "size",
            Self::Duration(..) => "duration",
            Self::Keep(..) => "duration or `off`",
            Self::Own(..) => "duration or `default`",
            Self::Word(_) => "word",
            Self::Levels => "levels",
            Self::Store => "URL",
            Self::Listen(0) => "list or `off`",
            Self::Listen(_) => "list",
        }
    }

    /// Its range in the reference.
    pub(super) fn range(self) -> String {
        match self {
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Count(least, most) => format!("{least} to {most}"),
            Self::Size(least, most) => format!("{} to {}", unit::size(least), unit::size(most)),
            Self::Duration(least, most) => format!("{} to {}", unit::duration(least), unit::duration(most)),
            Self::Keep(least, most) => {
                format!("`off`, or {} to {}", unit::duration(least), unit::duration(most))
            }
            Self::Own(least, most) => {
                format!("`default`, or {} to {}", unit::duration(least), unit::duration(most))
            }
            Self::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                words.join(" or ")
            }
            Self::Levels => format!("at most {LEVELS_BYTES_MAX} bytes"),
            Self::Store => "`memory:`, `embedded:DIRECTORY` or `postgres://HOST/DATABASE`".to_owned(),
            Self::Listen(0) => format!("`off`, or 1 to {LISTEN_MAX} entries"),
            Self::Listen(least) => format!("{least} to {LISTEN_MAX} entries"),
        }
    }

    /// A value for people to read, without a password.
    pub(super) fn plain(self, value: &Value) -> String {
        match (self, value) {
            (Self::Size(..), Value::Number(size)) => unit::size(*size),
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Flag(flag)) => flag.to_string(),
            (_, Value::Duration(duration) | Value::Keep(Some(duration))) => unit::duration(*duration),
            (Self::Own(..), Value::Keep(None)) => DEFAULT.to_owned(),
            (_, Value::Keep(None)) => OFF.to_owned(),
            (Self::Store, Value::Text(url)) => store::redacted(url),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::Listen(places)) if places.is_empty() => OFF.to_owned(),
            (_, Value::Listen(places)) => {
                let places: Vec<String> = places.iter().map(ToString::to_string).collect();
                places.join(",")
            }
        }
    }

    /// A value as it stands in a file, without a password.
    pub(super) fn toml(self, value: &Value) -> String {
        match (self, value) {
            (Self::Flag | Self::Count(..), _) => self.plain(value),
            (_, Value::Listen(places)) if !places.is_empty() => {
                let places: Vec<String> =
                    places.iter().map(|place| unit::quoted(&place.to_string())).collect();
                format!("[{}]", places.join(", "))
            }
            _ => unit::quoted(&self.plain(value)),
        }
    }
}

fn within<T: PartialOrd>(value: T, least: T, most: T, shown: fn(T) -> String) -> Result<(), String> {
    if value < least {
        return Err(format!("is {}, the least is {}: raise it", shown(value), shown(least)));
    }
    if value > most {
        return Err(format!("is {}, the most is {}: lower it", shown(value), shown(most)));
    }
    Ok(())
}

fn text(raw: &Raw) -> Option<&str> {
    match raw {
        Raw::Untyped(text) | Raw::Text(text) => Some(text),
        _ => None,
    }
}

fn flag(raw: &Raw) -> Option<bool> {
    match raw {
        Raw::Untyped(text) => text.parse().ok(),
        Raw::Flag(flag) => Some(*flag),
        _ => None,
    }
}

fn number(raw: &Raw) -> Option<i128> {
    match raw {
        Raw::Untyped(text) => text.parse().ok(),
        Raw::Number(number) => *number,
        _ => None,
    }
}

fn check_levels(levels: &str) -> Result<(), String> {
    if levels.len() > LEVELS_BYTES_MAX {
        return Err(format!("has {} bytes, the most is {LEVELS_BYTES_MAX}: shorten it", levels.len()));
    }
    // A target alone would mean all of it, and so would a misspelt level.
    let misspelt = levels
        .split(',')
        .find(|part| part.is_empty() || !part.contains('=') && LevelFilter::from_str(part).is_err());
    if let Some(part) = misspelt {
        return Err(format!(
            "holds {}, which is no level: write off, error, warn, info, debug, trace or TARGET=LEVEL",
            shown(part)
        ));
    }
    let parsed = Targets::from_str(levels);
    parsed.map(drop).map_err(|_| format!("is {}: write levels, as in \"info,oncebox=debug\"", shown(levels)))
}
