-- Not a statement but a condition that several statements share: whether message `m` may be claimed at `clock.now`.
-- Subqueries instead of joins: each is one index probe, whatever the planner estimates. `coalesce` instead of `is
-- null`: the planner estimates that hardly any row passes `is null`, and sorts the whole lane.
m.ready
and (m.expires is null or m.expires > clock.now)
and coalesce((select false from {schema}.lease l where l.uid = m.uid), true)
and (m.partition is null
     or coalesce((select false from {schema}.lease l where l.namespace = m.namespace and l.partition = m.partition), true)
    and (select true from {schema}.message o
          where o.namespace = m.namespace and o.partition = m.partition and o.state = 1 and o.number < m.number and o.topic is not null
            and (o.due is null or o.due <= clock.now)
            and coalesce((select false from {schema}.lease l where l.uid = o.uid), true)
          limit 1) is null)
