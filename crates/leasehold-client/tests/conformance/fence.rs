//! The SQL fence on a real PostgreSQL: a holder that was paused wakes up too late, and its write is refused.

use std::time::Duration;

use leasehold_client::fence::sql;
use leasehold_client::store::Wish;
use leasehold_core::Patience;
use tokio_postgres::{Client, NoTls};

use crate::harness::{self, Case};
use crate::servers::postgres::{self, Postgres};

/// A connection to the database that is protected.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Writes an order's state as the holder of `token`, in one transaction with the check; false if the token is stale.
async fn write(client: &mut Client, resource: &str, token: u64, state: &str) -> bool {
    let transaction = client.transaction().await.unwrap();
    let token = i64::try_from(token).unwrap();
    if transaction.query_opt(sql::ADVANCE, &[&resource, &token]).await.unwrap().is_none() {
        transaction.rollback().await.unwrap();
        return false;
    }
    transaction.execute("UPDATE orders SET state = $1 WHERE id = 7", &[&state]).await.unwrap();
    transaction.commit().await.unwrap();
    true
}

async fn state(client: &Client) -> String {
    client.query_one("SELECT state FROM orders WHERE id = 7", &[]).await.unwrap().get(0)
}

#[test]
fn a_stale_token_writes_nothing() {
    harness::run_alone("the SQL fence", postgres::start, |server: &Postgres, case| {
        let url = server.url();
        Box::pin(async move {
            let (mut ann_db, mut bob_db) = (connect(&url).await, connect(&url).await);
            ann_db.batch_execute("CREATE TABLE orders (id int PRIMARY KEY, state text)").await.unwrap();
            ann_db.batch_execute("INSERT INTO orders VALUES (7, 'new')").await.unwrap();
            ann_db.batch_execute(sql::CREATE_TABLE).await.unwrap();
            let (old, new) = two_holders(&case).await;

            assert!(write(&mut ann_db, &case.resource, old, "paid").await);
            assert!(write(&mut bob_db, &case.resource, new, "shipped").await);
            // Ann was paused in between and does not know that her lease is over.
            assert!(!write(&mut ann_db, &case.resource, old, "paid again").await);
            assert_eq!(state(&ann_db).await, "shipped");
            let highest: i64 = ann_db.query_one(sql::HIGHEST, &[&case.resource]).await.unwrap().get(0);
            assert_eq!(u64::try_from(highest), Ok(new));
            assert!(write(&mut bob_db, &case.resource, new, "delivered").await);

            a_later_holder_waits_for_a_write_that_has_begun(&mut ann_db, &mut bob_db, new).await;
            a_row_can_carry_the_token_itself(&ann_db, old, new).await;
        })
    });
}

/// The tokens of a holder whose time ran out, and of the next one.
async fn two_holders(case: &Case) -> (u64, u64) {
    let (ann, bob) = (case.client(), case.client());
    let first = ann.grant(&case.short_wish("ann")).await.unwrap().tokens[0].unwrap();
    let patient = Wish { patience: Patience::Endless, ..case.wish("bob") };
    let second = bob.grant(&patient).await.unwrap().tokens[0].unwrap();
    assert!(first < second);
    (first, second)
}

/// Between the check and the end of a transaction nobody with a later token writes.
async fn a_later_holder_waits_for_a_write_that_has_begun(ann: &mut Client, bob: &mut Client, token: u64) {
    let token = i64::try_from(token).unwrap();
    let begun = ann.transaction().await.unwrap();
    assert!(begun.query_opt(sql::ADVANCE, &[&"begun", &token]).await.unwrap().is_some());
    let later = token + 1;
    let advance = async { bob.query_opt(sql::ADVANCE, &[&"begun", &later]).await };
    tokio::pin!(advance);
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut advance).await.is_err(), "it did not wait");
    begun.commit().await.unwrap();
    assert!(advance.await.unwrap().is_some());
    assert!(ann.query_opt(sql::ADVANCE, &[&"begun", &token]).await.unwrap().is_none());
}

/// Without a table of fences.
async fn a_row_can_carry_the_token_itself(client: &Client, old: u64, new: u64) {
    client.batch_execute(&sql::add_token_column("orders")).await.unwrap();
    let update = sql::fenced_update("orders", "id", &["state"]);
    let (old, new) = (i64::try_from(old).unwrap(), i64::try_from(new).unwrap());
    assert_eq!(client.execute(&update, &[&7_i32, &new, &"returned"]).await.unwrap(), 1);
    assert_eq!(client.execute(&update, &[&7_i32, &old, &"lost"]).await.unwrap(), 0);
    assert_eq!(state(client).await, "returned");
}
