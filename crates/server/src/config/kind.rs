//! Kinds of settings: how a value is parsed, bounded, written and described.

use std::str::FromStr;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};

use super::field::Value;
use super::listen::{self, LISTEN_MAX};
use super::raw::Raw;
use super::redact::{redacted, shown};
use super::store;
use super::unit;

const LOG_LEVELS_BYTES_MAX: usize = 1_024;

/// Keyword for no limit, or for no listener.
const OFF: &str = "off";

/// Keyword for a topic without a value of its own.
const DEFAULT: &str = "default";

/// The kind of a setting, with its minimum and maximum.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Count(u64, u64),
    Size(u64, u64),
    Duration(Duration, Duration),
    /// A duration, or `off` for no limit.
    DurationOrOff(Duration, Duration),
    /// A duration, or `default` for the value of the whole mailbox.
    DurationOrDefault(Duration, Duration),
    Choice(&'static [&'static str]),
    LogLevels,
    Store,
    /// The path of a file, or `off`.
    FileOrOff,
    /// A list of at least this many addresses.
    Listen(usize),
}

impl Kind {
    /// Parses a value. Each error text continues the sentence "`name` …".
    pub(super) fn read(self, raw: &Raw) -> Result<Value, Vec<String>> {
        match self {
            Self::Listen(min) => self.read_listen(min, raw),
            _ => self.read_one(raw).map_err(|fault| vec![fault]),
        }
    }

    fn read_listen(self, min: usize, raw: &Raw) -> Result<Value, Vec<String>> {
        if min == 0 && text(raw) == Some(OFF) {
            return Ok(Value::Listen(Vec::new()));
        }
        let entries: Option<Vec<&str>> = match raw {
            Raw::Untyped(text) => Some(text.split(',').map(str::trim).collect()),
            Raw::List(items) => items.iter().map(text).collect(),
            _ => None,
        };
        let entries = entries.ok_or_else(|| vec![self.mismatch(raw)])?;
        listen::parse_all(&entries, min).map(Value::Listen)
    }

    fn read_one(self, raw: &Raw) -> Result<Value, String> {
        let mismatch = || self.mismatch(raw);
        match self {
            Self::Bool => flag(raw).map(Value::Bool).ok_or_else(mismatch),
            Self::Count(min, max) => {
                let number = number(raw).ok_or_else(mismatch)?;
                within(number, i128::from(min), i128::from(max), |number| number.to_string())?;
                u64::try_from(number).map(Value::Number).map_err(|_| mismatch())
            }
            Self::Size(min, max) => {
                let size = text(raw).and_then(unit::parse_size).ok_or_else(mismatch)?;
                within(size, min, max, unit::size)?;
                Ok(Value::Number(size))
            }
            Self::Duration(min, max) => {
                let duration = text(raw).and_then(unit::parse_duration).ok_or_else(mismatch)?;
                within(duration, min, max, unit::duration)?;
                Ok(Value::Duration(duration))
            }
            Self::DurationOrOff(..) if text(raw) == Some(OFF) => Ok(Value::OptionalDuration(None)),
            Self::DurationOrDefault(..) if text(raw) == Some(DEFAULT) => Ok(Value::OptionalDuration(None)),
            Self::DurationOrOff(min, max) | Self::DurationOrDefault(min, max) => {
                let duration = text(raw).and_then(unit::parse_duration).ok_or_else(mismatch)?;
                within(duration, min, max, unit::duration)?;
                Ok(Value::OptionalDuration(Some(duration)))
            }
            Self::Choice(choices) => {
                let choice = text(raw).filter(|text| choices.contains(text)).ok_or_else(mismatch)?;
                Ok(Value::Text(choice.to_owned()))
            }
            Self::LogLevels => {
                let levels = text(raw).ok_or_else(mismatch)?;
                check_levels(levels)?;
                Ok(Value::Text(levels.to_owned()))
            }
            Self::Store => {
                let url = text(raw).ok_or_else(mismatch)?;
                store::check(url)?;
                Ok(Value::Text(url.to_owned()))
            }
            Self::FileOrOff => match text(raw).ok_or_else(mismatch)? {
                OFF => Ok(Value::File(None)),
                path if path.is_empty() || path.contains('\0') => Err(mismatch()),
                path => Ok(Value::File(Some(path.into()))),
            },
            Self::Listen(_) => Err(mismatch()),
        }
    }

    fn mismatch(self, raw: &Raw) -> String {
        format!("is {}: expected {}", raw.shown(), self.expected())
    }

