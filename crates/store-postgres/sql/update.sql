-- Writes messages that are locked, as they stand now; one array per column, from `columns.rs`. Content that stays is not given, and what the server
-- has out of line of it is not touched. Plan: message_pkey once per message.
update {schema}.message m
   set {message_assignments},
       attributes = case when given.content_stays then m.attributes else given.attributes::jsonb end,
       payload = case when given.content_stays then m.payload else given.payload end
  from {message_given}
 where m.uid = any(array[given.uid])
