-- Whether the server only reads; and for the rest of the transaction: no compiling of what runs once, no reading of tables from one end to the other.
select current_setting('transaction_read_only')::boolean, set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)
