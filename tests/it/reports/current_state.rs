//! The state of jobs that are no longer among the newest 100, beside what the workspace knows.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use sandbox::{Options, Sandbox, Shop};
use serde_json::Value;
use shopmirror::api::decode;
use shopmirror::record::{PollerId, Route};
use shopmirror::report::{self, Answer, Question};
use shopmirror::store::{PollFacts, Reader, Store};
use tower::ServiceExt;

use crate::support::Place;

/// How often each route is read, in seconds of the shop's clock.
const STEP_S: u32 = 3_600;

const READ: [(Route, &str); 3] = [
    (Route::Jobs, "jobs"),
    (Route::JobStatusChanges, "job-status-changes"),
    (Route::Payments, "payments"),
];

/// Mirrors some days of a shop.
async fn mirrored(days: u32, newest_by_change: bool) -> (Sandbox, Place) {
    let options = Options {
        shop: Shop::Quiet,
        seed: 3,
        speed: 0.0,
        requests_per_minute: 1_000_000,
        ..Options::default()
    };
    let sandbox = Sandbox::new(options);
    sandbox.list_by_last_change(newest_by_change);
    let place = Place::new("http://127.0.0.1:1/api", "any-key");
    let store = Store::open(&place.store()).unwrap();
    for step in 0..days * 86_400 / STEP_S {
        // About 60 jobs a day, so that a repair of two days is no longer among the newest 100.
        sandbox.burst(sandbox::Route::Jobs, 1 + step as usize % 2);
        for (route, path) in READ {
            read(&sandbox, &store, route, path).await;
        }
        sandbox.advance_clock(STEP_S);
    }
    // The list of jobs is read last before the changes of the last step.
    for (route, path) in READ {
        read(&sandbox, &store, route, path).await;
    }
    store.close().await.unwrap();
    (sandbox, place)
}

async fn read(sandbox: &Sandbox, store: &Store, route: Route, path: &str) {
    let request = axum::http::Request::get(format!("/api/automation/triggers/{path}?limit=100"))
        .header("authorization", format!("Bearer {}", sandbox.automation_key()))
        .body(Body::empty())
        .unwrap();
    let answer = sandbox.router().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let facts = PollFacts {
        at: sandbox.now(),
        asked_after: i64::MAX,
        limit: 100,
        latency: Duration::ZERO,
        served_business: None,
    };
    let poller = PollerId { route, business: None };
    let page = decode(body.to_vec()).unwrap();
    let outcome = store.store_page(poller, page, facts, None).await.unwrap();
    assert!(outcome.gap.is_none(), "{route}: {outcome:?}");
}

/// What the workspace says of each job that is in the mirror, and what the mirror says.
fn compared(sandbox: &Sandbox, place: &Place) -> Vec<(String, Value, Value)> {
    let truth: Vec<Value> = sandbox
        .truth(sandbox::Route::Jobs)
        .iter()
        .map(|one| serde_json::from_str(one.record.get()).unwrap())
        .collect();
    let found = place.rows(
        "SELECT id, current_status, current_stage, round(coalesce(paid_total, -1), 2), state_source FROM report_jobs",
    );
    let of = |id: &Value| truth.iter().find(|job| job["id"] == *id).unwrap();
    found
        .iter()
        .map(|row| {
            let row = row.as_array().unwrap();
            let job = of(&row[0]);
            let wanted = serde_json::json!([
                job["status"],
                job["status_stage"],
                job["paid_amount"].as_f64().unwrap()
            ]);
            let source = row[4].as_str().unwrap().to_owned();
            (source, wanted, serde_json::json!([row[1], row[2], row[3].as_f64().unwrap()]))
        })
        .collect()
}

/// The mirrored jobs as the workspace knows them, and for how many seconds each was open that is completed
/// and was so since a day.
fn truth_of(sandbox: &Sandbox, place: &Place, since: Date) -> Vec<(Value, Option<i64>)> {
    let all = |route| -> Vec<Value> {
        let told = sandbox.truth(route);
        told.iter().map(|one| serde_json::from_str(one.record.get()).unwrap()).collect()
    };
    let ids: BTreeSet<i64> = place
        .rows("SELECT id FROM report_jobs")
        .iter()
        .map(|row| row[0].as_i64().unwrap())
        .collect();
    let mut jobs = all(sandbox::Route::Jobs);
    jobs.retain(|job| ids.contains(&job["id"].as_i64().unwrap()));
    let changes = all(sandbox::Route::JobStatusChanges);
    let open_s = |job: &Value| {
        let of_job = changes.iter().filter(|change| change["job_number"] == job["job_number"]);
        let mut of_job: Vec<(Timestamp, bool)> =
            of_job.map(|change| (at(change), change["status_stage"] == "completed")).collect();
        of_job.sort_by_key(|(at, _)| *at);
        let (mut open_s, mut opened, mut done) = (0, Some(at(job)), None);
        for (at, is_completed) in of_job {
            match (is_completed, opened) {
                (true, Some(since)) => {
                    open_s += at.duration_since(since).as_secs();
                    (opened, done) = (None, Some(at));
                }
                (false, None) => (opened, done) = (Some(at), None),
                _ => {}
            }
        }
        let done = done.filter(|at| at.to_zoned(TimeZone::UTC).date() >= since);
        done.filter(|_| job["status_stage"] == "completed").map(|_| open_s)
    };
    jobs.into_iter().map(|job| (open_s(&job), job)).map(|(open_s, job)| (job, open_s)).collect()
}

