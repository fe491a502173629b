-- Writes the leases of messages that are locked.
insert into {schema}.lease (uid, owner, request, fence, until, extend_max, check_at, namespace, in_flight, partition)
select uid, owner, request, fence, until, extend_max, until, namespace, in_flight, partition
  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::smallint[], $8::boolean[], $9::text[])
    as given (uid, owner, request, fence, until, extend_max, namespace, in_flight, partition)
on conflict (uid) do update
   set owner = excluded.owner, request = excluded.request, fence = excluded.fence, until = excluded.until, extend_max = excluded.extend_max,
       check_at = excluded.until, in_flight = excluded.in_flight, partition = excluded.partition
