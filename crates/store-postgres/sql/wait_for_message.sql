-- Waits until no other transaction has locked message $1, at most 50 ms. Plan: message_pkey.
with clock as materialized (select set_config('lock_timeout', '50', true) as lock_timeout)
select m.uid from clock, {schema}.message m where m.uid = $1 for no key update of m
