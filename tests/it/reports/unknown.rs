//! Reports of times of which not everything is known: before the mirror began, in a gap, after the
//! last reading. What is unknown is never 0.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use shopmirror::api::decode;
use shopmirror::report::{self, Cell, Exactness, Range};
use shopmirror::store::{Reader, Store};
use shopmirror_core::record::{PollerId, Route};

use super::store_page;
use crate::support::Place;

/// A page that holds the newest records of a list; with `limit` records it may not be the whole
/// list.
pub(super) struct Shown<'a> {
    pub(super) route: Route,
    pub(super) business: Option<&'a str>,
    pub(super) at: &'a str,
    pub(super) limit: u32,
    pub(super) served: Option<&'a str>,
}

pub(super) const USUAL: Shown<'_> = Shown {
    route: Route::Payments,
    business: None,
    at: "2026-03-10T12:00:00Z",
    limit: 2,
    served: None,
};

impl Shown<'_> {
    pub(super) async fn store(&self, store: &Store, records: &[Value]) {
        let newest_first: Vec<&Value> = records.iter().rev().collect();
        let page = decode(serde_json::to_vec(&newest_first).unwrap()).unwrap();
        let key = PollerId {
            route: self.route,
            business: self.business.map(str::to_owned),
        };
        store_page(
            store,
            key,
            page,
            self.at.parse().unwrap(),
            self.limit,
            self.served,
        )
        .await;
    }
}

fn payment(id: i64, at: &str, amount: f64) -> Value {
    json!({"id": id, "created_at": format!("2026-03-{at}:00.000000Z"), "amount": amount})
}

pub(super) fn place(more: &str) -> (Place, Store) {
    let place = Place::new("http://127.0.0.1:1/api", "any-key");
    place.configure_all(&format!("time_zone = \"UTC\"\n{more}"));
    let store = Store::open(&place.store()).unwrap();
    (place, store)
}

