-- Writes new messages; one array per column, as in update.sql. Skips a message whose key or uid is no longer
-- free: the caller compares the count.
-- Plan: no scan except of the arrays.
insert into {schema}.message ({message_names}, attributes, payload)
select {message_names}, attributes::jsonb, payload
  from {message_input}
on conflict do nothing
