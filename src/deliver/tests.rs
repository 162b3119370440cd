//! Delivery tasks over a real store and scripted sinks, on virtual time.

mod beside;
mod forgotten;
mod held;
mod order;
mod replays;
mod room;
mod shop;
mod sliding;

use std::sync::Arc;

use shopmirror_core::clock::Clock;
use shopmirror_core::record::Change;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::Start;
use crate::sink::{FaultScope, Scripted, Verdict};
use shop::{HOUR, MINUTE, Shop, Task, name, settings, until};

fn fault() -> Verdict {
    Verdict::Fault {
        reason: "answered 503".into(),
        retry_after: None,
        scope: FaultScope::Endpoint,
    }
}

fn wait_for(seconds: u64) -> Verdict {
    let retry_after = Some(Duration::from_secs(seconds));
    Verdict::Fault {
        reason: "answered 503".into(),
        retry_after,
        scope: FaultScope::Endpoint,
    }
}

fn limit(seconds: u64) -> Verdict {
    Verdict::Fault {
        reason: "answered 429".into(),
        retry_after: Some(Duration::from_secs(seconds)),
        scope: FaultScope::Limit,
    }
}

/// Takes everything but records with this name, which get `verdict`.
fn refusing(batch: usize, bad: &'static str, verdict: Verdict) -> Scripted {
    Scripted::new(batch, move |change| {
        if name(change) == bad {
            verdict.clone()
        } else {
            Verdict::Done
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_forbidden_while_others_pass_is_refused_named_and_later_dead() {
    let shop = Shop::new().await;
    let forbidden = Verdict::Fault {
        reason: "answered 403".into(),
        retry_after: None,
        scope: FaultScope::Forbidden,
    };
    let retry = config::SinkSettings {
        retry: [MINUTE, MINUTE].into(),
        ..settings()
    };
    let task = shop
        .start("erp", refusing(1, "<script>", forbidden.clone()), retry)
        .await;
    shop.see("1014", "<script>").await;
    until("it is tried", MINUTE, || {
        task.attempts("<script>").len() > 2
    })
    .await;
    assert_eq!(task.status().state, SinkActivity::Paused, "nothing passes");
    assert_eq!(shop.row("erp").await.dead, 0);
    shop.see("1015", "Good").await;
    until("another passes", HOUR, || task.taken() == ["Good"]).await;
    until("it is refused", HOUR, || {
        task.status().state == SinkActivity::Active
    })
    .await;
    until("it is dead", HOUR, || task.status().dead == 1).await;
    let reason = shop.row("erp").await.last_error.unwrap();
    assert_eq!(reason, "only lead 1014, while others pass: answered 403");

    // Then everything is forbidden: no change is at fault.
    task.sink.now_returns(move |_| forbidden.clone());
    for id in 1016..1020 {
        shop.see(&id.to_string(), "New").await;
    }
    tokio::time::sleep(4 * HOUR).await;
    assert_eq!(task.status().state, SinkActivity::Paused);
    assert_eq!(shop.row("erp").await.dead, 1);
    task.sink.now_returns(|_| Verdict::Done);
    until("they arrive", HOUR, || task.taken().len() == 5).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn records_that_are_told_to_wait_do_not_stop_their_sink() {
    for (busy, seconds) in [(1, 5), (2, 300)] {
        let shop = Shop::new().await;
        let receiver = Scripted::new(4, move |change| {
            if name(change).starts_with("Busy") {
                wait_for(seconds)
            } else {
                Verdict::Done
            }
        });
        let task = shop.start("erp", receiver, settings()).await;
        let lead = |id: i32| {
            format!(
                "{} {id}",
                if (7..7 + busy).contains(&id) {
                    "Busy"
                } else {
                    "Good"
                }
            )
        };
        let leads: Vec<_> = (1..=180).map(|id| (id.to_string(), lead(id))).collect();
        shop.see_all(&leads).await;
        let others = 180 - busy as usize;
        until("the others have arrived", 3 * HOUR, || {
            task.taken().len() == others
        })
        .await;
        tokio::time::sleep(4 * HOUR).await;
        let attempts = task.attempts("Busy 7");
        let wait = Duration::from_secs(seconds);
        assert!(
            attempts.windows(2).all(|two| two[1] - two[0] >= wait),
            "{attempts:?}"
        );
        assert!(
            (10..80).contains(&attempts.len()),
            "less and less often: {attempts:?}"
        );
        let row = shop.row("erp").await;
        assert_eq!(
            (row.retrying, row.dead),
            (i64::from(busy), 0),
            "it never counts as refused"
        );
        for id in 200..220 {
            shop.see(&id.to_string(), "Good").await;
            let arrived = others + id - 199;
            until("it arrives at once", Duration::from_secs(1), || {
                task.taken().len() == arrived
            })
            .await;
            tokio::time::sleep(10 * MINUTE).await;
        }
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_record_that_is_told_to_wait_delays_no_other() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", refusing(4, "Busy", wait_for(10)), settings())
        .await;
    shop.see("1", "Busy").await;
    let leads: Vec<_> = (2..=90)
        .map(|id| (id.to_string(), "Good".to_owned()))
        .collect();
    shop.see_all(&leads).await;
    until("the others arrive", Duration::from_secs(5), || {
        task.taken().len() == 89
    })
    .await;
    assert_ne!(task.status().state, SinkActivity::Paused);
    assert_eq!(task.attempts("Busy").len(), 1);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_record_that_is_told_to_wait_shows_that_the_endpoint_means_all() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", Scripted::new(1, |_| wait_for(100)), settings())
        .await;
    let leads: Vec<_> = (1..=90)
        .map(|id| (id.to_string(), "Lead".to_owned()))
        .collect();
    shop.see_all(&leads).await;
    until("it is told so twice", MINUTE, || {
        task.sink.given().len() == 2
    })
    .await;
    assert_eq!(task.status().state, SinkActivity::Paused);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(task.sink.given().len(), 2, "the wait is everybody's");
    task.sink.now_returns(|_| Verdict::Done);
    until("all arrive", HOUR, || task.taken().len() == 90).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_slower_than_the_wait_for_which_it_asks_is_left_alone_all_the_same() {
    let shop = Shop::new().await;
    let sink = Scripted::new(1, |_| wait_for(1)).slow(|_| Duration::from_secs(2));
    let task = shop.start("erp", sink, settings()).await;
    let leads: Vec<_> = (1..=90)
        .map(|id| (id.to_string(), "Lead".to_owned()))
        .collect();
    shop.see_all(&leads).await;
    let is_paused = || task.status().state == SinkActivity::Paused;
    until("it pauses", Duration::from_secs(10), is_paused).await;
    assert_eq!(task.sink.given().len(), 2);
    task.sink.now_returns(|_| Verdict::Done);
    until("all arrive", HOUR, || task.taken().len() == 90).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_one_record_meets_is_everybodys() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", refusing(1, "First", limit(100)), settings())
        .await;
    shop.see("1", "First").await;
    until("it is tried", MINUTE, || task.attempts("First").len() == 1).await;
    shop.see("2", "Second").await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(task.sink.given().len(), 1, "nothing is sent before");
    until("the other one arrives", MINUTE, || {
        task.taken() == ["Second"]
    })
    .await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_changes_that_fail_do_not_hold_up_the_next_one() {
    for (batch, bad) in [(1, 7), (16, 7), (1, 40), (4, 100)] {
        let shop = Shop::new().await;
        for id in 1..=bad {
            shop.see(&id.to_string(), "Poison").await;
        }
        shop.see("200", "Good").await;
        let beginning = config::SinkSettings {
            start: Start::Beginning,
            ..settings()
        };
        let task = shop
            .start("erp", refusing(batch, "Poison", fault()), beginning)
            .await;
        until("the good one arrives", HOUR, || task.taken() == ["Good"]).await;
        shop.see("201", "Late").await;
        until("the late one arrives", HOUR, || {
            task.taken() == ["Good", "Late"]
        })
        .await;
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_with_too_many_dead_letters_takes_nothing_new_until_they_are_dropped() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", Scripted::new(4, |_| Verdict::Done), settings())
        .await;
    shop.sql("UPDATE _sinks SET dead = 1000000");
    task.wake.send_replace(());
    until("it holds", MINUTE, || {
        task.status().state == SinkActivity::Holding
    })
    .await;
    shop.see("1", "First").await;
    until("it holds", MINUTE, || {
        task.status().state == SinkActivity::Holding
    })
    .await;
    assert_eq!(task.taken(), [""; 0]);
    shop.sql("UPDATE _sinks SET dead = 999999");
    task.wake.send_replace(());
    until("it goes on", MINUTE, || task.taken() == ["First"]).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_not_sent_again_after_a_newer_version_was() {
    let shop = Shop::new().await;
    let once = config::SinkSettings {
        retry: Arc::from([]),
        ..settings()
    };
    let refused = Verdict::Refused {
        reason: "answered 422".into(),
        for_good: false,
    };
    let task = shop.start("erp", refusing(4, "Bad", refused), once).await;
    for (id, name) in [("1", "Bad"), ("1", "Good"), ("2", "Bad"), ("3", "Good")] {
        shop.see(id, name).await;
    }
    until("two are dead", MINUTE, || task.status().dead == 2).await;
    until("the newer version has arrived", MINUTE, || {
        task.taken() == ["Good", "Good"]
    })
    .await;
    until("it is saved", MINUTE, || shop.owed() == 2).await;
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(
        shop.resend(&task, false),
        Resent {
            changes: 1,
            superseded: 1
        }
    );
    until("the current one arrives", MINUTE, || {
        task.taken() == ["Good", "Good", "Bad"]
    })
    .await;
    until("it is saved", MINUTE, || shop.owed() == 1).await;
    assert_eq!(shop.row("erp").await.dead, 1);
    assert_eq!(
        shop.resend(&task, true),
        Resent {
            changes: 1,
            superseded: 0
        }
    );
    until("the older one arrives", MINUTE, || task.taken().len() == 4).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_single_run_sends_a_version_that_waited_for_the_one_before_it() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", refusing(4, "First", fault()), settings())
        .await;
    shop.see("1", "First").await;
    shop.see("1", "Second").await;
    until("the first is tried", MINUTE, || {
        !task.attempts("First").is_empty()
    })
    .await;
    task.stop().await;
    let sink = Scripted::new(4, |_| Verdict::Done);
    let (deliverer, _wake) = shop.deliverer("erp", &sink, settings());
    let status = deliverer.once(&CancellationToken::new()).await.unwrap();
    assert_eq!((status.delivered, status.backlog, shop.owed()), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_no_retry() {
    // An hour, as when a shop sets its machine by hand; and years, as when a battery was empty.
    for back in ["2025-12-31T23:00:00Z", "2020-01-01T00:00:00Z"] {
        let mut shop = Shop::new().await;
        let refused = Verdict::Refused {
            reason: "answered 422".into(),
            for_good: false,
        };
        let task = shop
            .start("erp", refusing(4, "Parked", refused), settings())
            .await;
        shop.see("1", "Parked").await;
        until("it is parked", MINUTE, || task.status().retrying == 1).await;
        task.stop().await;
        shop.clock = Clock::starting_at(back.parse().unwrap());
        let task = shop
            .start("erp", Scripted::new(4, |_| Verdict::Done), settings())
            .await;
        shop.see("2", "New").await;
        until("both arrive", MINUTE, || task.taken().len() == 2).await;
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_planned_while_the_clock_was_ahead_is_tried_without_a_restart() {
    let shop = Shop::new().await;
    let refused = Verdict::Refused {
        reason: "answered 422".into(),
        for_good: false,
    };
    let task = shop
        .start("erp", refusing(4, "Parked", refused), settings())
        .await;
    shop.see("1", "Parked").await;
    until("it is parked", MINUTE, || task.status().retrying == 1).await;
    let writer = rusqlite::Connection::open(shop.store.path()).unwrap();
    writer
        .execute(
            "UPDATE _queue SET due_at = '2026-06-01T00:00:00.000000Z'",
            [],
        )
        .unwrap();
    let before = task.attempts("Parked").len();
    until("it is tried", 2 * MINUTE, || {
        task.attempts("Parked").len() > before
    })
    .await;
    task.stop().await;
}
