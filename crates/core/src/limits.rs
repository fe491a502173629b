//! Every bound of the vocabulary and of a call, in one place, the unit last.

use std::time::Duration;

use crate::error::{Error, Invalid};
use crate::port::Claim;

/// Longest source, id, topic, partition or trace id.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// Longest source, id and topic that the inbox face takes (IBX-011, IBX-012, IBX-020).
pub const INBOX_TEXT_CHARS_MAX: usize = 255;
/// Longest name of a worker.
pub const WORKER_BYTES_MAX: usize = 128;
/// Most names of workers in the counts of a topic.
pub const TOPIC_WORKERS_MAX: usize = 8;
/// Largest payload any store takes.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest caller's hash.
pub const HASH_BYTES_MAX: usize = 128;
/// Longest name of a caller's hash algorithm.
pub const HASH_ALGORITHM_BYTES_MAX: usize = 32;
/// Most attributes on one message.
pub const ATTRIBUTES_COUNT_MAX: usize = 64;
/// Longest attribute name.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 128;
/// All attribute names and values of one message together.
pub const ATTRIBUTES_BYTES_MAX: usize = 16 * 1024;
/// Longest kept error text; longer ones are cut.
pub const LAST_ERROR_BYTES_MAX: usize = 4 * 1024;
/// Most topics that one claim may name.
pub const CLAIM_TOPICS_MAX: usize = 64;
/// Most messages that one claim may take.
pub const CLAIM_MESSAGES_MAX: u32 = 10_000;
/// Most items in one call of the port.
pub const CALL_ITEMS_MAX: usize = 10_000;
/// Most messages on one page.
pub const PAGE_ITEMS_MAX: u32 = 1_000;
/// Most topics with a retention of their own.
pub const RETENTION_TOPICS_MAX: usize = 1_000;
/// Longest lease or retry delay.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// How long a finished message answers a repeated settlement, at least.
pub const REPEAT_WINDOW: Duration = Duration::from_secs(10 * 60);
/// How many times its visibility a mailbox delivery can be held by extensions (MBX-P-9).
pub const MAILBOX_EXTEND_FACTOR: u32 = 10;
/// Deliveries of an inbox message that may end badly, if neither its sender nor its claimer named a limit (IBX-084).
pub const INBOX_ATTEMPTS_DEFAULT: u32 = 10;
/// The same for a command.
pub const COMMANDS_ATTEMPTS_DEFAULT: u32 = 5;
/// The same for a mailbox message.
pub const MAILBOX_ATTEMPTS_DEFAULT: u32 = 16;
/// How far a mailbox lane runs ahead of its oldest inherited delivery after a restart (MBX-G-9).
pub const MAILBOX_REORDER_MESSAGES_MAX: usize = 32;

/// Checks the number of items in one call that works.
pub fn check_work(settlements: usize, claims: &[Claim]) -> Result<(), Error> {
    check_call(settlements + claims.len())?;
    let messages: u64 = claims.iter().map(|claim| u64::from(claim.batch.get())).sum();
    if messages > u64::from(CLAIM_MESSAGES_MAX) {
        let given = usize::try_from(messages).unwrap_or(usize::MAX);
        return Err(Invalid::too_many("claims", CLAIM_MESSAGES_MAX as usize, given).into());
    }
    Ok(())
}

/// Checks the number of items in one call of the port.
pub fn check_call(items: usize) -> Result<(), Error> {
    if items > CALL_ITEMS_MAX {
        return Err(Invalid::too_many("call", CALL_ITEMS_MAX, items).into());
    }
    Ok(())
}
