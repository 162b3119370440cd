//! The flood gate over virtual time.

use super::*;

fn gated(most: u32) -> config::SinkSettings {
    config::SinkSettings {
        hold_above: Some(most),
        ..settings()
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_grew_slowly_while_the_endpoint_was_down_is_no_flood() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", Scripted::new(4, |_| fault()), gated(2))
        .await;
    for id in 1..=30 {
        shop.see(&id.to_string(), "Slow").await;
        tokio::time::sleep(Duration::from_secs(45)).await;
    }
    assert_eq!(task.status().state, SinkActivity::Paused);
    task.sink.now_returns(|_| Verdict::Done);
    until("all have arrived", HOUR, || task.taken().len() == 30).await;
    task.stop().await;
    // Nor is it one for a task that begins with such a backlog.
    let late = shop
        .start("late", Scripted::new(1, |_| fault()), gated(2))
        .await;
    late.stop().await;
    for id in 31..=60 {
        shop.see(&id.to_string(), "Slow").await;
        tokio::time::sleep(Duration::from_secs(45)).await;
    }
    let late = shop
        .start("late", Scripted::new(4, |_| Verdict::Done), gated(2))
        .await;
    until("all have arrived", MINUTE, || late.taken().len() == 30).await;
    late.stop().await;
}
