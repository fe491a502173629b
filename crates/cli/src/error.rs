//! Errors of commands and their exit codes.

use std::error::Error as StdError;
use std::io;
use std::process::ExitCode;

use oncebox_client::ClientErrorKind;

use crate::flag_names::{FlagNames, translate};

/// The exit codes, as shown in the help of every command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure, or a check found problems: the last line on stderr says why and what to do
  2    invalid command line
  3    refused by the server: not found, lease lost, key in use, not allowed, ...
  4    the server is unreachable, shutting down or full: try again later
  130  interrupted";

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The command failed; the text says why and what to do.
    Failed(String),
    /// The command line is invalid.
    Usage(String),
    /// The server refused the request.
    Refused(String),
    /// The same command may succeed later.
    Retryable(String),
    /// The user interrupted the command; no message is needed.
    Interrupted,
    /// The reader of the output has closed the pipe; not an error.
    OutputClosed,
}

impl CliError {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// Replaces field names of the server by flags of the command line.
    pub(crate) fn with_flag_names(self, flag_names: &FlagNames) -> Self {
        let translated = |text: String| translate(&text, flag_names);
        match self {
            Self::Failed(text) => Self::Failed(translated(text)),
            Self::Usage(text) => Self::Usage(translated(text)),
            Self::Refused(text) => Self::Refused(translated(text)),
            Self::Retryable(text) => Self::Retryable(translated(text)),
            Self::Interrupted | Self::OutputClosed => self,
        }
    }

    /// The message for stderr.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Failed(text) | Self::Usage(text) | Self::Refused(text) | Self::Retryable(text) => {
                Some(text)
            }
            Self::Interrupted | Self::OutputClosed => None,
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            Self::Retryable(_) => 4,
            // 128 plus the signal number, the convention of shells.
            Self::Interrupted => 130,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

impl From<oncebox::Error> for CliError {
    fn from(error: oncebox::Error) -> Self {
        let mut text = format!("{} ({})", error, error.kind().code());
        if let Some(source) = error.source() {
            text = format!("{text}: {source}");
        }
        match error.kind() {
            oncebox::ErrorKind::Unavailable | oncebox::ErrorKind::Saturated => Self::Retryable(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<oncebox_client::ClientError> for CliError {
    fn from(error: oncebox_client::ClientError) -> Self {
        let code = error.code().map(|code| code.as_str().to_owned());
        let call = error.corr_id().map(|id| format!("corr_id {id}"));
        let message = error.msg_id().map(|id| format!("message {id}"));
        let details: Vec<_> = code.into_iter().chain(message).chain(call).collect();
        let mut text = error.to_string();
        if error.kind() != ClientErrorKind::Invalid && !details.is_empty() {
            text = format!("{text} ({})", details.join(", "));
        }
        if let Some(source) = error.source() {
            text = format!("{text}: {source}");
        }
        let text = crate::text::escape(&text);
        match (error.kind(), error.status()) {
            (ClientErrorKind::Invalid, _) => Self::Usage(text),
            _ if error.is_retryable() => Self::Retryable(text),
            (ClientErrorKind::ErrorResponse, Some(400..500)) => Self::Refused(text),
            _ => Self::Failed(text),
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::failed(format!("cannot write the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use oncebox::{Error, ErrorKind};

    use super::CliError;

    #[test]
    fn an_error_is_shown_with_its_code_and_its_source() {
        let error =
            Error::new(ErrorKind::Unavailable, "the disk does not respond: try again").with_source("timeout");
        let cli_error = CliError::from(error);
        assert_eq!(cli_error.text(), Some("the disk does not respond: try again (E_UNAVAILABLE): timeout"));
        assert_eq!(cli_error.code(), 4);
        assert_eq!(CliError::Interrupted.text(), None);
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let cli_error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((cli_error.code(), cli_error.text()), (0, None));
    }

    #[test]
    fn an_invalid_server_address_is_a_usage_error() {
        let cli_error = CliError::from(oncebox_client::Client::new("nowhere").unwrap_err());
        assert_eq!(cli_error.code(), 2);
        assert!(cli_error.text().unwrap().contains("http://127.0.0.1:7420"));
    }
}
