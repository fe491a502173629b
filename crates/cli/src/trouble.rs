//! Why a command did not end well, and the exit code that says so.

use std::error::Error as StdError;
use std::io;
use std::process::ExitCode;

use oncebox_client::Kind;

use crate::terms::{Terms, translate};

/// What the help of every command says about exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    it went well
  1    it failed, or a check did not hold: the last line on stderr says why and what to do
  2    the command line is wrong
  3    the server refused it: not found, lease lost, key taken, not allowed, ...
  4    the server is out of reach, stopping or full: try again later
  130  it was interrupted";

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It failed; the text says why and what to do.
    Failed(String),
    /// The command line asks for what cannot be.
    Misused(String),
    /// The server refused it.
    Refused(String),
    /// The same command may go well later.
    Later(String),
    /// Somebody stopped it, and saw that it stopped.
    Interrupted,
    /// Whoever read the output has gone; so it is no trouble.
    Unheard,
}

impl Trouble {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The same in the words of the command line.
    pub(crate) fn in_terms_of(self, terms: &Terms) -> Self {
        let told = |text: String| translate(&text, terms);
        match self {
            Self::Failed(text) => Self::Failed(told(text)),
            Self::Misused(text) => Self::Misused(told(text)),
            Self::Refused(text) => Self::Refused(told(text)),
            Self::Later(text) => Self::Later(told(text)),
            Self::Interrupted | Self::Unheard => self,
        }
    }

    /// What belongs on stderr.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::Misused(text) | Self::Refused(text) | Self::Later(text) => Some(text),
            Self::Interrupted | Self::Unheard => None,
        }
    }

    fn number(&self) -> u8 {
        match self {
            Self::Unheard => 0,
            Self::Failed(_) => 1,
            Self::Misused(_) => 2,
            Self::Refused(_) => 3,
            Self::Later(_) => 4,
            // 128 and the number of the signal, as shells count.
            Self::Interrupted => 130,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.number())
    }
}

impl From<oncebox::Error> for Trouble {
    fn from(error: oncebox::Error) -> Self {
        let mut text = format!("{} ({})", error, error.kind().code());
        if let Some(source) = error.source() {
            text = format!("{text}: {source}");
        }
        match error.kind() {
            oncebox::Kind::Unavailable | oncebox::Kind::Saturated => Self::Later(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<oncebox_client::Error> for Trouble {
    fn from(error: oncebox_client::Error) -> Self {
        let code = error.code().map(|code| code.as_str().to_owned());
        let call = error.corr_id().map(|id| format!("corr_id {id}"));
        let taken = error.msg_id().map(|id| format!("message {id}"));
        let marks: Vec<_> = code.into_iter().chain(taken).chain(call).collect();
        let mut text = error.to_string();
        if error.kind() != Kind::Invalid && !marks.is_empty() {
            text = format!("{text} ({})", marks.join(", "));
        }
        if let Some(source) = error.source() {
            text = format!("{text}: {source}");
        }
        let text = crate::text::plain(&text);
        match (error.kind(), error.status()) {
            (Kind::Invalid, _) => Self::Misused(text),
            _ if error.is_retryable() => Self::Later(text),
            (Kind::Refused, Some(400..500)) => Self::Refused(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Unheard;
        }
        Self::failed(format!("cannot write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use oncebox::{Error, Kind};

    use super::Trouble;

    #[test]
    fn an_error_is_told_with_its_code_and_what_is_below() {
        let error =
            Error::new(Kind::Unavailable, "the disk does not answer: try again").with_source("timeout");
        let trouble = Trouble::from(error);
        assert_eq!(trouble.text(), Some("the disk does not answer: try again (E_UNAVAILABLE): timeout"));
        assert_eq!(trouble.number(), 4);
        assert_eq!(Trouble::Interrupted.text(), None);
    }

    #[test]
    fn a_reader_that_has_gone_is_no_trouble() {
        let trouble = Trouble::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((trouble.number(), trouble.text()), (0, None));
    }

    #[test]
    fn a_wrong_address_is_a_wrong_command_line() {
        let trouble = Trouble::from(oncebox_client::Client::new("nowhere").unwrap_err());
        assert_eq!(trouble.number(), 2);
        assert!(trouble.text().unwrap().contains("http://127.0.0.1:7420"));
    }
}
