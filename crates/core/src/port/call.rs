//! The size of a call, which every store checks before it executes the call.

use crate::error::{Error, Invalid};
use crate::limits::{CALL_ITEMS_MAX, CLAIM_MESSAGES_MAX, RECORD_OPS_MAX};
use crate::port::{Claim, RecordOp};

/// Checks the number of items in one [`crate::Store::work`] call.
pub fn check_work(settlements: usize, claims: &[Claim]) -> Result<(), Error> {
    check_call(settlements + claims.len())?;
    let messages: u64 = claims.iter().map(|claim| u64::from(claim.batch.get())).sum();
    if messages > u64::from(CLAIM_MESSAGES_MAX) {
        let given = usize::try_from(messages).unwrap_or(usize::MAX);
        return Err(Invalid::too_many("claims", CLAIM_MESSAGES_MAX as usize, given).into());
    }
    Ok(())
}

/// Checks the number of operations in one [`crate::Store::records`] call.
pub fn check_records(ops: &[RecordOp]) -> Result<(), Error> {
    if ops.len() > RECORD_OPS_MAX {
        return Err(Invalid::too_many("call", RECORD_OPS_MAX, ops.len()).into());
    }
    Ok(())
}

/// Checks the number of items in one call.
pub fn check_call(items: usize) -> Result<(), Error> {
    if items > CALL_ITEMS_MAX {
        return Err(Invalid::too_many("call", CALL_ITEMS_MAX, items).into());
    }
    Ok(())
}
