-- As record_list_up.sql, with ids below $3, in descending order.
select current_setting('transaction_read_only')::boolean, r.id, r.version, r.written_at, r.expires_at, r.value
  from (select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) as clock
  left join lateral (
    select * from {schema}.record r
     where r.kind = $2 and r.id < $3 and r.expires_at > clock.now order by r.id desc limit $4) r on true
