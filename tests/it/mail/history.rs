//! What is kept of failures: when they were mailed about, and when they were repaired.

use std::{sync::Arc, time::Duration};

use holdfast_core::Role;
use holdfast_tests::{database::Database, on_both};

use super::{Post, sent};

on_both! {
    the_time_from_mail_to_repair_is_told,
}

async fn the_time_from_mail_to_repair_is_told(db: Arc<Database>) {
    let post = Post::start(&db).await;
    let boss = post.app.somebody(Role::Admin).await;
    let (acme, beta) = (post.connector("acme", "Acme help").await, post.connector("beta", "Beta help").await);
    assert!(boss.open("/history").await.says("No connector failed."));

    post.fail(&acme, "acme").await;
    assert_eq!(post.tell().await, sent(1));
    post.app.advance(Duration::from_hours(3));
    post.fail(&beta, "beta").await;
    post.mend(&acme).await;
    post.mend(&beta).await;
    let page = boss.open("/history").await.expect(200);

    let rows: Vec<_> = page.read().named("tbody")[0].named("tr").iter().map(|row| row.text()).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].contains("Beta help") && rows[0].contains("repaired before"), "the last one first: {rows:?}");
    assert!(rows[1].contains("Acme help") && rows[1].ends_with("3 hours"), "{rows:?}");
    assert!(page.says("Median time from the mail to the repair: 3 hours (1 repair)"), "{}", page.text);
    let drawn: Vec<_> =
        page.read().named("svg").iter().filter_map(|svg| svg.get("aria-label").map(str::to_owned)).collect();
    assert!(drawn.contains(&"Connectors: 2 repaired, 2 failed".to_owned()), "{drawn:?}");

    post.app.advance(Duration::from_hours(15 * 24));
    let later = post.app.somebody(Role::Viewer).await;
    assert!(later.open("/history").await.says("No connector failed."));
}
