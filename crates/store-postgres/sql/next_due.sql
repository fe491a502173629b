-- When time changes something next; and per shelf the first entry, for what is forgotten. Plan: one probe of lease_check, one of message_shelf per shelf.
select (select min(check_at) from {schema}.lease), shelf.name,
       (select min(m.shelf_at) from {schema}.message m where m.shelf = shelf.name)
  from unnest(array[1, 2, 3, 4, 5, 13, 14, 15]::smallint[]) as shelf (name)
