//! How sure a number is where a record is missing that would make it less, where lists were read at
//! different times, and where nothing is read any more.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use shopmirror::report::{self, Exactness, Range};
use shopmirror::store::{Reader, Store};
use shopmirror_core::record::Route;

use super::unknown::{Shown, USUAL, place};
use crate::support::Place;

fn ago(minutes: i64) -> String {
    let at = Timestamp::now() - SignedDuration::from_mins(minutes);
    format!("{at:.6}")
}

fn job(id: u32, total: i64) -> Value {
    json!({"id": id, "job_number": format!("R-{id}"), "customer_name": "C", "status": "New",
        "status_stage": "open", "created_at": ago(60), "total_amount": total, "paid_amount": 0})
}

fn payment(id: u32, job: u32, amount: i64) -> Value {
    json!({"id": id, "job_number": format!("R-{job}"), "amount": amount, "created_at": ago(50)})
}

/// Stores a page of two records at most, read `minutes` ago.
async fn show(store: &Store, route: Route, minutes: i64, limit: u32, records: &[Value]) {
    let at = ago(minutes);
    let shown = Shown {
        route,
        at: &at,
        limit,
        ..USUAL
    };
    shown.store(store, records).await;
}

async fn asked(place: &Place, report: &str) -> Value {
    place
        .run(["report", report, "--format", "json"])
        .await
        .json()
}

#[tokio::test]
async fn what_is_outstanding_is_at_most_so_much_where_a_payment_may_be_missing() {
    let (place, store) = place("");
    let jobs = [job(1, 100), job(2, 50)];
    show(&store, Route::Jobs, 40, 100, &jobs).await;
    show(
        &store,
        Route::Payments,
        40,
        2,
        &[payment(1, 1, 30), payment(2, 2, 10)],
    )
    .await;
    let columns = |answer: &Value| {
        let names = answer["columns"].as_array().unwrap();
        ["total", "paid", "outstanding"]
            .map(|wanted| names.iter().position(|name| name == wanted).unwrap())
    };
    let exact = asked(&place, "outstanding").await;
    let [total, paid, outstanding] = columns(&exact);
    assert_eq!(exact["totals"][outstanding], json!(110.0), "{exact}");
    for list in [
        "at_least",
        "at_most",
        "about",
        "totals_at_least",
        "totals_at_most",
    ] {
        assert_eq!(exact[list], json!([]), "{list}: {exact}");
    }
    assert!(exact["notes"].to_string().contains("complete"), "{exact}");

    // It shares no payment with the page before: one may be missing.
    show(
        &store,
        Route::Payments,
        1,
        2,
        &[payment(8, 2, 1), payment(9, 2, 1)],
    )
    .await;
    let [one, two] = jobs;
    show(&store, Route::Jobs, 1, 100, &[one, two, job(3, 0)]).await;
    let gap = asked(&place, "outstanding").await;
    assert_eq!(gap["at_least"], json!([[0, paid], [1, paid]]), "{gap}");
    assert_eq!(
        gap["at_most"],
        json!([[0, outstanding], [1, outstanding]]),
        "{gap}"
    );
    assert_eq!(gap["totals_at_most"], json!([total, outstanding]), "{gap}");
    // A repair that is paid in full leaves the list with what was paid of it.
    assert_eq!(gap["totals_about"], json!([paid]), "{gap}");
    let table = place.run(["report", "outstanding"]).await.out;
    assert!(
        table.contains("≤ 70.00") && table.contains("≤ 108.00"),
        "{table}"
    );

    // A page of jobs that may not be the whole list: others may be owed as well.
    show(&store, Route::Jobs, 0, 2, &[job(8, 7), job(9, 7)]).await;
    store.close().await.unwrap();
    let both = asked(&place, "outstanding").await;
    assert_eq!(both["totals_about"], json!([total, outstanding]), "{both}");
    assert!(!both["notes"].to_string().contains("complete"), "{both}");
}

#[tokio::test]
async fn a_repair_that_denies_a_payment_is_paid_between_its_own_word_and_that_of_the_payments() {
    let (place, store) = place("");
    // The page of jobs was read later and says that nothing was paid.
    show(&store, Route::Payments, 3, 100, &[payment(1, 1, 40)]).await;
    show(&store, Route::Jobs, 2, 100, &[job(1, 100)]).await;
    let completed = json!({"id": 1, "job_number": "R-1", "status": "Collected",
        "status_stage": "completed", "created_at": ago(25)});
    show(&store, Route::JobStatusChanges, 1, 100, &[completed]).await;
    store.close().await.unwrap();

    let owed = asked(&place, "outstanding").await;
    let names: Vec<Value> = owed["columns"].as_array().unwrap().clone();
    let place_of = |name: &str| names.iter().position(|it| it == name).unwrap();
    let (paid, outstanding) = (place_of("paid"), place_of("outstanding"));
    assert_eq!(
        owed["between"],
        json!([[0, paid, 40.0], [0, outstanding, 100.0]]),
        "{owed}"
    );
    let row = &owed["rows"][0];
    assert_eq!((&row[paid], &row[outstanding]), (&json!(0.0), &json!(60.0)));
    let note = "1 of these repairs says that less was paid than its payments add up to: repair 1";
    assert!(owed["notes"].to_string().contains(note), "{owed}");

    let range = Exactness::Between { upper: 100.0 };
    assert_eq!(unpaid(&place), (Some(60.0), range));
}

/// What Home says of the amount that is unpaid.
fn unpaid(place: &Place) -> (Option<f64>, Exactness) {
    let mut reader = Reader::open(&place.store()).unwrap();
    let now = Timestamp::now();
    let home = report::home(&mut reader, Range::Today, &[], &TimeZone::UTC, now).unwrap();
    let cell = &home.money.as_ref().unwrap().unpaid.cell;
    (cell.number(), cell.exactness)
}