#[tokio::test]
async fn days_before_the_mirror_began_in_a_gap_and_after_the_last_reading_are_unknown() {
    let (place, store) = place("[reports]\ncurrency = \"EUR\"\n");
    let read = |at| Shown { at, ..USUAL };
    // A full page: nobody knows what came before it.
    let first = [
        payment(1, "02T09:00", 1_500.5),
        payment(2, "04T09:00", 10.0),
    ];
    read("2026-03-04T12:00:00Z").store(&store, &first).await;
    let next = [payment(2, "04T09:00", 10.0), payment(3, "05T09:00", 20.0)];
    read("2026-03-06T00:30:00Z").store(&store, &next).await;
    // A page that shares no record with the one before.
    let after = [payment(8, "08T09:00", 30.0), payment(9, "08T10:00", -5.0)];
    read("2026-03-08T12:00:00Z").store(&store, &after).await;
    store.close().await.unwrap();

    let asked = [
        "report",
        "payments",
        "--from",
        "2026-03-01",
        "--to",
        "2026-03-10",
    ];
    let table = place.run(asked).await.out;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let row = |name: &str| {
        lines
            .iter()
            .find(|row| row.first() == Some(&name))
            .unwrap()
            .join(" | ")
    };
    let unknown = "unknown | unknown | unknown | unknown | unknown";
    assert_eq!(
        row("2026-03-01"),
        format!("2026-03-01 | {unknown}"),
        "{table}"
    );
    let before = "≥ 1 | ≥ EUR 1,500.50 | unknown | unknown | unknown";
    assert_eq!(
        row("2026-03-02"),
        format!("2026-03-02 | {before}"),
        "before the mirror began"
    );
    assert_eq!(
        row("2026-03-05"),
        "2026-03-05 | 1 | EUR 20.00 | 0 | EUR 0.00 | EUR 20.00"
    );
    assert_eq!(
        row("2026-03-07"),
        format!("2026-03-07 | {unknown}"),
        "a gap"
    );
    let in_part = "≥ 1 | ≥ EUR 30.00 | ≥ 1 | ≥ EUR 5.00 | unknown";
    assert_eq!(
        row("2026-03-08"),
        format!("2026-03-08 | {in_part}"),
        "{table}"
    );
    assert_eq!(
        row("2026-03-09"),
        format!("2026-03-09 | {unknown}"),
        "it was not read"
    );
    assert_eq!(
        row("Total"),
        "Total | ≥ 4 | ≥ EUR 1,560.50 | ≥ 1 | ≥ EUR 5.00 | unknown"
    );
    let last = table.lines().last().unwrap();
    for part in [
        "payments: complete since 4 March 2026, 12:00",
        "payments may be missing between 6 March 2026, 00:30 and 8 March 2026, 12:00",
        "payments: last read on 8 March 2026, 12:00",
    ] {
        assert!(last.contains(part), "{part}: {last}");
    }
    assert!(
        table.contains("2026-03-01 to 2026-03-10, as of 2026-03-08 12:00, UTC"),
        "{table}"
    );

    let form = async |format| {
        place
            .run(asked.iter().chain(&["--format", format]))
            .await
            .out
    };
    let json: Value = serde_json::from_str(&form("json").await).unwrap();
    assert_eq!(
        json["rows"][0],
        json!(["2026-03-01", null, null, null, null, null])
    );
    assert_eq!(
        json["rows"][1],
        json!(["2026-03-02", 1, 1500.5, null, null, null])
    );
    assert_eq!(json["at_least"][0], json!([1, 1]));
    assert_eq!(json["totals"], json!([null, 4, 1560.5, 1, 5.0, null]));
    assert_eq!(json["totals_at_least"], json!([1, 2, 3, 4]));
    let csv = form("csv").await;
    assert!(
        csv.starts_with(
            "period,payments,payments_mark,payments_max,received,received_mark,refunds,\
             refunds_mark,refunds_max,refunded,refunded_mark,net,net_mark\r\n\
             \"2026-03-01\",,\"unknown\",,,\"unknown\",,\"unknown\",,,\"unknown\",,\"unknown\"\r\n\
             \"2026-03-02\",1,\"at_least\",,1500.50,\"at_least\",,\"unknown\",,,\"unknown\",,\"unknown\"\r\n"
        ),
        "{csv}"
    );
    assert!(
        csv.contains("\r\n\"2026-03-05\",1,,,20.00,,0,,,0.00,,20.00,\r\n"),
        "{csv}"
    );
    let asked_with_notes = asked.iter().chain(&["--format", "csv", "--notes"]);
    let noted = place.run(asked_with_notes).await.out;
    let notes = noted.strip_prefix(csv.as_str()).unwrap();
    assert!(notes.lines().all(|line| line.starts_with("# ")), "{notes}");
    assert!(
        notes.contains("as of 2026-03-08 12:00, UTC") && notes.contains("complete since"),
        "{notes}"
    );
    assert!(!csv.contains("complete") && !csv.contains("Total"), "{csv}");
    let html = form("html").await;
    assert!(
        html.contains("unknown") && html.contains("complete since"),
        "{html}"
    );
    assert!(
        form("svg").await.contains("not all known"),
        "the chart says what is grey"
    );
    let known = [
        "report",
        "payments",
        "--from",
        "2026-03-05",
        "--to",
        "2026-03-05",
    ];
    let known = place
        .run(known.iter().chain(&["--format", "svg"]))
        .await
        .out;
    assert!(!known.contains("not all known"), "{known}");
    // Two days of a month of which nothing is known make its number at least.
    let month = place.run(asked.iter().chain(&["--by", "month"])).await.out;
    assert!(month.contains("≥ EUR 1,560.50"), "{month}");
}

