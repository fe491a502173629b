//! Why a command did not end well, and the exit code that says so.

use std::error::Error as StdError;
use std::process::ExitCode;

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It failed; the text says why and what to do.
    Failed(String),
    /// Somebody stopped it, and saw that it stopped.
    Interrupted,
}

impl Trouble {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// What belongs on stderr.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Failed(text) => Some(text),
            Self::Interrupted => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            // 128 and the number of the signal, as shells count.
            Self::Interrupted => 130,
        })
    }
}

impl From<oncebox::Error> for Trouble {
    fn from(error: oncebox::Error) -> Self {
        let mut text = format!("{} ({})", error, error.kind().code());
        if let Some(source) = error.source() {
            text = format!("{text}: {source}");
        }
        Self::Failed(text)
    }
}

#[cfg(test)]
mod tests {
    use oncebox::{Error, Kind};

    use super::Trouble;

    #[test]
    fn an_error_is_told_with_its_code_and_what_is_below() {
        let error =
            Error::new(Kind::Unavailable, "the disk does not answer: try again").with_source("timeout");
        let trouble = Trouble::from(error);
        assert_eq!(trouble.text(), Some("the disk does not answer: try again (E_UNAVAILABLE): timeout"));
        assert_eq!(Trouble::Interrupted.text(), None);
    }
}
