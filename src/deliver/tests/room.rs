//! Large records: sinks that deliver them wait for each other, and for nothing else.

use std::path::Path;

use super::*;
use crate::config::FileSettings;
use crate::deliver::Deliverer;
use crate::sink::Sink;
use crate::store::ReplayChoice;

/// A record for which four sinks at once have room.
fn big() -> String {
    "y".repeat(400_000)
}

fn slow(after: Duration) -> Scripted {
    Scripted::new(4, |_| Verdict::Done)
        .slow(move |change| if change.body.len() > 1_000 { after } else { Duration::ZERO })
}

/// Eight sinks that take this long to take a large record in.
async fn eight(shop: &Shop, after: Duration) -> Vec<Task> {
    let mut tasks = Vec::new();
    for number in 0..8 {
        tasks.push(shop.start(&format!("sink{number}"), slow(after), settings()).await);
    }
    tasks
}

/// The most sinks that had a large record in hand at a time until all have had it.
async fn most_at_once(tasks: &[Task], done: usize) -> usize {
    let mut most = 0;
    let begun = Instant::now();
    while tasks.iter().any(|task| task.taken().len() < done) {
        assert!(begun.elapsed() < HOUR, "they wait for ever");
        most = most.max(tasks.iter().filter(|task| task.sink.under_way() > 0).count());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    most
}

#[tokio::test(start_paused = true)]
async fn sinks_take_turns_with_large_records_and_each_gets_every_one() {
    let shop = Shop::new().await;
    let tasks = eight(&shop, Duration::from_secs(3)).await;
    shop.see("1", &big()).await;
    assert_eq!(most_at_once(&tasks, 1).await, 4, "as many as there is room for");
    // With the state before, an edit needs twice the room.
    shop.see("1", &big().replace('y', "z")).await;
    assert_eq!(most_at_once(&tasks, 2).await, 2);
    for task in tasks {
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn small_records_never_wait_and_a_sink_that_waits_for_room_can_be_stopped() {
    let shop = Shop::new().await;
    let _all = shop.room.take(usize::MAX).await;
    let tasks = eight(&shop, Duration::ZERO).await;
    shop.see("1", &big()).await;
    let small = |id: i32| (id.to_string(), format!("Small {id} {}", "s".repeat(900)));
    let small: Vec<_> = (2..=300).map(small).collect();
    shop.see_all(&small).await;
    until("all have them", MINUTE, || tasks.iter().all(|task| task.taken().len() == 299)).await;
    for task in tasks {
        assert_eq!((task.taken().len(), task.sink.under_way()), (299, 0));
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_pauses_a_sink_that_waits_for_room_and_what_waits_comes_afterwards() {
    let shop = Shop::new().await;
    let all = shop.room.take(usize::MAX).await;
    let task = shop.start("erp", Scripted::new(4, |_| fault()), settings()).await;
    shop.see("1", &big()).await;
    tokio::time::sleep(MINUTE).await;
    shop.see("2", "Small").await;
    until("it pauses", MINUTE, || task.status().state == SinkActivity::Paused).await;
    drop(all);
    task.sink.now_returns(|_| Verdict::Done);
    until("both have arrived", HOUR, || task.taken().len() == 2).await;
    task.stop().await;
    shop.assert_accounted().await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_wakes_a_sink_that_waits_for_room_delays_and_parks_nothing() {
    let shop = Shop::new().await;
    let all = shop.room.take(usize::MAX).await;
    let task = shop.start("erp", slow(Duration::ZERO), settings()).await;
    for (id, name) in [("1", &*big()), ("2", "Small"), ("3", &*big()), ("1", "Edited")] {
        shop.see(id, name).await;
        tokio::time::sleep(MINUTE).await;
        task.wake.send_replace(());
    }
    tokio::time::sleep(MINUTE).await;
    assert_eq!(task.taken(), ["Small"]);
    drop(all);
    until("all have arrived", MINUTE, || task.taken().len() == 4).await;
    let names = task.taken();
    let place = |name: &str| names.iter().position(|taken| taken == name);
    assert!(place(&big()) < place("Edited"), "a record in order");
    task.stop().await;
    shop.assert_accounted().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_waits_for_room_goes_on_when_another_gives_it_back() {
    let shop = Shop::new().await;
    let all = shop.room.take(usize::MAX).await;
    let task = shop.start("erp", slow(Duration::ZERO), settings()).await;
    shop.see("1", &big()).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(task.taken().len(), 0);
    drop(all);
    until("it has the record", MINUTE, || task.taken().len() == 1).await;
    task.stop().await;
    shop.assert_accounted().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_forgotten_while_it_waits_for_room_is_not_sent() {
    for woken in [true, false] {
        let shop = Shop::new().await;
        let all = shop.room.take(usize::MAX).await;
        let task = shop.start("erp", slow(Duration::ZERO), settings()).await;
        shop.see("1", &big()).await;
        shop.see("2", "Small").await;
        until("the small one arrives", MINUTE, || task.taken() == ["Small"]).await;
        let at = shop.clock.now().stamp();
        shop.operator().forget(Route::Leads, "1", &at).unwrap();
        if woken {
            task.wake.send_replace(());
        }
        drop(all);
        let last = shop.count("SELECT max(seq) FROM changes");
        until("it is done", HOUR, || task.status().position == last).await;
        assert_eq!((task.taken(), task.status().retrying), (vec!["Small".to_owned()], 0));
        task.stop().await;
        shop.assert_accounted().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_of_large_records_waits_for_room_and_new_ones_go_first() {
    let shop = Shop::new().await;
    let task = shop.start("erp", slow(Duration::ZERO), settings()).await;
    for id in ["1", "2", "3"] {
        shop.see(id, &big()).await;
    }
    until("all have arrived", MINUTE, || task.taken().len() == 3).await;
    let all = shop.room.take(usize::MAX).await;
    let (at, to) = (shop.clock.now().stamp(), shop.store.seq());
    let choice = ReplayChoice::default();
    shop.operator().begin_replay("erp", (0, to), &choice, 1_000.0, &at).unwrap();
    task.wake.send_replace(());
    tokio::time::sleep(HOUR).await;
    assert_eq!(task.taken().len(), 3, "there is no room");
    shop.see("4", "Small").await;
    until("the new one arrives", Duration::from_secs(1), || task.taken().len() == 4).await;
    drop(all);
    until("the replay is done", MINUTE, || task.taken().len() == 7).await;
    task.stop().await;
    shop.assert_accounted().await;
}

#[tokio::test(start_paused = true)]
async fn sinks_for_which_a_large_record_fails_alone_all_go_on() {
    let shop = Shop::new().await;
    let fails = |change: &Change| if change.body.len() > 1_000 { fault() } else { Verdict::Done };
    let mut tasks = Vec::new();
    for number in 0..8 {
        let sink = Scripted::new(4, fails).slow(|_| Duration::from_secs(2));
        tasks.push(shop.start(&format!("sink{number}"), sink, settings()).await);
    }
    for (id, name) in [("1", &*big()), ("2", &*big()), ("3", "Small"), ("1", "Edited")] {
        shop.see(id, name).await;
    }
    let is_done = |task: &Task| task.taken() == ["Small"] && task.status().retrying == 3;
    until("each has the small one", HOUR, || tasks.iter().all(is_done)).await;
    for task in &tasks {
        task.sink.now_returns(|_| Verdict::Done);
    }
    let is_done = |task: &Task| task.taken().len() == 4 && task.status().retrying == 0;
    until("each has all", 3 * HOUR, || tasks.iter().all(is_done)).await;
    for task in tasks {
        let (first, last) = (big(), "Edited".to_owned());
        let place = |name: &String| task.taken().iter().position(|taken| taken == name);
        assert!(place(&first) < place(&last), "a record in order");
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_small_records_goes_while_a_large_one_behind_them_waits_for_room() {
    let shop = Shop::new().await;
    let all = shop.room.take(usize::MAX).await;
    let path = shop.dir.path().join("audit.ndjson");
    let lines = || std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
    let deliverer = Deliverer {
        sink: file_sink(&path),
        ..shop.deliverer("erp", &slow(Duration::ZERO), settings()).0
    };
    deliverer.open().await.unwrap();
    let finish = CancellationToken::new();
    // Before it runs, so that its first round finds all of them. The last of a page is stored first.
    let page = [("5", &*big()), ("4", "Small"), ("3", &*big()), ("2", "Small"), ("1", "Small")];
    shop.see_all(&page.map(|(id, name)| (id.to_owned(), name.to_owned()))).await;
    let task = tokio::spawn(deliverer.run(finish.clone(), CancellationToken::new()));
    until("the small ones in front are there", MINUTE, || lines() == 2).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(lines(), 2, "the others are behind the large one");
    drop(all);
    until("all are there", MINUTE, || lines() == 5).await;
    finish.cancel();
    task.await.unwrap().unwrap();
    shop.assert_accounted().await;
}

/// A sink that takes batches.
fn file_sink(path: &Path) -> Sink {
    Sink::build("erp", &SinkKind::File(FileSettings::usual(path.to_owned()))).unwrap()
}
