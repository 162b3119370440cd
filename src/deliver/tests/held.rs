//! The flood gate over virtual time.

use super::*;

fn gated(most: u32) -> config::SinkSettings {
    config::SinkSettings { hold_above: Some(most), ..settings() }
}

fn leads(ids: std::ops::Range<i32>) -> Vec<(String, String)> {
    ids.map(|id| (id.to_string(), format!("Lead {id}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_grew_slowly_while_the_endpoint_was_down_is_no_flood() {
    let shop = Shop::new().await;
    let task = shop.start("erp", Scripted::new(4, |_| fault()), gated(2)).await;
    for id in 1..=30 {
        shop.see(&id.to_string(), "Slow").await;
        tokio::time::sleep(Duration::from_secs(45)).await;
    }
    assert_eq!(task.status().state, SinkActivity::Paused);
    task.sink.now_returns(|_| Verdict::Done);
    until("all have arrived", HOUR, || task.taken().len() == 30).await;
    task.stop().await;
    // Nor is it one for a task that begins with such a backlog.
    let late = shop.start("late", Scripted::new(1, |_| fault()), gated(2)).await;
    late.stop().await;
    for id in 31..=60 {
        shop.see(&id.to_string(), "Slow").await;
        tokio::time::sleep(Duration::from_secs(45)).await;
    }
    let late = shop.start("late", Scripted::new(4, |_| Verdict::Done), gated(2)).await;
    until("all have arrived", MINUTE, || late.taken().len() == 30).await;
    late.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_came_while_the_endpoint_was_down_is_held() {
    let shop = Shop::new().await;
    let task = shop.start("erp", Scripted::new(4, |_| fault()), gated(20)).await;
    shop.see("1", "First").await;
    until("it is paused", MINUTE, || task.status().state == SinkActivity::Paused).await;
    tokio::time::sleep(MINUTE).await;
    shop.see_all(&leads(2..30)).await;
    task.sink.now_returns(|_| Verdict::Done);
    until("it is held", HOUR, || task.status().state == SinkActivity::Held).await;
    assert!(task.taken().len() <= 1, "{:?}", task.taken());
    tokio::time::sleep(HOUR).await;
    assert!(task.taken().len() <= 1, "{:?}", task.taken());
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_in_a_long_backlog_is_found_before_it_is_handed_over() {
    let shop = Shop::new().await;
    let task = shop.start("erp", Scripted::new(1, |_| fault()), gated(150)).await;
    task.stop().await;
    // More rows than are looked through together, of which no minute has more than 99.
    for page in 0..25 {
        shop.see_all(&leads(page * 99 + 1..page * 99 + 100)).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
    let slow = 25 * 99;
    shop.see_all(&leads(10_000..10_160)).await;
    let task = shop.start("erp", Scripted::new(64, |_| Verdict::Done), gated(150)).await;
    until("it is held", HOUR, || task.status().state == SinkActivity::Held).await;
    let taken = task.taken();
    assert!(taken.len() <= slow, "{}", taken.len());
    let of_the_flood = |name: &String| name.len() == "Lead 10000".len();
    assert!(!taken.iter().any(of_the_flood), "{taken:?}");
    task.stop().await;
}
