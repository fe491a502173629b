-- Makes a used database like a new one. Sessions first: what they hold locked could not be dropped.
-- Looks at a handful of rows of pg_stat_activity and pg_namespace; no plan to rely on.
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
