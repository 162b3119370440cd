//! The shop's own reports, what a report refuses, and hostile text in every format.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use shopmirror::record::Route;
use shopmirror::store::Store;

use super::truth::show;
use crate::support::Place;

const HOSTILE: &str = "=cmd|' /C calc'!A0<script>alert(1)</script>\"'&\u{1b}[31m\u{202e}\r\n,x";

async fn place(records: &[(Route, Value)]) -> Place {
    let place = Place::new("http://127.0.0.1:1/api", "any-key");
    place.configure_all("[reports]\nfolder = \"reports\"\n");
    std::fs::create_dir(place.path("reports")).unwrap();
    let store = Store::open(&place.store()).unwrap();
    let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
    for (route, record) in records {
        show(&store, *route, now, &[record.to_string()]).await;
    }
    store.close().await.unwrap();
    place
}

#[tokio::test]
async fn a_file_in_the_folder_is_a_report_with_parameters_and_a_chart() {
    let job = json!({"id": 1, "device_brand": "Acme", "created_at": "2026-03-01T00:00:00Z", "total_amount": 0.1});
    let place = place(&[(Route::Jobs, job)]).await;
    place.write(
        "reports/brands.sql",
        "-- title: Brands\n-- about: Jobs by brand.\n-- needs: jobs.device_brand\n\
         -- parameter: least integer 1 the smallest number\n-- format: money total\n-- chart: bars brand jobs\n\
         SELECT device_brand AS brand, count(*) AS jobs, sum(total_amount) + 0.2 AS total FROM report_jobs\n\
         WHERE created_date BETWEEN :from AND :to GROUP BY 1 HAVING count(*) >= :least",
    );
    let listed = place.run(["report"]).await;
    assert!(listed.out.contains("brands") && listed.out.contains("intake"), "{listed:?}");
    let args = ["report", "brands", "--from", "2026-03-01", "--to", "2026-03-02"];
    let json = place.run(args.iter().chain(&["--format", "json"])).await.json();
    assert_eq!(json, json!([{"brand": "Acme", "jobs": 1, "total": 0.3}]));
    let csv = place.run(args.iter().chain(&["--format", "csv"])).await.out;
    assert_eq!(csv, "brand,jobs,total\r\nAcme,1,0.30\r\n");
    let svg = place.run(args.iter().chain(&["--format", "svg"])).await.out;
    assert!(svg.starts_with("<svg") && svg.contains("Acme"), "{svg}");
    let none = place.run(args.iter().chain(&["--set", "least=2"])).await.out;
    assert!(none.contains("nothing in this period"), "{none}");
    let sql = place.run(["report", "intake", "--sql"]).await.out;
    assert!(sql.starts_with("-- title: Intake"), "{sql}");

    for (args, code, part) in [
        (&["--set", "most=2"][..], 64, "it has: least"),
        (&["--set", "least=many"], 64, "must be a whole number"),
        (&["--from", "2026-03-09"], 64, "exchange --from and --to"),
    ] {
        let refused =
            place.run(["report", "brands", "--to", "2026-03-02"].iter().chain(args)).await;
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.err.contains(part), "{refused:?}");
    }
}

