-- Sets what the records of the kind $1 use: $2 the last version, $3 records, $4 bytes. Plan: record_kind_pkey.
update {schema}.record_kind set last_version = $2, records = $3, bytes = $4 where name = $1
