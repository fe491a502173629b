//! Opening a store from a URL: settings, errors, and secrets that are never shown.

use std::path::Path;

use oncebox_core::{ErrorKind, Store};
use oncebox_store_postgres::{Address, Pooler, PostgresOptions, PostgresStore, Schema};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};

/// Holds: IBX-114, IBX-115, IBX-116.
#[tokio::test]
async fn tables_are_created_only_on_request() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let open = async |settings: &str| {
        PostgresStore::open(&format!("{}{settings}", database.url()), PostgresOptions::default()).await
    };
    for settings in ["", "?ensure=no"] {
        let error = open(settings).await.err().ok_or("the store opened")?;
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            "the schema `oncebox` has no oncebox tables: run `oncebox schema ensure`, or set `ensure=yes` in the store's URL"
        );
    }
    assert_eq!(psql(database.url(), "select count(*) from pg_namespace where nspname = 'oncebox'")?, "0");
    open("?ensure=yes").await?.close().await?;
    for settings in ["", "?ensure=yes", "?ensure=no"] {
        open(settings).await?.close().await?;
    }
    psql(database.url(), "update oncebox.meta set value = '1000'")?;
    for settings in ["", "?ensure=yes"] {
        assert_eq!(open(settings).await.err().map(|error| error.kind()), Some(ErrorKind::Unsupported));
    }
    Ok(())
}

/// Holds: CMD-08.
#[tokio::test]
async fn url_settings_apply_to_the_store_or_the_driver() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = format!("{}?schema=my+%22own%22&connections=2&sslmode=disable&ensure=yes", database.url());
    let address = Address::parse(&url.replace("postgres://", "postgresql://"), PostgresOptions::default())?;
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
    let pool = Address::parse(&url, PostgresOptions::default())?.connect().await?;
    let shown: (String, String) =
        sqlx::query_as("select current_setting('application_name'), current_setting('statement_timeout')")
            .fetch_one(&pool)
            .await?;
    assert_eq!(shown, ("mine".to_owned(), "7s".to_owned()));
    let pooled = Address::parse("postgres://host/db?pooler=transaction", PostgresOptions::default())?;
    assert_eq!(pooled.options().pooler, Pooler::Transaction);
    Ok(())
}

/// If the URL requires it, the server's certificate is verified; nothing is sent to another server.
/// Holds: IBX-128.
#[tokio::test]
async fn a_url_can_require_tls() -> TestResult {
    let [server, other] = [Postgres::with_tls()?, Postgres::with_tls()?];
    let (own, foreign) = (server.certificate(), other.certificate());
    let open = async |settings: &str| {
        PostgresStore::open(&format!("{}?{settings}", server.url()), PostgresOptions::default()).await
    };
    let verified = |root: &Path| format!("ensure=yes&sslmode=verify-full&sslrootcert={}", root.display());
    let store = open(&verified(&own)).await?;
    let sessions = "select count(*), count(*) filter (where ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
                    where application_name = 'oncebox'";
    let counts = server.psql(sessions)?;
    let (all, encrypted) = counts.split_once('|').ok_or("expected two numbers")?;
    assert!(all != "0" && all == encrypted, "{counts}");
    store.close().await?;

    let error =
        open(&verified(&foreign)).await.err().ok_or("the store accepted another server's certificate")?;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    open("sslmode=require").await?.close().await?;
    let plain = Postgres::shared()?.url();
    let error = PostgresStore::open(&format!("{plain}?sslmode=require"), PostgresOptions::default()).await;
    assert_eq!(error.err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
    Ok(())
}

#[test]
fn an_invalid_url_is_rejected_without_showing_its_password() {
    for (url, text) in [
        ("mysql://u:secret@h/d", "invalid PostgreSQL URL: expected `postgres://user@host/database`"),
        ("postgres:secret", "invalid PostgreSQL URL: expected `postgres://user@host/database`"),
        ("postgres://u:secret@h/d?connections", "invalid setting in the URL: expected name=value"),
        ("postgres://u:secret@h/d?connections=0", "connections must be a number from 1 to 1000"),
        ("postgres://u:secret@h/d?keys_max=0", "keys_max must be a number of at least 1"),
        ("postgres://u:secret@h/d?ensure=maybe", "ensure must be `yes` or `no`"),
        (
            "postgres://u:secret@h/d?pooler=session",
            "pooler must be `transaction`: without a pooler, leave it out",
        ),
        ("postgres://u:secret@h/d?schema=", "the schema name is empty: choose one"),
        ("postgres://u:secret@h/d?schema=%FF", "a setting in the URL is not valid UTF-8"),
        (
            "postgres://u:a?secret=b@h/d",
            "found `@` after `?`: in a password, write `?` as %3F and `@` as %40",
        ),
        (
            "postgres://u:secret@h/d?shema=x",
            "unknown setting `shema`: the store has schema, connections, ensure, pooler, keys_max; the driver has sslmode, \
             sslrootcert, sslcert, sslkey, host, hostaddr, port, dbname, user, password, application_name, options",
        ),
        (
            "postgres://u:secret@h:port/d",
            "cannot parse the database URL: percent-encode special characters in passwords and settings, such as `@` as %40",
        ),
        (
            "postgres://u@h/d?password=secret&sslmode=secret",
            "cannot parse the database URL: percent-encode special characters in passwords and settings, such as `@` as %40",
        ),
    ] {
        let error = Address::parse(url, PostgresOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, text), "{url}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let address = Address::parse("postgres://u:secret@h/d?schema=x", PostgresOptions::default()).unwrap();
    assert_eq!(format!("{address:?}"), "Address { schema: \"x\", .. }");
}

/// One server rejects the credentials, and another does not have the database.
#[tokio::test]
async fn server_errors_do_not_show_the_password() -> TestResult {
    let server = Postgres::shared()?;
    for (url, text) in [
        (
            server.url_for("nowhere"),
            "the database does not exist (SQLSTATE 3D000): create it, or use another one",
        ),
        (
            server.url().replace("postgres@", "nobody:secret@"),
            "authentication failed (SQLSTATE 28000): check user and password",
        ),
    ] {
        let error =
            PostgresStore::open(&url, PostgresOptions::default()).await.err().ok_or("the store opened")?;
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Unavailable, text));
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    Ok(())
}
