-- Which of the messages $2 are still leased under the fences $3. $1 the time (null: the server's). Plan: lease_pkey
-- once per message.
select l.uid
  from {schema}.lease l
 where l.uid = any($2) and l.fence = any($3) and l.until > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
