//! Random bytes from the operating system.

use crate::error::CliError;

pub(super) fn bytes<const COUNT: usize>() -> Result<[u8; COUNT], CliError> {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).map_err(|error| CliError::failed(format!("no random bytes: {error}")))?;
    Ok(bytes)
}
