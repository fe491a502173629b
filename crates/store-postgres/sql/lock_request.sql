-- Until the transaction ends, whoever comes with the same request waits.
select pg_advisory_xact_lock(hashtextextended('oncebox request ' || $1::text, 0))
