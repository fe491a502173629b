//! From a URL to a store: settings, refusals, and what is never told.

use std::path::Path;

use oncebox_core::{Kind, Store};
use oncebox_store_postgres::{Address, Options, Pooler, PostgresStore, Schema};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};

/// Holds: IBX-114, IBX-115, IBX-116.
#[tokio::test]
async fn tables_are_made_only_if_that_is_asked_for() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let open = async |settings: &str| {
        PostgresStore::open(&format!("{}{settings}", database.url()), Options::default()).await
    };
    for settings in ["", "?ensure=no"] {
        let refused = open(settings).await.err().ok_or("it opened")?;
        assert_eq!(refused.kind(), Kind::Invalid);
        assert_eq!(
            refused.to_string(),
            "the schema `oncebox` has no tables of oncebox: run `oncebox schema ensure`, or set `ensure=yes` in the store's URL"
        );
    }
    assert_eq!(psql(database.url(), "select count(*) from pg_namespace where nspname = 'oncebox'")?, "0");
    open("?ensure=yes").await?.close().await?;
    for settings in ["", "?ensure=yes", "?ensure=no"] {
        open(settings).await?.close().await?;
    }
    psql(database.url(), "update oncebox.meta set value = '1000'")?;
    for settings in ["", "?ensure=yes"] {
        assert_eq!(open(settings).await.err().map(|error| error.kind()), Some(Kind::Unsupported));
    }
    Ok(())
}

/// Holds: CMD-08.
#[tokio::test]
async fn settings_in_a_url_are_the_stores_or_the_servers() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = format!("{}?schema=my+%22own%22&connections=2&sslmode=disable&ensure=yes", database.url());
    let address = Address::parse(&url.replace("postgres://", "postgresql://"), Options::default())?;
    let options = address.options();
    assert_eq!((options.schema.name(), options.connections, options.ensure), ("my \"own\"", 2, true));
    let pool = address.connect().await?;
    let shown: (String, String) =
        sqlx::query_as("select current_setting('application_name'), current_setting('statement_timeout')")
            .fetch_one(&pool)
            .await?;
    assert_eq!(shown, ("oncebox".to_owned(), "30s".to_owned()));
    options.schema.ensure(&pool).await?;
    assert_eq!(options.schema, Schema::new("my \"own\"")?);

    let url = format!("{}?application_name=mine&options[statement_timeout]=7s", database.url());
    let pool = Address::parse(&url, Options::default())?.connect().await?;
    let shown: (String, String) =
        sqlx::query_as("select current_setting('application_name'), current_setting('statement_timeout')")
            .fetch_one(&pool)
            .await?;
    assert_eq!(shown, ("mine".to_owned(), "7s".to_owned()));
    let pooled = Address::parse("postgres://host/db?pooler=transaction", Options::default())?;
    assert_eq!(pooled.options().pooler, Pooler::Transaction);
    Ok(())
}

/// Whoever answers must be who the certificate says, if that is asked for; nothing is sent to another one.
/// Holds: IBX-128.
#[tokio::test]
async fn a_url_can_ask_for_tls() -> TestResult {
    let [server, other] = [Postgres::with_tls()?, Postgres::with_tls()?];
    let (own, foreign) = (server.certificate(), other.certificate());
    let open = async |settings: &str| {
        PostgresStore::open(&format!("{}?{settings}", server.url()), Options::default()).await
    };
    let verified = |root: &Path| format!("ensure=yes&sslmode=verify-full&sslrootcert={}", root.display());
    let store = open(&verified(&own)).await?;
    let sessions = "select count(*), count(*) filter (where ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
                    where application_name = 'oncebox'";
    let told = server.psql(sessions)?;
    let (all, encrypted) = told.split_once('|').ok_or("two numbers")?;
    assert!(all != "0" && all == encrypted, "{told}");
    store.close().await?;

    let refused = open(&verified(&foreign)).await.err().ok_or("it took another's certificate")?;
    assert_eq!(refused.kind(), Kind::Unavailable);
    open("sslmode=require").await?.close().await?;
    let plain = Postgres::shared()?.url();
    let refused = PostgresStore::open(&format!("{plain}?sslmode=require"), Options::default()).await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(Kind::Unavailable));
    Ok(())
}

#[test]
fn a_wrong_url_is_refused_with_what_to_do_and_without_its_password() {
    for (url, text) in [
        ("mysql://u:secret@h/d", "a store on PostgreSQL has a URL like `postgres://user@host/database`"),
        ("postgres:secret", "a store on PostgreSQL has a URL like `postgres://user@host/database`"),
        ("postgres://u:secret@h/d?connections", "a setting is not name=value"),
        ("postgres://u:secret@h/d?connections=0", "connections is not a number from 1 to 1000"),
        ("postgres://u:secret@h/d?keys_max=0", "keys_max is not a number from 1 on"),
        ("postgres://u:secret@h/d?ensure=maybe", "ensure is neither `yes` nor `no`"),
        (
            "postgres://u:secret@h/d?pooler=session",
            "pooler is not `transaction`: without a pooler, leave it out",
        ),
        ("postgres://u:secret@h/d?schema=", "the schema's name is empty: give it one"),
        ("postgres://u:secret@h/d?schema=%FF", "a setting is not UTF-8"),
        (
            "postgres://u:a?secret=b@h/d",
            "an `@` stands after the `?`: write `?` in a password as %3F, and `@` as %40",
        ),
        (
            "postgres://u:secret@h/d?shema=x",
            "no setting is called `shema`: this store knows schema, connections, ensure, pooler, keys_max; the driver knows sslmode, \
             sslrootcert, sslcert, sslkey, host, hostaddr, port, dbname, user, password, application_name, options",
        ),
        (
            "postgres://u:secret@h:port/d",
            "the URL of the database cannot be read: write what is special in a password or a setting as %40 for `@`",
        ),
        (
            "postgres://u@h/d?password=secret&sslmode=secret",
            "the URL of the database cannot be read: write what is special in a password or a setting as %40 for `@`",
        ),
    ] {
        let refused = Address::parse(url, Options::default()).unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (Kind::Invalid, text), "{url}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
    let address = Address::parse("postgres://u:secret@h/d?schema=x", Options::default()).unwrap();
    assert_eq!(format!("{address:?}"), "Address { schema: \"x\", .. }");
}

/// A server that wants a password does not get the right one, and another does not have the database.
#[tokio::test]
async fn a_server_that_refuses_is_told_without_the_password() -> TestResult {
    let server = Postgres::shared()?;
    for (url, text) in [
        (
            server.url_for("nowhere"),
            "the server has no such database (SQLSTATE 3D000): make it, or name another",
        ),
        (
            server.url().replace("postgres@", "nobody:secret@"),
            "the database does not let us in (SQLSTATE 28000): check user and password",
        ),
    ] {
        let refused = PostgresStore::open(&url, Options::default()).await.err().ok_or("it opened")?;
        assert_eq!((refused.kind(), refused.to_string().as_str()), (Kind::Unavailable, text));
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
    Ok(())
}
