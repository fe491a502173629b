-- Writes new messages as they stand; one array per column, as in update.sql. A key or uid that was taken meanwhile is not written: the caller counts.
-- Plan: no scan but of the arrays.
insert into {schema}.message ({message_names}, attributes, payload)
select {message_names}, attributes::jsonb, payload
  from {message_given}
on conflict do nothing
