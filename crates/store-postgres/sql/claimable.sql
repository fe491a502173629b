-- Not a statement, but a condition of several: whether a message `m` may be claimed at `clock.now`.
-- Subqueries, not joins: each is one probe of an index, whatever the planner believes about the tables.
m.ready
and (m.expires is null or m.expires > clock.now)
and (select true from {schema}.lease l where l.uid = m.uid) is null
and (m.partition is null
     or (select true from {schema}.lease l where l.namespace = m.namespace and l.partition = m.partition) is null
    and (select true from {schema}.message o
          where o.namespace = m.namespace and o.partition = m.partition and o.state = 1 and o.number < m.number and o.topic is not null
            and (o.due is null or o.due <= clock.now)
            and (select true from {schema}.lease l where l.uid = o.uid) is null
          limit 1) is null)