#[tokio::test]
async fn a_report_says_what_it_cannot_do_and_changes_nothing() {
    let place =
        place(&[(Route::Leads, json!({"id": 1, "created_at": "2026-03-01T00:00:00Z"}))]).await;
    let missing = place.run(["report", "sources"]).await;
    assert_eq!(missing.code, Some(65), "{missing:?}");
    for part in ["leads.source", "has not sent so far", "Where the leads of the period came from"] {
        assert!(missing.err.contains(part), "{missing:?}");
    }
    place.write("reports/erase.sql", "DELETE FROM leads");
    place.write("reports/two.sql", "SELECT 1; DELETE FROM leads");
    place.write("reports/other.sql", "ATTACH '/etc/passwd' AS x");
    place.write("reports/wrong.sql", "SELECT colour FROM leads");
    place.write("reports/head.sql", "-- chart: pie a b\nSELECT 1");
    for (name, part) in [
        ("erase", "may only read"),
        ("two", "may only read"),
        ("other", "may only read"),
        ("wrong", "no such column: colour"),
        ("head", "line 1"),
        ("absent", "there is no report"),
    ] {
        let refused = place.run(["report", name]).await;
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.err.contains(part), "{name}: {refused:?}");
    }
    let listed = place.run(["report"]).await;
    assert!(listed.out.contains("intake") && listed.err.contains("head.sql"), "{listed:?}");
    assert_eq!(place.run(["records", "leads", "--json"]).await.json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn hostile_text_is_text_in_every_format() {
    let job = json!({"id": 1, "status": HOSTILE, "status_stage": HOSTILE, "created_at": "2026-03-01T00:00:00Z"});
    let place = place(&[(Route::Jobs, job)]).await;
    let at = ["--at", "2026-03-10T12:00:00Z"];
    let run = async |format: &str| {
        let args = ["report", "open-repairs", "--format", format];
        let ended = place.run(args.iter().chain(&at)).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    };
    for format in ["table", "csv", "html", "svg"] {
        let out = run(format).await;
        assert!(!out.contains(['\u{1b}', '\u{202e}']), "{format}: {out}");
        if ["html", "svg"].contains(&format) {
            assert!(!out.contains("<script"), "{format}: {out}");
        }
    }
    let csv = run("csv").await;
    assert!(csv.lines().nth(1).unwrap().starts_with("\"'=cmd"), "{csv}");
    let json: Value = serde_json::from_str(&run("json").await).unwrap();
    assert_eq!(json[0]["status"], HOSTILE);
    let args = ["report", "open-repairs", "--format", "csv", "--raw"];
    let raw = place.run(args.iter().chain(&at)).await.out;
    assert!(raw.contains(&HOSTILE.replace('"', "\"\"")), "{raw}");
}

#[tokio::test]
async fn records_are_exported_without_loss_or_safe_for_a_spreadsheet() {
    let place = place(&[
        (Route::Leads, json!({"id": 1, "name": HOSTILE, "tags": ["a"]})),
        (Route::Jobs, json!({"id": 2, "created_at": "2026-03-01T00:00:00Z"})),
    ])
    .await;
    let lines = place.run(["export", "leads", "--format", "ndjson"]).await.out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (lines.len(), &lines[0]["name"], &lines[0]["tags"]),
        (1, &json!(HOSTILE), &json!(["a"]))
    );
    let csv = place.run(["export", "leads"]).await.out;
    assert!(
        csv.starts_with("id,name,") && csv.contains("\"'=cmd") && !csv.contains('\u{1b}'),
        "{csv}"
    );
    let raw = place.run(["export", "leads", "--raw"]).await.out;
    assert!(raw.contains(&HOSTILE.replace('"', "\"\"")), "{raw}");
    let report = place.run(["export", "busiest-hours", "--format", "ndjson"]).await;
    assert_eq!((report.code, report.out.as_str()), (Some(0), ""));
    let unknown = place.run(["export", "lorries"]).await;
    assert!(unknown.code == Some(64) && unknown.err.contains("name a route"), "{unknown:?}");
}

#[tokio::test]
async fn an_export_of_many_records_has_each_of_them_once() {
    let place = place(&[]).await;
    let store = Store::open(&place.store()).unwrap();
    for page in 0..11 {
        let ids = page * 100 + 1..=page * 100 + 100;
        let records: Vec<String> = ids.map(|id| json!({"id": id}).to_string()).collect();
        show(&store, Route::Leads, "2026-03-10T12:00:00Z".parse().unwrap(), &records).await;
    }
    store.close().await.unwrap();
    let lines = place.run(["export", "leads", "--format", "ndjson"]).await.out;
    let ids = |lines: Vec<i64>| lines.into_iter().collect::<BTreeSet<i64>>();
    let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = ids(objects.map(|object| object["id"].as_i64().unwrap()).collect());
    assert_eq!((lines.lines().count(), found.len()), (1_100, 1_100));
    let csv = place.run(["export", "leads"]).await.out;
    let rows = csv.lines().skip(1).map(|row| row.split(',').next().unwrap().parse().unwrap());
    assert_eq!((csv.lines().count(), ids(rows.collect()).len()), (1_101, 1_100));
}

