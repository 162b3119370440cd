//! Large records: sinks that deliver them wait for each other, and for nothing else.

use super::*;

/// A record for which four sinks at once have room.
fn big() -> String {
    "y".repeat(400_000)
}

fn slow(after: Duration) -> Scripted {
    Scripted::new(4, |_| Verdict::Done).slow(move |change| {
        if change.body.len() > 1_000 {
            after
        } else {
            Duration::ZERO
        }
    })
}

/// Eight sinks that take this long to take a large record in.
async fn eight(shop: &Shop, after: Duration) -> Vec<Task> {
    let mut tasks = Vec::new();
    for number in 0..8 {
        tasks.push(
            shop.start(&format!("sink{number}"), slow(after), settings())
                .await,
        );
    }
    tasks
}

/// The most sinks that had a large record in hand at a time until all have had it.
async fn most_at_once(tasks: &[Task], done: usize) -> usize {
    let mut most = 0;
    let begun = Instant::now();
    while tasks.iter().any(|task| task.taken().len() < done) {
        assert!(begun.elapsed() < HOUR, "they wait for ever");
        most = most.max(
            tasks
                .iter()
                .filter(|task| task.sink.in_flight() > 0)
                .count(),
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    most
}

#[tokio::test(start_paused = true)]
async fn sinks_take_turns_with_large_records_and_each_gets_every_one() {
    let shop = Shop::new().await;
    let tasks = eight(&shop, Duration::from_secs(3)).await;
    shop.see("1", &big()).await;
    assert_eq!(
        most_at_once(&tasks, 1).await,
        4,
        "as many as there is room for"
    );
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
    until("all have them", MINUTE, || {
        tasks.iter().all(|task| task.taken().len() == 299)
    })
    .await;
    for task in tasks {
        assert_eq!((task.taken().len(), task.sink.in_flight()), (299, 0));
        task.stop().await;
    }
}
