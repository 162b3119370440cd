//! What a sink gets beside new changes: dead letters again, and notices.

use shopmirror_core::record::Kind;

use super::*;
use crate::store::NewNotice;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn refused() -> Verdict {
    Verdict::Refused {
        reason: "answered 422".into(),
        for_good: false,
    }
}

/// A notice about this, made now.
async fn post(shop: &Shop, task: &super::shop::Task, about: &str) {
    let notice = NewNotice {
        kind: Kind::Alert,
        about: about.to_owned(),
        version: 1,
        made_at: shop.clock.now().stamp(),
        body: format!(r#"{{"name":"Notice {about}"}}"#),
    };
    shop.store
        .post_notice(vec!["erp".to_owned()], notice)
        .await
        .unwrap();
    task.wake.send_replace(());
}

#[tokio::test(start_paused = true)]
async fn a_notice_arrives_beside_a_backlog_and_counts_as_no_change() {
    let shop = Shop::new().await;
    let leads: Vec<_> = (1..=600)
        .map(|id| (id.to_string(), format!("Lead {id}")))
        .collect();
    shop.see_all(&leads).await;
    let beginning = config::SinkSettings {
        start: Start::Beginning,
        ..settings()
    };
    let sink = Scripted::new(2, |_| Verdict::Done).slow(|_| millis(100));
    let task = shop.start("erp", sink, beginning).await;
    until("it works", MINUTE, || task.taken().len() > 10).await;
    post(&shop, &task, "one").await;
    until("the notice comes", millis(500), || {
        task.taken().contains(&"Notice one".into())
    })
    .await;
    assert!(task.taken().len() < 50, "it does not wait for the backlog");
    until("all have arrived", HOUR, || task.status().delivered == 600).await;
    let row = shop.row("erp").await;
    assert_eq!(
        (row.retrying, row.dead, row.position),
        (0, 0, shop.store.seq())
    );
    assert_eq!(task.taken().len(), 601);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_a_notice_meets_holds_changes_and_an_operator_does_not_end_it() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", refusing(4, "Notice bad", limit(600)), settings())
        .await;
    post(&shop, &task, "bad").await;
    until("it is asked to wait", MINUTE, || {
        task.status().state == SinkActivity::Paused
    })
    .await;
    assert!(task.status().last_error.unwrap().contains("429"));
    shop.see("1", "First").await;
    task.wake.send_replace(());
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(
        task.sink.given().len(),
        1,
        "nothing is sent before the wait is over"
    );
    until("the change goes first", MINUTE, || {
        task.taken() == ["First"]
    })
    .await;
    until("the notice is tried again", MINUTE, || {
        task.attempts("Notice bad").len() == 2
    })
    .await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_only_a_notice_is_told_holds_no_change() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", refusing(4, "Notice bad", wait_for(600)), settings())
        .await;
    post(&shop, &task, "bad").await;
    until("it is tried", MINUTE, || {
        task.attempts("Notice bad").len() == 1
    })
    .await;
    for id in 1..=60 {
        shop.see(&id.to_string(), "Later").await;
        until("changes go on", millis(1_500), || task.taken().len() == id).await;
        tokio::time::sleep(MINUTE).await;
    }
    let attempts = task.attempts("Notice bad");
    assert!(
        attempts
            .windows(2)
            .all(|two| two[1] - two[0] >= Duration::from_secs(600))
    );
    assert!(attempts.len() >= 4, "{attempts:?}");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_sent_again_by_command_lets_those_behind_it_go() {
    let shop = Shop::new().await;
    let settings = config::SinkSettings {
        retry: Arc::from([9 * HOUR]),
        ..settings()
    };
    let task = shop
        .start("erp", refusing(4, "First", refused()), settings)
        .await;
    shop.see("1", "First").await;
    until("it is refused", MINUTE, || task.status().retrying == 1).await;
    shop.see("1", "Second").await;
    until("the later version waits", MINUTE, || {
        task.status().retrying == 2
    })
    .await;
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(shop.resend(&task, false).changes, 1);
    until("both arrive", Duration::from_secs(5), || {
        task.taken() == ["First", "Second"]
    })
    .await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_version_that_is_sent_again_goes_before_a_later_one_that_is_retried() {
    let shop = Shop::new().await;
    let for_good = |name: &str| Verdict::Refused {
        reason: "no".into(),
        for_good: name == "First",
    };
    let sink = Scripted::new(4, move |change| for_good(&name(change)));
    let settings = config::SinkSettings {
        retry: Arc::from([9 * HOUR]),
        ..settings()
    };
    let task = shop.start("erp", sink, settings).await;
    shop.see("1", "First").await;
    until("it is dead", MINUTE, || task.status().dead == 1).await;
    shop.see("1", "Second").await;
    until("the later one is refused", MINUTE, || {
        task.status().retrying == 1
    })
    .await;
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(shop.resend(&task, false).changes, 2);
    until("both arrive in order", MINUTE, || {
        task.taken() == ["First", "Second"]
    })
    .await;
    task.stop().await;
}