#[tokio::test]
async fn a_summary_counts_changes_by_route_field_and_value() {
    let place = place(&[(Route::Leads, json!({"id": 1, "status": "New"}))]).await;
    let store = Store::open(&place.store()).unwrap();
    for (hour, status) in [(13, "Called"), (14, "Won"), (15, "Called")] {
        let at: Timestamp = format!("2026-03-10T{hour}:00:00Z").parse().unwrap();
        show(&store, Route::Leads, at, &[json!({"id": 1, "status": status}).to_string()]).await;
    }
    store.close().await.unwrap();
    let summary = async |more: &[&str]| {
        let args = ["log", "--summary", "--json"];
        place.run(args.iter().chain(more)).await.json()["leads"].clone()
    };
    let all = summary(&[]).await;
    assert_eq!((&all["baseline"], &all["updated"]), (&json!(1), &json!(3)));
    assert_eq!(all["fields"]["status"], json!({"\"Called\"": 2, "\"Won\"": 1}));
    let some =
        summary(&["--since", "2026-03-10T13:30:00Z", "--until", "2026-03-10T14:30:00Z"]).await;
    assert_eq!((&some["baseline"], &some["fields"]["status"]), (&json!(0), &json!({"\"Won\"": 1})));
    let table = place.run(["log", "--summary"]).await.out;
    assert!(table.contains("status") && table.contains("Called"), "{table}");
}

#[tokio::test]
async fn the_past_is_answered_from_the_log_with_how_far_it_reaches() {
    let place = place(&[(Route::Leads, json!({"id": 1, "status": "New", "name": "A"}))]).await;
    let store = Store::open(&place.store()).unwrap();
    let later: Timestamp = "2026-03-11T12:00:00Z".parse().unwrap();
    let edited = json!({"id": 1, "status": "Called", "name": "A"}).to_string();
    show(
        &store,
        Route::Leads,
        later,
        &[edited, json!({"id": 2, "status": "New", "name": "B"}).to_string()],
    )
    .await;
    store.close().await.unwrap();
    let status = async |at: &str| {
        let ended = place.run(["records", "leads", "--json", "--at", at]).await;
        let rows = ended.json().as_array().unwrap().clone();
        let rows: Vec<String> = rows
            .iter()
            .map(|row| format!("{}={}", row["id"], row["status"].as_str().unwrap()))
            .collect();
        (rows, ended.err)
    };
    let (rows, note) = status("2026-03-10T13:00:00Z").await;
    assert_eq!((rows, note.as_str()), (vec!["1=New".to_owned()], ""));
    let (rows, _) = status("2026-03-12T13:00:00Z").await;
    assert_eq!(rows, ["2=New", "1=Called"]);
    let (rows, note) = status("2026-03-01T13:00:00Z").await;
    assert!(rows.is_empty() && note.contains("the log begins at 2026-03-10"), "{note}");

    let shown =
        place.run(["show", "leads", "1", "--json", "--at", "2026-03-10T13:00:00Z"]).await.json();
    assert_eq!(
        (&shown["record"]["status"], shown["changes"].as_array().unwrap().len()),
        (&json!("New"), 1)
    );
    let absent = place.run(["show", "leads", "2", "--at", "2026-03-10T13:00:00Z"]).await;
    assert!(
        absent.code == Some(65) && absent.err.contains("was not in the mirror then"),
        "{absent:?}"
    );
}