#[tokio::test]
async fn a_share_of_which_nothing_is_known_is_not_zero_and_a_state_has_no_period() {
    let (place, store) = place("");
    let lead = |id: i64, at: &str| {
        json!({"id": id, "created_at": format!("2026-03-{at}:00.000000Z"), "mobile_number": "1",
            "email": null, "source": "web", "status": "New", "status_stage": "open", "name": "A"})
    };
    let customer = json!({"id": 1, "created_at": "2026-03-04T10:00:00.000000Z", "mobile_number": "2", "email": null});
    let at = "2026-03-04T12:00:00Z";
    let leads = Shown {
        route: Route::Leads,
        at,
        ..USUAL
    };
    leads
        .store(&store, &[lead(1, "02T09:00"), lead(2, "03T09:00")])
        .await;
    Shown {
        route: Route::Customers,
        at,
        ..USUAL
    }
    .store(&store, &[customer])
    .await;
    let newer = Shown {
        at: "2026-03-06T00:30:00Z",
        ..leads
    };
    newer
        .store(&store, &[lead(2, "03T09:00"), lead(3, "05T09:00")])
        .await;
    Shown {
        route: Route::OutsourcedJobs,
        at,
        ..USUAL
    }
    .store(
        &store,
        &[json!({"id": 1, "vendor_name": "V", "created_at": null, "status_stage": null})],
    )
    .await;
    store.close().await.unwrap();
    let asked = [
        "--from",
        "2026-03-01",
        "--to",
        "2026-03-05",
        "--format",
        "json",
    ];
    let json = place
        .run(["report", "leads"].iter().chain(&asked))
        .await
        .json();
    assert_eq!(json["rows"][0], json!(["2026-03-01", null, null, null]));
    assert_eq!(json["rows"][1], json!(["2026-03-02", 1, null, null]));
    let sources = place
        .run(["report", "sources", "--from", "2026-03-01"])
        .await
        .out;
    assert!(
        sources.contains("web") && sources.contains("≥ 3"),
        "{sources}"
    );
    let note = "the state of 1 of 3 leads was not seen since they left the newest page; the oldest was last seen on 2026-03-04 (UTC)";
    assert!(sources.contains(note), "{sources}");
    let outsourced = place.run(["report", "outsourced"]).await.out;
    assert!(
        outsourced.starts_with("Outsourced work, as of 2026-03-04 12:00, UTC"),
        "{outsourced}"
    );
    assert!(outsourced.contains("(no stage)"), "{outsourced}");
    let json = place
        .run(["report", "outsourced", "--format", "json"])
        .await
        .json();
    assert_eq!(json["period"], Value::Null);
}

#[tokio::test]
async fn follow_ups_show_the_newest_500_and_csv_all() {
    let (place, store) = place("");
    let lead = |id: i64| {
        let day = if id <= 300 {
            "2026-01-05"
        } else {
            "2026-02-05"
        };
        let stage = if id == 600 {
            Value::Null
        } else {
            "open".into()
        };
        json!({"id": id, "name": format!("N{id}"), "status": null, "status_stage": stage, "next_follow_up": day})
    };
    let leads: Vec<Value> = (1..=600).map(lead).collect();
    Shown {
        route: Route::Leads,
        limit: 1_000,
        ..USUAL
    }
    .store(&store, &leads)
    .await;
    store.close().await.unwrap();
    let table = place.run(["report", "follow-ups"]).await.out;
    assert_eq!(
        table
            .lines()
            .filter(|line| line.contains("2026-02-05"))
            .count(),
        300
    );
    assert_eq!(
        table
            .lines()
            .filter(|line| line.contains("2026-01-05"))
            .count(),
        200
    );
    assert!(
        table.contains("these are the first 500 of 600 rows; Excel, CSV and JSON have all"),
        "{table}"
    );
    assert!(
        table.contains("N600") && table.contains("(no status)"),
        "{table}"
    );
    let csv = place
        .run(["report", "follow-ups", "--format", "csv"])
        .await
        .out;
    assert_eq!(csv.lines().count(), 601);
}