#[tokio::test]
async fn what_is_unpaid_stays_sure_after_an_import_of_repairs_that_were_completed_long_ago() {
    let (place, store) = place("");
    let completed = json!({"id": 1, "job_number": "R-101", "status": "Collected",
        "status_stage": "completed", "created_at": ago(25)});
    show(&store, Route::Jobs, 3, 100, &[job(101, 100)]).await;
    show(&store, Route::JobStatusChanges, 2, 100, &[completed]).await;
    show(&store, Route::Payments, 1, 100, &[payment(1, 101, 40)]).await;
    store.close().await.unwrap();
    assert_eq!(unpaid(&place), (Some(60.0), Exactness::Exact));

    let columns = "id,created_at,status,status_stage,total_amount,paid_amount\n";
    let old = "7,2020-01-01T10:00:00Z,Collected,completed,50,20\n";
    place.write("old.csv", &format!("{columns}{old}"));
    let words = "import jobs old.csv --trust-ids --complete-since 2019-01-01";
    let import: Vec<&str> = words.split(' ').collect();
    let ended = place.run(import).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(place.number("SELECT count(*) FROM jobs"), 2);
    assert_eq!(unpaid(&place), (Some(60.0), Exactness::Exact));
}

#[tokio::test]
async fn a_percentile_of_the_repairs_that_are_known_is_about() {
    let (place, store) = place("");
    let job = |id: u32| {
        json!({"id": id, "job_number": format!("R-{id}"), "device_brand": "B",
        "created_at": ago(60), "status": "New", "status_stage": "open"})
    };
    let change = |id: u32, job: u32| {
        json!({"id": id, "job_number": format!("R-{job}"),
        "status": "Done", "status_stage": "completed", "created_at": ago(30)})
    };
    show(&store, Route::Jobs, 40, 100, &[job(1), job(2)]).await;
    show(
        &store,
        Route::JobStatusChanges,
        25,
        2,
        &[change(1, 1), change(2, 2)],
    )
    .await;
    store.close().await.unwrap();
    let table = place.run(["report", "turnaround-by-brand"]).await.out;
    assert!(
        table.contains("about 2 ") && table.matches("about 0.02").count() == 2,
        "{table}"
    );
}

#[tokio::test]
async fn a_list_that_was_read_long_before_the_others_is_at_least_from_then_on() {
    let (place, store) = place("");
    let record = |id: u32| json!({"id": id, "name": "N", "created_at": ago(241)});
    show(&store, Route::Jobs, 240, 100, &[record(1), record(2)]).await;
    show(&store, Route::Customers, 1, 100, &[record(1)]).await;
    show(&store, Route::Leads, 1, 100, &[record(1), record(2)]).await;
    let intake = asked(&place, "intake").await;
    let sums = (&intake["totals_at_least"], &intake["totals"]);
    assert_eq!(sums, (&json!([1]), &json!([null, 2, 2, 1])), "{intake}");
    show(&store, Route::Jobs, 1, 100, &[record(1), record(2)]).await;
    store.close().await.unwrap();
    assert_eq!(asked(&place, "intake").await["totals_at_least"], json!([]));
}

#[tokio::test]
async fn numbers_of_home_that_stand_still_end_at_the_last_reading_and_so_does_the_day_before() {
    let (place, store) = place("");
    let at = |time: &str| format!("2026-03-{time}:00.000000Z");
    let payment = |id: u32, time: &str| json!({"id": id, "amount": 10, "created_at": at(time)});
    let payments = [
        payment(1, "03T09:00"),
        payment(2, "03T16:00"),
        payment(3, "10T09:00"),
    ];
    let read = |route, read_at| Shown {
        route,
        at: read_at,
        limit: 100,
        ..USUAL
    };
    let three = "2026-03-10T15:04:00Z";
    let job = json!({"id": 1, "job_number": "R-1", "status": "New", "status_stage": "open",
        "created_at": at("10T08:00")});
    let change = json!({"id": 1, "job_number": "R-1", "status": "New", "status_stage": "open",
        "created_at": at("10T08:30")});
    read(Route::Payments, three).store(&store, &payments).await;
    read(Route::Jobs, three).store(&store, &[job]).await;
    read(Route::JobStatusChanges, three)
        .store(&store, &[change])
        .await;
    store.close().await.unwrap();
    let home = |now: &str| {
        let mut reader = Reader::open(&place.store()).unwrap();
        let now = now.parse().unwrap();
        report::home(&mut reader, Range::Today, &[], &TimeZone::UTC, now).unwrap()
    };
    let money = |now: &str| {
        let figure = home(now).money.unwrap().received;
        (
            figure.now.number(),
            figure.now.exactness,
            figure.before.number(),
            figure.as_of,
        )
    };
    let then: Timestamp = three.parse().unwrap();
    let exact = Exactness::Exact;
    assert_eq!(
        money("2026-03-10T15:05:00Z"),
        (Some(10.0), exact, Some(10.0), None)
    );
    // At 19:06 the payment of 16:00 a week before does not count: today's is not known yet.
    assert_eq!(
        money("2026-03-10T19:06:00Z"),
        (Some(10.0), exact, Some(10.0), Some(then))
    );
    let later = home("2026-03-10T19:06:00Z");
    assert_eq!(later.as_of, then);
    let open = &later.now.open;
    assert_eq!(
        (open.cell.number(), open.cell.exactness, open.as_of),
        (Some(1.0), exact, Some(then))
    );
    // The day after, nothing is known of today.
    let (number, exactness, ..) = money("2026-03-11T09:00:00Z");
    assert_eq!((number, exactness), (None, Exactness::Unknown));
}
