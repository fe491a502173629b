//! The limit after a restart ends, whatever this process claims.

use std::time::Duration;

use oncebox_core::{
    Batch, Claim, Id, Key, Namespace, NewMessage, Owner, Payload, Source, Span, Store, StoreExt, Topic,
    Topics,
};
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::Postgres;
use sqlx::PgPool;
use tokio::time::{sleep, timeout};

use crate::options::PostgresOptions;
use crate::schema::Schema;
use crate::store::PostgresStore;

fn mail(topic: &str, number: u32) -> NewMessage {
    let id = Id::new(format!("{topic} {number}")).unwrap();
    let key = Key::new(Namespace::Mailbox, Source::new("box").unwrap(), id);
    NewMessage::new(key, Topic::new(topic).unwrap(), Payload::new("hello").unwrap())
}

fn claim(topic: &str) -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(Duration::from_secs(600)).unwrap());
    let topics = Topics::only([Topic::new(topic).unwrap()]).unwrap();
    Claim { topics, ..Claim::new(Namespace::Mailbox, owner, lease, Batch::new(1).unwrap()) }
}

/// A process that never claims from the lane of an inherited delivery notices that it was settled: from then on, it makes
/// several claims of the mailbox at a time.
/// Holds: MBX-G-9.
#[tokio::test]
async fn an_inherited_delivery_of_a_lane_that_is_not_claimed_is_forgotten() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = PgPool::connect(database.url()).await?;
    Schema::default().ensure(&pool).await?;
    let [before, after] = [(); 2].map(|()| PostgresStore::new(pool.clone(), &PostgresOptions::default()));
    before.accept(&[mail("elsewhere", 0), mail("here", 0)]).await?;
    let held = before.claim(&claim("elsewhere")).await?;
    assert_eq!(after.claim(&claim("here")).await?.len(), 1);
    assert!(after.restart.inherited().await.is_some(), "the delivery is outstanding");
    StoreExt::settle(&before, &[held[0].ack()]).await?;
    let noticed = async {
        for number in 1.. {
            after.accept(&[mail("here", number)]).await?;
            assert_eq!(after.claim(&claim("here")).await?.len(), 1);
            if after.restart.inherited().await.is_none() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, oncebox_core::Error>(())
    };
    timeout(Duration::from_secs(60), noticed).await.expect("its end is noticed within a minute")?;
    Ok(())
}