#[tokio::test]
async fn what_nothing_says_was_paid_is_owed_and_two_branches_may_use_one_number() {
    let (place, store) = place("");
    let job = |id: i64, total: Value, paid: Value| {
        json!({"id": id, "job_number": "R-1", "customer_name": "C", "status": null, "status_stage": null,
            "created_at": "2026-03-01T00:00:00.000000Z", "total_amount": total, "paid_amount": paid})
    };
    let jobs = Shown {
        route: Route::Jobs,
        limit: 100,
        ..USUAL
    };
    let own = [
        job(1, 140.into(), 0.into()),
        job(2, "980.00".into(), Value::Null),
    ];
    Shown {
        served: Some("1"),
        ..jobs
    }
    .store(&store, &own)
    .await;
    let other = [
        job(3, 50.into(), "50.00".into()),
        job(4, 7.into(), 3.into()),
    ];
    Shown {
        business: Some("2"),
        ..jobs
    }
    .store(&store, &other)
    .await;
    store.close().await.unwrap();
    let of = async |more: &[&str]| {
        let args = ["report", "outstanding", "--format", "json"];
        place.run(args.iter().chain(more)).await.json()
    };
    let all = of(&[]).await;
    assert_eq!(all["rows"].as_array().unwrap().len(), 3, "{all}");
    assert_eq!(all["totals"][5], json!(1124.0), "{all}");
    assert_eq!(all["rows"][0][4], Value::Null, "what was paid is unknown");
    let note = "of 1 of these repairs nothing says what was paid";
    assert!(all["notes"].to_string().contains(note), "{all}");
    assert_eq!(
        of(&["--business", "1"]).await["totals"][5],
        json!(1120.0),
        "the default's own id"
    );
    assert_eq!(of(&["--business", "2"]).await["totals"][5], json!(4.0));
    let open = place.run(["report", "open-repairs"]).await.out;
    assert!(
        open.contains("(no stage)") && open.contains("(no status)"),
        "{open}"
    );
}

#[tokio::test]
async fn without_a_field_that_names_the_job_states_are_as_last_seen_and_turnaround_is_refused() {
    let (place, store) = place("");
    let at = "2026-03-01T00:00:00.000000Z";
    let job = json!({"id": 1, "device_brand": "B", "assigned_to": "P", "status": "S", "status_stage": "open", "created_at": at});
    let change = json!({"id": 9, "status": "Done", "status_stage": "completed", "created_at": at});
    for (route, record) in [(Route::Jobs, job), (Route::JobStatusChanges, change)] {
        Shown {
            route,
            limit: 100,
            ..USUAL
        }
        .store(&store, &[record])
        .await;
    }
    store.close().await.unwrap();
    let open = place.run(["report", "open-repairs"]).await.out;
    assert!(
        open.contains("are as last seen: set `[reports] job_link`"),
        "{open}"
    );
    let refused = place.run(["report", "turnaround-by-brand"]).await;
    assert!(
        refused.code == Some(65) && refused.err.contains("[reports] job_link"),
        "{refused:?}"
    );
    let args = [
        "report",
        "technicians",
        "--from",
        "2026-03-01",
        "--format",
        "json",
    ];
    let technicians = place.run(args).await.json();
    assert_eq!(
        technicians["rows"][0][3],
        Value::Null,
        "completed is unknown: {technicians}"
    );
}

