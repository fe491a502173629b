-- Takes keys away from who has them, before somebody else gets them; $1 hashes, $2 those that are locked. Plan: message_key once per key.
update {schema}.message m
   set keyed = false
 where m.key_hash = any($1) and m.keyed and m.uid = any($2)