#[tokio::test]
async fn a_report_counts_the_shop_as_it_stood_then() {
    let lead = |id: u32, stage: &str| json!({"id": id, "source": "Ads", "status_stage": stage, "created_at": "2026-03-10T11:00:00Z"});
    let place = place(&[(Route::Leads, lead(1, "open"))]).await;
    let store = Store::open(&place.store()).unwrap();
    let later: Timestamp = "2026-03-11T12:00:00Z".parse().unwrap();
    let texts = [lead(1, "completed").to_string(), lead(2, "open").to_string()];
    show(&store, Route::Leads, later, &texts).await;
    store.close().await.unwrap();
    let counted = async |at: &str| {
        let ended = place.run(["report", "sources", "--format", "json", "--at", at]).await;
        let rows = ended.json();
        (rows[0]["leads"].clone(), rows[0]["closed"].clone(), ended.err)
    };
    // The 30 days before that time, not before today.
    assert_eq!(counted("2026-03-10T13:00:00Z").await, (json!(1), json!(0), String::new()));
    assert_eq!(counted("2026-03-12T13:00:00Z").await, (json!(2), json!(1), String::new()));
    let (leads, _, note) = counted("2026-03-01T13:00:00Z").await;
    // Nothing of the leads was seen yet, so that the report says what it needs.
    assert!(leads.is_null() && note.contains("the log begins at 2026-03-10"), "{note}");
}

#[tokio::test]
async fn an_amount_that_was_sent_as_text_is_a_payment_or_a_refund_and_any_other_text_is_none() {
    let amount = |(id, amount): (i64, &str)| {
        let fields = json!({"id": id, "created_at": "2026-03-09T10:00:00Z", "amount": amount});
        (Route::Payments, fields)
    };
    let amounts = [(1, "12.50"), (2, "-5.00"), (3, "7"), (4, "n/a"), (5, ""), (6, "1,000")];
    let place = place(&amounts.map(amount)).await;
    let of_day = ["report", "payments", "--from", "2026-03-09", "--to", "2026-03-09"];
    let payments = place.run(of_day.iter().chain(&["--format", "json"])).await.json();
    let wanted = json!({"period": "2026-03-09", "payments": 2, "received": 19.5, "refunds": 1,
        "refunded": 5.0, "net": 14.5});
    assert_eq!(payments[0], wanted);
}

#[tokio::test]
async fn a_barcode_scanned_into_an_amount_spoils_no_report() {
    let (made, before) = ("2026-03-09T10:00:00Z", "2026-03-08T10:00:00Z");
    let amount_at = |at: &str, id: i64, amount: Value| {
        (Route::Payments, json!({"id": id, "created_at": at, "amount": amount}))
    };
    let amount = |id: i64, amount: Value| amount_at(made, id, amount);
    let bill = |id: i64, total: Value| {
        let fields = json!({"id": id, "created_at": made, "job_number": id.to_string(),
            "customer_name": "Zoë", "status": "ready", "total_amount": total, "paid_amount": 0.5});
        (Route::Jobs, fields)
    };
    let place = place(&[
        amount(1, json!(12.34)),
        amount(2, json!(4_006_381_333_931_000_000_u64)),
        amount(3, json!(-1e300)),
        amount_at(before, 4, json!(0.1)),
        amount_at(before, 5, json!(0.2)),
        amount_at(before, 6, json!(-0.05)),
        bill(1, json!(10)),
        bill(2, json!(1e300)),
    ])
    .await;
    let of_days = ["--from", "2026-03-08", "--to", "2026-03-09", "--format", "json"];
    let payments = place.run(["report", "payments"].iter().chain(&of_days)).await.json();
    let exact = json!({"period": "2026-03-08", "payments": 2, "received": 0.3, "refunds": 1,
        "refunded": 0.05, "net": 0.25});
    assert_eq!(payments[0], exact, "the day without a barcode");
    let day = &payments[1];
    assert_eq!((&day["payments"], &day["refunds"]), (&json!(2), &json!(1)), "{day}");
    let outstanding = place.run(["report", "outstanding", "--format", "json"]).await.json();
    let rows = outstanding.as_array().unwrap();
    assert_eq!(rows.len(), 3, "both bills and their sum: {outstanding}");
    let well = rows.iter().find(|row| row["job_number"] == "1").unwrap();
    assert_eq!((&well["total"], &well["outstanding"]), (&json!(10.0), &json!(9.5)), "{well}");
}
