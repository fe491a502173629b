-- Resets a used database to an empty one. Sessions are terminated first, because their locks would block the drops.
-- Reads a handful of rows of pg_stat_activity and pg_namespace, so it relies on no particular plan.
do $$
declare
    found record;
begin
    perform pg_terminate_backend(pid, 10000)
    from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid();
    for found in select extname from pg_extension where extname <> 'plpgsql' loop
        execute format('drop extension if exists %I cascade', found.extname);
    end loop;
    for found in select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema' loop
        execute format('drop schema %I cascade', found.nspname);
    end loop;
    create schema public authorization pg_database_owner;
    grant usage on schema public to public;
    execute format('alter database %I reset all', current_database());
end
$$
