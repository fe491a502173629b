-- Removes messages that are locked. Plan: message_pkey once per uid.
delete from {schema}.message where uid = any($1)
