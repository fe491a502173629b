-- Takes keys away from who has them, before somebody else gets them; $1 namespaces, $2 hashes, $3 those that are locked. Plan: message_key once per key.
update {schema}.message m
   set keyed = false
  from unnest($1::smallint[], $2::uuid[]) as given (namespace, key_hash)
 where m.namespace = given.namespace and m.key_hash = given.key_hash and m.keyed and m.uid = any($3)