fn at(record: &Value) -> Timestamp {
    record["created_at"].as_str().unwrap().parse().unwrap()
}

/// The reports whose numbers are not those of the workspace.
fn wrong_reports(sandbox: &Sandbox, place: &Place, days: u32) -> Vec<String> {
    let (now, zone) = (sandbox.now(), TimeZone::UTC);
    let to = now.to_zoned(zone.clone()).date();
    // The days since the one on which the mirror began.
    let from = to.saturating_sub((i64::from(days) - 1).days());
    let jobs = truth_of(sandbox, place, from);
    let answered = |name: &str| {
        let reports = report::built_in();
        let report = reports.iter().find(|report| report.name == name).unwrap();
        let question = Question { from: Some(from), to: Some(to), ..Question::default() };
        let mut reader = Reader::open(&place.store()).unwrap();
        report::answer(&mut reader, report, &question, &zone, now).unwrap()
    };
    let is_open = |job: &Value| job["status_stage"] != "completed";
    let mut wrong = Vec::new();
    let mut compare = |what: &str, found: f64, wanted: f64| {
        println!("{what}: {found}, the workspace knows {wanted}");
        if (found - wanted).abs() > 0.0051 {
            wrong.push(format!("{what}: {found} instead of {wanted}"));
        }
    };
    let total = |answer: &Answer, column: &str| {
        let place = answer.columns.iter().position(|known| known.name == column).unwrap();
        let totals = serde_json::to_value(report::json(answer)).unwrap()["totals"].clone();
        totals[place].as_f64().unwrap_or_default()
    };
    let open = jobs.iter().filter(|(job, _)| is_open(job)).count() as f64;
    compare("open repairs", total(&answered("open-repairs"), "open"), open);
    let owed = |(job, _): &(Value, Option<i64>)| {
        (job["total_amount"].as_f64().unwrap() - job["paid_amount"].as_f64().unwrap()).max(0.0)
    };
    let owed: f64 = jobs.iter().map(owed).sum();
    compare("outstanding", total(&answered("outstanding"), "outstanding"), owed);
    let technicians = answered("technicians");
    compare("open of technicians", total(&technicians, "open"), open);
    for row in super::rows_of(&technicians) {
        let person = row["person"].as_str().unwrap();
        let own = |job: &Value| job["assigned_to"].as_str().unwrap_or("(not assigned)") == person;
        let wanted = jobs.iter().filter(|(job, _)| is_open(job) && own(job)).count();
        compare(&format!("open of {person}"), row["open"].as_f64().unwrap(), wanted as f64);
    }
    let done = jobs.iter().filter(|(_, open_s)| open_s.is_some()).count() as f64;
    let turnaround = answered("turnaround-by-brand");
    compare("completed repairs", total(&turnaround, "repairs"), done);
    for row in super::rows_of(&turnaround) {
        let brand = row["brand"].as_str().unwrap();
        let own = |job: &Value| job["device_brand"].as_str().unwrap_or("(none)") == brand;
        let of_brand = jobs.iter().filter(|(job, _)| own(job));
        let mut days: Vec<f64> =
            of_brand.filter_map(|(_, open_s)| Some((*open_s)? as f64 / 86_400.0)).collect();
        days.sort_by(f64::total_cmp);
        let n = days.len();
        let median =
            if n % 2 == 1 { days[n / 2] } else { f64::midpoint(days[n / 2 - 1], days[n / 2]) };
        compare(&format!("median days of {brand}"), row["median_days"].as_f64().unwrap(), median);
    }
    wrong
}

#[tokio::test]
async fn a_job_that_left_the_newest_100_is_what_its_status_changes_and_payments_say() {
    for newest_by_change in [false, true] {
        let days = std::env::var("SHOPMIRROR_DAYS").map_or(4, |days| days.parse().unwrap());
        let (sandbox, place) = mirrored(days, newest_by_change).await;
        let compared = compared(&sandbox, &place);
        let wrong: Vec<_> = compared.iter().filter(|(_, wanted, found)| wanted != found).collect();
        let of_changes = compared.iter().filter(|(source, ..)| source == "status change").count();
        assert_eq!(of_changes == 0, newest_by_change, "the list shows what it was made for");
        assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), compared.len(), wrong.first());
        let wrong = wrong_reports(&sandbox, &place, days);
        assert!(wrong.is_empty(), "by change: {newest_by_change}\n{}", wrong.join("\n"));
    }
}
