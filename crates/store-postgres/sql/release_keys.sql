-- Releases keys from the locked messages that hold them, before new messages take them; $1 hashes, $2 uids of the
-- locked messages. Plan: message_key once per key.
update {schema}.message m
   set keyed = false
 where m.key_hash = any($1) and m.keyed and m.uid = any($2)
