//! What a replay does when it is told to wait, and which faults it blames on a change.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_wait_that_a_replay_is_told_holds_new_changes_too() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    let given = task.sink.given().len();
    task.sink.now_returns(|_| wait_for(600));
    begin(&shop, &task, &ReplayChoice::default(), 1.0);
    until("it is asked to wait", MINUTE, || task.status().state == SinkActivity::Paused).await;
    let tries = task.sink.given().len();
    assert_eq!(tries - given, 1);
    shop.see("95", "New").await;
    task.wake.send_replace(());
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(task.sink.given().len(), tries, "nothing is sent before the wait is over");
    task.sink.now_returns(|_| Verdict::Done);
    until("the new one goes first", MINUTE, || task.sink.given().len() > tries).await;
    assert_eq!(name(&task.sink.given()[tries].1), "New");
    assert_eq!(until_done(&shop).await.sent, 90);
    task.stop().await;
}

/// Begins a replay of the leads from 90 down to `last`, which is their order in the log. Returns the
/// row of the first of them.
fn begin_down_to(shop: &Shop, task: &Task, last: i64) -> i64 {
    let row = |id| shop.count(&format!("SELECT seq FROM changes WHERE record_id = '{id}'"));
    let (first, at) = (row(90), shop.clock.now().stamp());
    let (rows, choice) = ((first - 1, row(last)), ReplayChoice::default());
    assert_eq!(shop.operator().begin_replay("erp", rows, &choice, 1_000.0, &at).unwrap(), None);
    task.wake.send_replace(());
    first
}

#[tokio::test(start_paused = true)]
async fn a_replay_keeps_a_wait_that_it_is_told_while_its_changes_are_compared() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    let given = task.sink.given().len();
    // The last one is taken, and the one before it ends each comparison that begins with it.
    task.sink.now_returns(|change| match name(change).as_str() {
        "Lead 90" => fault(),
        "Lead 87" => Verdict::Done,
        _ => wait_for(120),
    });
    begin_down_to(&shop, &task, 87);
    tokio::time::sleep(HOUR).await;
    let attempts: Vec<_> = task.sink.given().split_off(given);
    assert!(attempts.len() < 120, "{} attempts in an hour", attempts.len());
    // After three rounds of four changes they are handed over one by one.
    for pair in attempts[12..].windows(2).filter(|pair| pair[0].2 == wait_for(120)) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_secs(120), "{pair:?}");
    }
    let alone = task.attempts("Lead 90").len();
    assert!(alone > 4, "the turn of the first one comes after three rounds: {alone}");
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(until_done(&shop).await.sent, 4, "none is to blame");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_blames_no_change_for_an_endpoint_that_takes_two_a_minute() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    task.sink.now_returns(|_| fault());
    begin_down_to(&shop, &task, 81);
    until("they are compared", MINUTE, || task.attempts("Lead 90").len() > 4).await;
    let begun = Instant::now();
    let (mut minute, mut taken) = (0, 0);
    task.sink.now_returns(move |_| {
        let now = begun.elapsed().as_secs() / 60;
        taken = if now == minute { taken + 1 } else { 1 };
        minute = now;
        if taken <= 2 { Verdict::Done } else { wait_for(60) }
    });
    let done = until_done(&shop).await;
    assert_eq!((done.state, done.sent, done.refused), (ReplayState::Done, 10, 0), "{done:?}");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_passes_a_change_that_alone_is_told_to_wait() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    task.sink.now_returns(|change| match name(change).as_str() {
        "Lead 85" => wait_for(5),
        _ => Verdict::Done,
    });
    begin(&shop, &task, &ReplayChoice::default(), 1_000.0);
    let done = until_done(&shop).await;
    assert_eq!((done.state, done.sent, done.refused), (ReplayState::Done, 89, 1), "{done:?}");
    let attempts = task.attempts("Lead 85");
    assert!(attempts.len() < 20, "{attempts:?}");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_blames_no_change_for_an_endpoint_that_took_one_of_its_own_and_went_down() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    task.sink.now_returns(|_| fault());
    let first = begin_down_to(&shop, &task, 90);
    until("it fails", MINUTE, || task.attempts("Lead 90").len() == 2).await;
    task.sink.now_returns(|_| Verdict::Done);
    shop.see("95", "Another").await;
    until("it arrives", MINUTE, || task.taken().contains(&"Another".to_owned())).await;
    task.sink.now_returns(|_| fault());
    tokio::time::sleep(9 * HOUR).await;
    let waiting = replay(&shop).await;
    let found = (waiting.state, waiting.position, waiting.refused);
    assert_eq!(found, (ReplayState::Running, first - 1, 0), "{waiting:?}");
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(until_done(&shop).await.sent, 1);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_to_a_sink_that_keeps_its_order_passes_no_change() {
    let shop = Shop::new().await;
    let strict = config::SinkSettings { in_order: config::InOrder::Sink, ..settings() };
    let task = shop.start("erp", Scripted::new(4, |_| Verdict::Done), strict).await;
    shop.see_all(&leads(1..=9)).await;
    until("all have arrived", HOUR, || task.status().delivered == 9).await;
    task.sink.now_returns(|change| if name(change) == "Lead 5" { fault() } else { Verdict::Done });
    begin(&shop, &task, &ReplayChoice::default(), 1_000.0);
    tokio::time::sleep(HOUR).await;
    let waiting = replay(&shop).await;
    assert_eq!((waiting.state, waiting.sent, waiting.refused), (ReplayState::Running, 4, 0));
    assert_eq!(task.attempts("Lead 4").len(), 1, "nothing behind it is tried");
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(until_done(&shop).await.sent, 9);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_operator_ends_a_wait_that_a_replay_is_told() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    task.sink.now_returns(|change| match name(change).as_str() {
        "Lead 90" => wait_for(600),
        _ => Verdict::Done,
    });
    begin_down_to(&shop, &task, 90);
    for minute in 0..60 {
        // The sink takes its own changes, so that only the replay waits.
        shop.see("95", &format!("Minute {minute}")).await;
        tokio::time::sleep(MINUTE).await;
        task.wake.send_replace(());
    }
    let attempts = task.attempts("Lead 90").split_off(1);
    for pair in attempts.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(600), "{attempts:?}");
    }
    assert!(attempts.len() > 2, "{attempts:?}");
    task.stop().await;
}
