-- Writes locked messages; one array per column, from `columns.rs`. Unchanged content is not sent, and its
-- out-of-line storage is not touched. Plan: message_pkey once per message.
update {schema}.message m
   set {message_assignments},
       attributes = case when input.content_unchanged then m.attributes else input.attributes::jsonb end,
       payload = case when input.content_unchanged then m.payload else input.payload end
  from {message_input}
 where m.uid = any(array[input.uid])
