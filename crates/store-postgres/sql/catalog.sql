-- The contents of a schema: one fact per row, worded so that "table `x` <fact>" is a sentence. `$1` is the schema's
-- name.
-- Run with `search_path = pg_catalog`, so that the server qualifies every name of the schema. Small catalog joins by
-- oid, run by hand or at startup: no plan to rely on. Storage settings are left out: operators may tune them.
with target as (
  select oid, nspname, '"' || replace(nspname, '"', '""') || '"' as quoted from pg_namespace where nspname = $1
), relation as (
  select c.oid, c.relname, c.relkind, c.relpersistence, c.relrowsecurity, p.nspname
  from pg_class c join target p on p.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f')
), col as (
  select r.relname || '.' || a.attname as name, a.*, d.adbin, d.adrelid, l.collname
  from relation r
  join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = r.oid and d.adnum = a.attnum
  left join pg_collation l on l.oid = a.attcollation
), ind as (
  select i.relname as name, r.relname as table_name, x.indisunique, x.indisvalid and x.indisready as usable,
    substr(pg_get_indexdef(i.oid, 0, true),
      length(format('CREATE %sINDEX %I ON %I.%I USING ', case when x.indisunique then 'UNIQUE ' end, i.relname, r.nspname, r.relname)) + 1
    ) as definition
  from relation r
  join pg_index x on x.indrelid = r.oid
  join pg_class i on i.oid = x.indexrelid
  where not exists (select from pg_constraint k where k.conindid = i.oid and k.contype in ('p', 'u', 'x'))
), rule as (
  select r.relname || '.' || k.conname as name, pg_get_constraintdef(k.oid, true) as definition, k.convalidated
  from relation r
  join pg_constraint k on k.conrelid = r.oid
  where k.contype not in ('n', 't')
), counter as (
  select c.relname as name, s.*
  from target p
  join pg_class c on c.relnamespace = p.oid and c.relkind = 'S'
  join pg_sequence s on s.seqrelid = c.oid
), routine as (
  select f.oid, f.proname || '(' || pg_get_function_identity_arguments(f.oid) || ')' as name,
    pg_get_function_result(f.oid) as result, l.lanname, f.provolatile, f.prosecdef,
    replace(array_to_string(f.proconfig, '; '), 'search_path=' || quote_ident(p.nspname) || ',', 'search_path={schema},') as config,
    replace(f.prosrc, p.quoted, '{schema}') as body
  from target p
  join pg_proc f on f.pronamespace = p.oid
  join pg_language l on l.oid = f.prolang
)
select kind, name::text, aspect, fact from (
  select 'table' as kind, relname as name, 'kind' as aspect,
    'is ' || case relpersistence when 'u' then 'an unlogged ' when 't' then 'a temporary ' else 'a ' end
      || case relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'f' then 'foreign table' else 'view' end as fact
  from relation
  union all select 'table', relname, 'row security', 'has row security ' || case when relrowsecurity then 'enabled' else 'disabled' end
  from relation
  union all select 'table', relname, 'rights', 'grants ' || coalesce(nullif(concat_ws(', ',
      case when has_table_privilege(oid, 'select') then 'select' end,
      case when relname <> 'meta' and has_table_privilege(oid, 'insert') then 'insert' end,
      case when relname <> 'meta' and has_table_privilege(oid, 'update') then 'update' end,
      case when relname <> 'meta' and has_table_privilege(oid, 'delete') then 'delete' end), ''), 'nothing')
  from relation
  union all select 'column', name, 'type', 'is ' || format_type(atttypid, atttypmod) from col
  union all select 'column', name, 'null', 'is ' || case when attnotnull then 'required' else 'nullable' end from col
  union all select 'column', name, 'default', 'has ' || case
      when attidentity <> '' or attgenerated <> '' then 'a generated value'
      else coalesce('the default ' || pg_get_expr(adbin, adrelid), 'no default') end
  from col
  union all select 'column', name, 'collation', 'has ' || coalesce('the collation ' || quote_ident(collname), 'no collation') from col
  union all select 'index', name, 'table', 'is on ' || table_name from ind
  union all select 'index', name, 'uniqueness', 'is ' || case when indisunique then 'unique' else 'plain' end from ind
  union all select 'index', name, 'definition', 'is ' || definition from ind
  union all select 'index', name, 'state', 'is ' || case when usable then 'complete' else 'incomplete' end from ind
  union all select 'constraint', name, 'definition', 'is ' || definition from rule
  union all select 'constraint', name, 'state', 'is ' || case when convalidated then 'checked' else 'unchecked' end from rule
  union all select 'sequence', name, 'type', 'is ' || format_type(seqtypid, null) from counter
  union all select 'sequence', name, 'steps', 'counts by ' || seqincrement || ' up to ' || seqmax
      || case when seqcycle then ', then from the start' else '' end
  from counter
  union all select 'function', name, 'result', 'returns ' || result from routine
  union all select 'function', name, 'manner', 'is ' || concat_ws(' ', lanname, case provolatile when 'v' then 'volatile' when 's' then 'stable' else 'immutable' end,
      case when prosecdef then 'security definer' else 'security invoker' end)
  from routine
  union all select 'function', name, 'settings', 'has ' || coalesce('the settings ' || nullif(config, ''), 'no settings') from routine
  union all select 'function', name, 'body', body from routine
  union all select 'function', name, 'rights',
      case when has_function_privilege(oid, 'execute') then 'grants execute' else 'grants nothing' end
  from routine
) facts
order by kind collate "C", name collate "C", aspect collate "C"
