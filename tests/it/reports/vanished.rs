//! Records that are gone from their list, as reports and commands show them.

use jiff::Timestamp;
use serde_json::{Value, json};
use shopmirror::api::decode;
use shopmirror::store::{Reader, Store};
use shopmirror_core::record::{PollerId, Route};

use super::store_page;
use super::unknown::place;

async fn shows(store: &Store, route: Route, second: i64, records: &[Value]) {
    let page = decode(serde_json::to_vec(records).unwrap()).unwrap();
    let business = None;
    let at = Timestamp::from_second(1_773_144_000 + second).unwrap();
    store_page(store, PollerId { route, business }, page, at, 100, None).await;
}

/// Payments 1 to 8 of as many jobs, newest first, without one of them.
fn payments(without: Option<i64>) -> Vec<Value> {
    let ids = (1..=8).rev().filter(|id| Some(*id) != without);
    ids.map(|id| {
        json!({
            "id": id,
            "created_at": format!("2026-03-10T08:00:0{id}.000000Z"),
            "job_id": if id == 4 { 3 } else { id },
            "amount": 49.9,
        })
    })
    .collect()
}

fn jobs() -> Vec<Value> {
    let ids = (1..=8).rev();
    ids.map(|id| {
        json!({
            "id": id,
            "created_at": format!("2026-03-10T07:00:0{id}.000000Z"),
            "status": "Received",
            "status_stage": "open",
            "total_amount": 49.9,
        })
    })
    .collect()
}

#[tokio::test]
async fn a_payment_that_is_gone_from_the_list_counts_nowhere_and_every_place_says_so() {
    let (place, store) = place("");
    shows(&store, Route::Jobs, 0, &jobs()).await;
    shows(&store, Route::Payments, 0, &payments(None)).await;
    let paid = |reader: &Reader| reader.job_state("3").unwrap().unwrap().paid;
    assert_eq!(paid(&Reader::open(&place.store()).unwrap()), Some(99.8));

    let report = [
        "report",
        "payments",
        "--from",
        "2026-03-10",
        "--to",
        "2026-03-10",
        "--json",
    ];
    shows(&store, Route::Payments, 60, &payments(Some(4))).await;
    let before = place.run(report).await.json();
    assert_eq!(before["totals"][1], json!(8), "{before}");
    let notes = before["notes"].to_string();
    assert!(
        notes.contains("1 payment is missing from the list and still counted"),
        "{notes}"
    );

    shows(&store, Route::Payments, 120, &payments(Some(4))).await;
    let after = place.run(report).await.json();
    assert_eq!(after["totals"][1], json!(7), "{after}");
    let notes = after["notes"].to_string();
    assert!(
        notes.contains("1 payment is gone from the list and not counted"),
        "{notes}"
    );
    assert_eq!(paid(&Reader::open(&place.store()).unwrap()), Some(49.9));
    let view = place.open().unwrap();
    let count = |sql: &str| view.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM report_payments"), 7);
    assert_eq!(count("SELECT count(*) FROM payments"), 8);

    let record = place.run(["records", "payments", "4"]).await.out;
    assert!(record.contains("_vanished_at"), "{record}");
    assert!(record.contains("gone from the list"), "{record}");
    let csv = place
        .run(["records", "payments", "--format", "csv"])
        .await
        .out;
    assert!(
        csv.lines().next().unwrap().contains("_vanished_at"),
        "{csv}"
    );
    let log = place.run(["log", "--json", "--limit", "1"]).await.json();
    assert_eq!(log[0]["kind"], "vanished");
    assert_eq!(log[0]["record"]["amount"], 49.9);
    store.close().await.unwrap();
}

#[tokio::test]
async fn many_that_are_gone_on_one_day_are_a_reason_of_health_until_the_operator_answers() {
    let (place, store) = place("");
    let now = Timestamp::now().as_second() - 1_773_144_000;
    let list = |gone: bool| -> Vec<Value> {
        let ids = (1..=90).rev().filter(|id| !gone || !(20..32).contains(id));
        ids.map(|id| json!({"id": id, "created_at": format!("2026-03-10T08:00:{:02}.000000Z", id % 60), "status": "a"}))
            .collect()
    };
    for (second, gone) in [(0, false), (1, true), (2, true)] {
        shows(&store, Route::Jobs, now + second, &list(gone)).await;
    }
    store.close().await.unwrap();
    let status = place.run(["status", "--json"]).await.json();
    let reasons = status["reasons"].to_string();
    assert!(
        reasons.contains(
            "12 jobs are gone from the list today: a filter, a key with fewer rights, or deleted?"
        ),
        "{reasons}"
    );
    assert_eq!(status["withheld"][0]["records"], 12);
    let answer = place.run(["gaps", "accept", "--vanished", "jobs"]).await;
    assert_eq!(
        answer.out,
        "12 records are marked as gone from the list of jobs\n"
    );
    let status = place.run(["status", "--json"]).await.json();
    assert_eq!(status["withheld"], json!([]));
    let never = place
        .run(["gaps", "accept", "--vanished", "jobs", "--never"])
        .await;
    assert_eq!(never.code, Some(0), "{never:?}");
    let misused = place.run(["gaps", "accept", "--all", "--never"]).await;
    assert_eq!(misused.code, Some(64), "{misused:?}");
}
