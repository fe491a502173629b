-- Whether the server is read-only; and for the rest of the transaction: no JIT compilation for statements that run
-- once, no sequential scans.
select current_setting('transaction_read_only')::boolean, set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)
