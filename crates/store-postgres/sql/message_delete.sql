-- Deletes locked messages. Plan: message_pkey once per uid.
delete from {schema}.message where uid = any($1)
