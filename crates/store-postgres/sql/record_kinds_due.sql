-- The kinds that have expired records. $1 the time (null: the server's). Plan: all kinds, which are few; record_expiry once
-- per kind.
select k.name from {schema}.record_kind k
 where exists (select from {schema}.record r
                where r.kind = k.name and r.expires_at < 9223372036854775807
                  and r.expires_at <= (select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)))
