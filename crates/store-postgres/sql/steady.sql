-- For the rest of the transaction: no compiling of what runs once, no reading of tables from one end to the other.
select set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)
