//! Reads the tables with plain SQL.

use oncebox_testkit::servers::psql;

use crate::Failure;

const COUNTS: &str = "\
select (select count(*) from oncebox.message where namespace = 0 and state in (2, 3)),
       (select count(*) from oncebox.message where namespace = 0 and state in (0, 1))";

/// All messages, as `oncebox_audit::workers::protocol` describes them.
const ROWS: &str = "\
select m.id, replace(m.uid::text, '-', ''), m.state, m.deliveries, m.attempts, m.end_fence, m.end_kind,
       (select count(*) from oncebox.lease l where l.uid = m.uid)
  from oncebox.message m";

/// How many messages are done or dead, and how many are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) finished: u64,
    pub(super) open: u64,
}

/// Counts messages. Returns `None` while the server is down.
pub(super) fn counts(url: &str) -> Option<Counts> {
    let row = psql(url, COUNTS).ok()?;
    let (finished, open) = row.split_once('|')?;
    Some(Counts { finished: finished.parse().ok()?, open: open.parse().ok()? })
}

pub(super) fn rows(url: &str) -> Result<String, Failure> {
    Ok(psql(url, ROWS)?)
}

/// Terminates up to `count` random client backends, active ones first if `busy`. Returns how many.
pub(super) fn terminate_backends(url: &str, count: u64, busy: bool) -> Result<u64, Failure> {
    let order = if busy { "state = 'active' desc," } else { "" };
    let terminated = psql(
        url,
        &format!(
            "select count(*) filter (where pg_terminate_backend(pid)) from (
               select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
                order by {order} random() limit {count}) chosen"
        ),
    )?;
    Ok(terminated.parse()?)
}
