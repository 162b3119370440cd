//! Excel files of reports and records: what a spreadsheet reads in them, and what they cost.

use std::path::PathBuf;

use serde_json::{Value, json};
use shopmirror::store::Store;
use shopmirror_core::reading::ReadSettings;
use shopmirror_core::record::Route;

use super::own::place;
use super::truth::show;
use crate::support::Place;
use crate::support::office::Office;
use crate::support::run_python;

/// The output of a command as a file of its folder.
async fn saved(place: &Place, args: &[&str], file: &str) -> PathBuf {
    let ended = place.command(args).output().await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let path = place.path(file);
    std::fs::write(&path, ended.stdout).unwrap();
    path
}

fn payment(id: i64, amount: &Value, created_at: &str) -> (Route, Value) {
    let record = json!({"id": id, "amount": amount, "reference": format!("0012{id}"),
        "note": "=1+1", "created_at": created_at});
    (Route::Payments, record)
}

#[tokio::test]
async fn a_spreadsheet_reads_the_numbers_sums_marks_and_notes_of_a_report() {
    let place = place(&[
        payment(1, &json!(1234.5), "2026-03-01T10:00:00Z"),
        payment(2, &json!(0.1), "2026-03-02T10:00:00Z"),
        payment(3, &json!(0.2), "2026-03-02T11:00:00Z"),
        payment(4, &json!("about ten"), "2026-03-03T11:00:00Z"),
    ])
    .await;
    let days = ["--from", "2026-03-01", "--to", "2026-03-03"];
    let report = [&["report", "payments"][..], &days].concat();
    let truth = place.run(report.iter().chain(&["--json"])).await.json();
    let excel = [&report[..], &["--format", "xlsx"]].concat();
    let first = saved(&place, &excel, "payments.xlsx").await;
    let second = saved(&place, &excel, "again.xlsx").await;
    assert_eq!(
        std::fs::read(first).unwrap(),
        std::fs::read(second).unwrap()
    );

    let (Some(reads), Some(calculates)) = (Office::new(&place), Office::that_calculates(&place))
    else {
        return;
    };
    let (rows, notes) = reads.sheets("payments.xlsx").await;
    let (calculated, _) = calculates.sheets("payments.xlsx").await;
    assert_eq!(
        rows, calculated,
        "the sums have the values that they come to"
    );
    let lines: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 5, "{rows}");
    let column = |name: &str| {
        let head = format!("\"{name}\"");
        lines[0].iter().position(|own| *own == head).expect(name)
    };
    // Whatever the numbers are: a formula of another sheet finds its column again tomorrow.
    let csv = place
        .run(report.iter().chain(&["--format", "csv"]))
        .await
        .out;
    let csv_head = csv.lines().next().unwrap();
    for (of_csv, of_excel) in [("_mark", ": how sure"), ("_max", ": at most")] {
        let columns = lines[0].iter().filter(|head| head.contains(of_excel));
        assert_eq!(columns.count(), csv_head.matches(of_csv).count(), "{rows}");
    }
    let columns = truth["columns"].as_array().unwrap();
    for (index, name) in columns.iter().enumerate() {
        let total = &truth["totals"][index];
        if let Some(total) = total.as_f64() {
            let name = name.as_str().unwrap();
            let head = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
            let read: f64 = lines[4][column(&head)].parse().unwrap();
            assert!((read - total).abs() < 1e-9, "{name}: {read} and {total}");
        }
    }
    assert_eq!(lines[1][column("Period")], "2026-03-01", "{rows}");
    assert_eq!(lines[1][column("Received")], "1234.5", "{rows}");
    assert_eq!(
        lines[1][column("Received: how sure")],
        "\"at least\"",
        "{rows}"
    );
    for note in [
        "Payments",
        "2026-03-01 to 2026-03-03, as of",
        "cannot be read",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

#[tokio::test]
async fn a_spreadsheet_reads_records_as_reports_do_and_runs_no_text() {
    let place = place(&[
        payment(1, &json!("1.234,50"), "2026-03-01T23:30:00Z"),
        payment(2, &json!(-3.25), "2026-03-02T10:00:00Z"),
        payment(3, &json!("ten"), "2026-03-02T10:00:00Z"),
    ])
    .await;
    saved(
        &place,
        &["records", "payments", "--format", "xlsx"],
        "payments.xlsx",
    )
    .await;
    let Some(office) = Office::new(&place) else {
        return;
    };
    let (rows, notes) = office.sheets("payments.xlsx").await;
    let lines: Vec<&str> = rows.lines().collect();
    assert!(
        lines[0].starts_with("\"Id\",\"Amount\",\"Created at\",\"Note\",\"Reference\""),
        "{rows}"
    );
    for (line, part) in [
        (
            1,
            ",1234.5,2026-03-01 23:30:00,\"=1+1\",\"00121\",\"payment\"",
        ),
        (
            2,
            ",-3.25,2026-03-02 10:00:00,\"=1+1\",\"00122\",\"refund\"",
        ),
        (3, ",\"ten\",2026-03-02 10:00:00,"),
        (3, "\"[\"\"amount\"\"]\""),
    ] {
        assert!(lines[line].contains(part), "{part}: {rows}");
    }
    assert!(notes.contains("Times are those of UTC"), "{notes}");
    let refused = place
        .run(["records", "jobs", "1", "--format", "xlsx"])
        .await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
}

#[tokio::test]
async fn a_value_stands_below_the_field_that_it_was_sent_in_and_an_unread_day_as_it_was_sent() {
    let place = place(&[]).await;
    let store = Store::open(&place.store()).unwrap();
    let own = [("total_amount".to_owned(), "grand_total".to_owned())];
    let settings = ReadSettings {
        fields: [(Route::Jobs, own.into())].into(),
        ..ReadSettings::default()
    };
    store.configure_reading(settings).await.unwrap();
    // The day of the offset, or a moment of the day before: nothing says which.
    let job = json!({"id": 1, "grand_total": "1.234,50", "scheduled_on": "2026-11-27T00:00:00+02:00",
        "total_amount": 5});
    let now = "2026-03-10T12:00:00Z".parse().unwrap();
    show(&store, Route::Jobs, now, &[job.to_string()]).await;
    store.close().await.unwrap();
    let jobs = ["records", "jobs", "--format", "xlsx"];
    saved(&place, &jobs, "jobs.xlsx").await;
    let Some(office) = Office::new(&place) else {
        return;
    };
    let (rows, _) = office.sheets("jobs.xlsx").await;
    let lines: Vec<&str> = rows.lines().collect();
    let head = "\"Id\",\"Grand total\",\"Scheduled on\",\"Total amount\",";
    assert!(lines[0].starts_with(head), "{rows}");
    let cells = "\"1\",1234.5,\"2026-11-27T00:00:00+02:00\",5,";
    assert!(lines[1].starts_with(cells), "{rows}");
    assert!(lines[1].contains("[\"\"scheduled_on\"\"]"), "{rows}");
}

#[tokio::test]
async fn the_locale_is_that_of_documents_and_of_csv_for_excel_and_never_of_data() {
    let place = place(&[payment(1, &json!(1234.5), "2026-03-01T10:00:00Z")]).await;
    let currency = "[reports]\ncurrency = \"EUR\"\n";
    let report = [
        "report",
        "payments",
        "--from",
        "2026-03-01",
        "--to",
        "2026-03-01",
    ];
    let records = ["records", "payments"];
    let (html, csv) = (["--format", "html"], ["--format", "csv"]);
    let excel = ["--format", "csv", "--excel"];
    for (of_file, of_machine) in [("locale = \"de-DE\"\n", "C"), ("", "de_DE.UTF-8")] {
        place.configure_all(&[of_file, currency].concat());
        for (args, part) in [
            ([&report[..], &html].concat(), ">1.234,50 EUR<"),
            ([&report[..], &html].concat(), ">01.03.2026<"),
            ([&report[..], &csv].concat(), "\"2026-03-01\",1,,,1234.50,"),
            ([&report[..], &excel].concat(), "\u{feff}period;payments;"),
            (
                [&report[..], &excel].concat(),
                "\"2026-03-01\";1;;;1234,50;",
            ),
            (report.to_vec(), "EUR 1,234.50"),
            (
                [&records[..], &csv].concat(),
                "\r\n\"1\",1234.5,\"2026-03-01T10:00:00Z\",",
            ),
            (
                [&records[..], &excel].concat(),
                "\r\n\"1\";1234,5;\"2026-03-01T10:00:00Z\";",
            ),
        ] {
            let mut command = place.command(&args);
            let ended = command.env("LANG", of_machine).output().await.unwrap();
            let out = String::from_utf8(ended.stdout).unwrap();
            assert!(out.contains(part), "{args:?}, {part}: {out}");
        }
    }
}

/// A hundred thousand records, each with some texts of its own.
const MANY: &str = "
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)
    INSERT INTO payments (id, amount, reference, note, created_at, _amount, _created_at, _kind,
        _first_seen_at, _changed_at, _seq)
    SELECT 'p' || i, i / 100.0, 'reference ' || i, 'a note about the payment ' || i,
        '2026-03-01T10:00:00Z', i / 100.0, '2026-03-01T10:00:00.000000Z', 'payment',
        '2026-03-01T10:00:00.000000Z', '2026-03-01T10:00:00.000000Z', 1000 + i
    FROM n";

/// The most memory that a command held, in KiB.
const PEAK: &str = "
import json, resource, subprocess, sys
asked = json.load(sys.stdin)
with open(asked['file'], 'wb') as file:
    subprocess.run(asked['command'], cwd=asked['folder'], stdout=file, check=True)
print(json.dumps(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))";

#[tokio::test]
async fn a_hundred_thousand_records_become_an_excel_file_within_96_mib() {
    let place = place(&[payment(1, &json!(1), "2026-03-01T10:00:00Z")]).await;
    place.writer().execute(MANY, ()).unwrap();
    let command = place.command(["records", "payments", "--format", "xlsx"]);
    let mut argv = vec![command.as_std().get_program().to_str().unwrap()];
    argv.extend(command.as_std().get_args().map(|arg| arg.to_str().unwrap()));
    let asked = json!({"command": argv, "folder": place.path(""), "file": place.path("many.xlsx")});
    let Some(peak) = run_python(PEAK, &asked) else {
        return;
    };
    let kib = peak.as_u64().unwrap();
    eprintln!("100,000 records as Excel: {kib} KiB at most");
    assert!(kib < 96 * 1024, "{kib} KiB");
}