#[tokio::test]
async fn open_repairs_are_at_least_those_heard_of_where_status_changes_and_repairs_are_missing() {
    let (place, store) = place("");
    let now = Timestamp::now();
    let days_ago = |days: i64| {
        format!(
            "{:.6}",
            now.checked_sub(SignedDuration::from_hours(24 * days))
                .unwrap()
        )
    };
    let at = |id: u8| days_ago(10 - i64::from(id));
    let (earlier, later) = (days_ago(6), days_ago(0));
    let job = |id: u8| json!({"id": id, "job_number": format!("R-{id}"), "status": "New", "status_stage": "open", "created_at": at(id)});
    let change = |id: u8, job: u8| json!({"id": id, "job_number": format!("R-{job}"), "status": "New", "status_stage": "open", "created_at": at(id)});
    let jobs = Shown {
        route: Route::Jobs,
        at: &earlier,
        ..USUAL
    };
    jobs.store(&store, &[job(1), job(2)]).await;
    Shown { at: &later, ..jobs }
        .store(&store, &[job(2), job(3)])
        .await;
    let changes = Shown {
        route: Route::JobStatusChanges,
        ..jobs
    };
    changes.store(&store, &[change(1, 1), change(2, 2)]).await;
    let changes = Shown {
        at: &later,
        ..changes
    };
    changes.store(&store, &[change(2, 2), change(3, 2)]).await;
    let asked = ["report", "open-repairs", "--format", "json"];
    let json = place.run(asked).await.json();
    assert_eq!(
        (&json["totals_at_least"][0], &json["about"]),
        (&json!(2), &json!([])),
        "{json}"
    );
    // It shares no record with the page before.
    changes.store(&store, &[change(8, 3), change(9, 3)]).await;
    store.close().await.unwrap();
    let json = place.run(asked).await.json();
    assert_eq!(
        (&json["totals_at_least"][0], &json["about"]),
        (&json!(2), &json!([])),
        "{json}"
    );
    let table = place.run(["report", "open-repairs"]).await.out;
    assert!(table.contains("≥ 2") && !table.contains("about"), "{table}");
    let csv = place
        .run(["report", "open-repairs", "--format", "csv"])
        .await
        .out;
    assert!(
        csv.starts_with("stage,status,open,open_mark,open_max,under_1_day,")
            && csv.contains(",\"at_least\",,"),
        "{csv}"
    );
}