    fn expected(self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Count(..) => "a whole number, such as 16".to_owned(),
            Self::Size(..) => {
                "a size with a unit, such as \"100B\", \"512KiB\", \"1MiB\", \"1GiB\"".to_owned()
            }
            Self::Duration(..) => {
                "a duration with a unit, such as \"250ms\", \"5s\", \"10m\", \"1h\", \"7d\"".to_owned()
            }
            Self::DurationOrOff(..) => "\"off\", or a duration with a unit, such as \"30d\"".to_owned(),
            Self::DurationOrDefault(..) => {
                "\"default\", or a duration with a unit, such as \"30s\"".to_owned()
            }
            Self::Choice(choices) => {
                let choices: Vec<String> = choices.iter().map(|choice| unit::quoted(choice)).collect();
                choices.join(" or ")
            }
            Self::LogLevels => "log levels, such as \"info,oncebox=debug\"".to_owned(),
            Self::FileOrOff => "\"off\", or the path of a file, such as \"/etc/oncebox/keys\"".to_owned(),
            Self::Store => "a URL, such as \"embedded:./oncebox-data\"".to_owned(),
            Self::Listen(0) => "\"off\", or a list of addresses, such as [\"127.0.0.1:7421\"]".to_owned(),
            Self::Listen(_) => "a list of addresses, such as [\"127.0.0.1:7420\"]".to_owned(),
        }
    }

    /// The type name in the reference.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Count(..) => "count",
            Self::Size(..) => "size",
            Self::Duration(..) => "duration",
            Self::DurationOrOff(..) => "duration or `off`",
            Self::DurationOrDefault(..) => "duration or `default`",
            Self::Choice(_) => "keyword",
            Self::LogLevels => "log levels",
            Self::FileOrOff => "path or `off`",
            Self::Store => "URL",
            Self::Listen(0) => "list or `off`",
            Self::Listen(_) => "list",
        }
    }

    /// The range in the reference.
    pub(super) fn range(self) -> String {
        match self {
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Count(min, max) => format!("{min} to {max}"),
            Self::Size(min, max) => format!("{} to {}", unit::size(min), unit::size(max)),
            Self::Duration(min, max) => format!("{} to {}", unit::duration(min), unit::duration(max)),
            Self::DurationOrOff(min, max) => {
                format!("`off`, or {} to {}", unit::duration(min), unit::duration(max))
            }
            Self::DurationOrDefault(min, max) => {
                format!("`default`, or {} to {}", unit::duration(min), unit::duration(max))
            }
            Self::Choice(choices) => {
                let choices: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
                choices.join(" or ")
            }
            Self::LogLevels => format!("at most {LOG_LEVELS_BYTES_MAX} bytes"),
            Self::FileOrOff => "`off`, or the path of a file".to_owned(),
            Self::Store => "`memory:`, `embedded:DIRECTORY` or `postgres://HOST/DATABASE`".to_owned(),
            Self::Listen(0) => format!("`off`, or 1 to {LISTEN_MAX} entries"),
            Self::Listen(min) => format!("{min} to {LISTEN_MAX} entries"),
        }
    }

    /// Formats a value for display, without passwords.
    pub(super) fn plain(self, value: &Value) -> String {
        match (self, value) {
            (Self::Size(..), Value::Number(size)) => unit::size(*size),
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Bool(flag)) => flag.to_string(),
            (_, Value::Duration(duration) | Value::OptionalDuration(Some(duration))) => {
                unit::duration(*duration)
            }
            (Self::DurationOrDefault(..), Value::OptionalDuration(None)) => DEFAULT.to_owned(),
            (_, Value::OptionalDuration(None)) => OFF.to_owned(),
            (Self::Store, Value::Text(url)) => redacted(url),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::File(path)) => {
                path.as_ref().map_or_else(|| OFF.to_owned(), |path| path.display().to_string())
            }
            (_, Value::Listen(addresses)) if addresses.is_empty() => OFF.to_owned(),
            (_, Value::Listen(addresses)) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                addresses.join(",")
            }
        }
    }

    /// Formats a value as TOML, without passwords.
    pub(super) fn toml(self, value: &Value) -> String {
        match (self, value) {
            (Self::Bool | Self::Count(..), _) => self.plain(value),
            (_, Value::Listen(addresses)) if !addresses.is_empty() => {
                let addresses: Vec<String> =
                    addresses.iter().map(|address| unit::quoted(&address.to_string())).collect();
                format!("[{}]", addresses.join(", "))
            }
            _ => unit::quoted(&self.plain(value)),
        }
    }
}

fn within<T: PartialOrd>(value: T, min: T, max: T, shown: fn(T) -> String) -> Result<(), String> {
    if value < min {
        return Err(format!("is {}, but must be at least {}", shown(value), shown(min)));
    }
    if value > max {
        return Err(format!("is {}, but must be at most {}", shown(value), shown(max)));
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
        Raw::Bool(flag) => Some(*flag),
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
    if levels.len() > LOG_LEVELS_BYTES_MAX {
        return Err(format!(
            "has {} bytes, but at most {LOG_LEVELS_BYTES_MAX} are allowed: shorten it",
            levels.len()
        ));
    }
    // `Targets` accepts a bare target, and so would accept a misspelt level.
    let misspelt = levels
        .split(',')
        .find(|part| part.is_empty() || !part.contains('=') && LevelFilter::from_str(part).is_err());
    if let Some(part) = misspelt {
        return Err(format!(
            "contains {}, which is not a log level: use off, error, warn, info, debug, trace or TARGET=LEVEL",
            shown(part)
        ));
    }
    let parsed = Targets::from_str(levels);
    parsed
        .map(drop)
        .map_err(|_| format!("is {}: expected log levels, such as \"info,oncebox=debug\"", shown(levels)))
}