#[tokio::test]
async fn open_repairs_are_a_range_where_status_changes_may_be_missing() {
    let (place, store) = place("");
    let now = Timestamp::now();
    let hours_ago = |hours: i64| {
        let at = now.checked_sub(SignedDuration::from_hours(hours)).unwrap();
        format!("{at:.6}")
    };
    let (earlier, later) = (hours_ago(60), hours_ago(0));
    let job = |id: u8, status: &str| {
        json!({"id": id, "job_number": format!("R-{id}"), "status": status,
            "customer_name": "N", "estimated_delivery": null,
            "status_stage": "open", "created_at": hours_ago(80 - i64::from(id))})
    };
    let change = |id: u8, job: u8, stage: &str| {
        json!({"id": id, "job_number": format!("R-{job}"), "status": "Repaired",
            "status_stage": stage, "created_at": hours_ago(80 - i64::from(id))})
    };
    // The first page is the whole list, and repairs 1 and 2 leave the next one.
    let jobs = Shown {
        route: Route::Jobs,
        at: &earlier,
        limit: 4,
        ..USUAL
    };
    jobs.store(&store, &[job(1, "New"), job(2, "New"), job(3, "New")])
        .await;
    let changes = Shown {
        route: Route::JobStatusChanges,
        ..jobs
    };
    let first = [change(1, 2, "open"), change(2, 3, "open")];
    changes.store(&store, &first).await;
    let changes = Shown {
        at: &later,
        ..changes
    };
    let [one, two] = first;
    changes
        .store(&store, &[one, two, change(3, 2, "completed")])
        .await;
    let next = [job(3, "New"), job(4, "Old"), job(5, "Old"), job(6, "Old")];
    Shown { at: &later, ..jobs }.store(&store, &next).await;
    let asked = ["report", "open-repairs", "--format", "json"];
    let total = async || {
        let json = place.run(asked).await.json();
        (json["totals"][2].clone(), json["notes"].to_string())
    };
    let (open, _) = total().await;
    assert_eq!(open, 5);

    // Up to four status changes are missing: from 4 to 7.
    let next = [
        change(8, 4, "open"),
        change(9, 4, "open"),
        change(10, 5, "open"),
        change(11, 6, "open"),
    ];
    changes.store(&store, &next).await;
    // The first one that was created after that page ends the gap. The next page of jobs shows all
    // but repair 1.
    let in_seconds = |seconds: i64| {
        let at = now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
        format!("{at:.6}")
    };
    let soon = in_seconds(120);
    let mut newest = change(12, 4, "open");
    newest["created_at"] = json!(in_seconds(100));
    let [_, nine, ten, eleven] = next;
    let changes = Shown {
        at: &soon,
        ..changes
    };
    changes.store(&store, &[nine, ten, eleven, newest]).await;
    let next = [job(3, "New"), job(4, "Old"), job(5, "Old"), job(6, "Old")];
    Shown { at: &soon, ..jobs }.store(&store, &next).await;
    let table = place.run(["report", "open-repairs"]).await.out;
    assert!(
        table.contains("4 to 5"),
        "repair 1 may be completed: {table}"
    );
    let json = place.run(asked).await.json();
    assert_eq!(json["totals_between"][0], json!([2, 5]), "{json}");
    let csv = place
        .run(["report", "open-repairs", "--format", "csv"])
        .await
        .out;
    assert!(csv.contains(",\"between\","), "{csv}");
    let (open, notes) = total().await;
    assert_eq!(open, 4, "the lower bound");
    for note in [
        "1 open repair was not heard of since",
        "up to 1 more if completed repairs were reopened in the gap",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    // Repair 2 was completed before that, and may be open again.
    let done = ["report", "time-to-repair", "--format", "json"];
    let done = place.run(done).await.json();
    assert_eq!(done["columns"][1], "repairs");
    assert_eq!(done["totals"][1], 1, "{done}");
    assert_eq!(done["totals_at_most"], json!([1]), "{done}");
    let note = "up to 1 completed repair may have been opened again";
    assert!(done["notes"].to_string().contains(note), "{done}");
    let listed = [
        "report",
        "repairs",
        "--set",
        "unheard=1",
        "--format",
        "json",
    ];
    let listed = place.run(listed).await.json();
    assert_eq!(listed["rows"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["rows"][0][0], "1", "{listed}");

    // A later page of jobs shows it: it is heard of.
    let next = [
        job(1, "New"),
        job(3, "New"),
        job(4, "Old"),
        job(5, "Old"),
        job(6, "Old"),
    ];
    let whole = Shown {
        at: &soon,
        limit: 9,
        ..jobs
    };
    whole.store(&store, &next).await;
    store.close().await.unwrap();
    let (open, notes) = total().await;
    assert_eq!(open, 5, "{notes}");
}

#[tokio::test]
async fn home_says_of_each_number_how_sure_it_is() {
    let (place, store) = place("");
    let now = Timestamp::now();
    let at = now.to_string();
    let home = || {
        let mut reader = Reader::open(&place.store()).unwrap();
        report::home(&mut reader, Range::ThisMonth, &[], &TimeZone::UTC, now).unwrap()
    };
    let sure = |cell: &Cell| (cell.number().map(|number| number as i64), cell.exactness);
    let unknown = (None, Exactness::Unknown);
    let before = home();
    for cell in [
        &before.taken_in.now,
        &before.leads.now,
        &before.now.open.cell,
        &before.money.as_ref().unwrap().unpaid.cell,
    ] {
        assert_eq!(sure(cell), unknown, "no list was read: {before:?}");
    }

    // A full page: nobody knows what came before it. Of the other lists there is no record.
    let job = |id: u8| {
        json!({"id": id, "job_number": format!("R-{id}"), "status": "New",
            "status_stage": "open", "created_at": at, "total_amount": 7})
    };
    let read = |route| Shown {
        route,
        at: &at,
        limit: 100,
        ..USUAL
    };
    Shown {
        limit: 2,
        ..read(Route::Jobs)
    }
    .store(&store, &[job(1), job(2)])
    .await;
    for route in [Route::Leads, Route::Payments, Route::JobStatusChanges] {
        read(route).store(&store, &[]).await;
    }
    let first = home();
    assert_eq!(
        sure(&first.taken_in.now),
        (Some(2), Exactness::AtLeast),
        "{first:?}"
    );
    assert_eq!(
        sure(&first.taken_in.before),
        unknown,
        "before the mirror began: {first:?}"
    );
    assert_eq!(first.taken_in.days.len(), report::LINE_DAYS);
    let none = (Some(0), Exactness::Exact);
    for cell in [
        &first.leads.now,
        &first.money.as_ref().unwrap().received.now,
        &first.now.follow_ups.cell,
    ] {
        assert_eq!(sure(cell), none, "an empty list is known: {first:?}");
    }
    assert_eq!(
        sure(&first.now.open.cell),
        (Some(2), Exactness::AtLeast),
        "no change names a repair, but both are on the newest page"
    );
    for cell in [
        &first.completed.now,
        &first.money.as_ref().unwrap().unpaid.cell,
        &first.now.overdue.cell,
        &first.now.ready.cell,
    ] {
        assert_eq!(sure(cell), unknown, "nothing says it: {first:?}");
    }

    let change = |id: u8, job: u8, stage: &str| {
        json!({"id": id, "job_number": format!("R-{job}"), "status": "Ready for pickup",
            "status_stage": stage, "created_at": at})
    };
    let changes = [
        change(1, 1, "open"),
        change(2, 2, "completed"),
        change(3, 9, "completed"),
    ];
    let later = (now + SignedDuration::from_secs(1)).to_string();
    let changed = Shown {
        at: &later,
        ..read(Route::JobStatusChanges)
    };
    changed.store(&store, &changes).await;
    store.close().await.unwrap();
    let last = home();
    let one = (Some(1), Exactness::AtLeast);
    assert_eq!(
        sure(&last.now.open.cell),
        one,
        "older repairs may be open: {last:?}"
    );
    assert_eq!(sure(&last.now.ready.cell), one, "{last:?}");
    assert_eq!(
        sure(&last.completed.now),
        one,
        "the repair 9 is not in the mirror: {last:?}"
    );
    assert_eq!(
        sure(&last.money.as_ref().unwrap().unpaid.cell),
        (Some(7), Exactness::About),
        "no payment names a repair"
    );
    let [(status, repairs)] = &last.by_status[..] else {
        panic!("{last:?}")
    };
    assert_eq!((status.as_str(), sure(repairs)), ("Ready for pickup", one));
}

#[tokio::test]
async fn a_payment_is_of_the_job_and_the_customer_of_its_own_branch() {
    let (place, store) = place("");
    let at = "2026-03-01T00:00:00.000000Z";
    for (branch, id) in [(None, 1), (Some("2"), 2)] {
        let shown = |route| Shown {
            route,
            business: branch,
            served: Some("1"),
            limit: 100,
            ..USUAL
        };
        let mobile = format!("0170 {id}");
        let customer =
            json!({"id": id, "name": format!("C{id}"), "mobile_number": mobile, "created_at": at});
        shown(Route::Customers).store(&store, &[customer]).await;
        let job = json!({"id": id, "job_number": "R-1", "mobile_number": mobile, "created_at": at});
        shown(Route::Jobs).store(&store, &[job]).await;
        let paid = json!({"id": id, "job_number": "R-1", "amount": 5, "created_at": at});
        shown(Route::Payments).store(&store, &[paid]).await;
    }
    store.close().await.unwrap();
    let payments = place.rows("SELECT id, job_id, customer_name FROM report_payments ORDER BY id");
    assert_eq!(json!(payments), json!([[1, 1, "C1"], [2, 2, "C2"]]));
}
