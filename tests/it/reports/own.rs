//! The shop's own reports, what a report refuses, and hostile text in every format.

use jiff::Timestamp;
use serde_json::{Value, json};
use shopmirror::store::Store;
use shopmirror_core::record::Route;

use super::truth::show;
use crate::commands::terminal::Terminal;
use crate::support::Place;
use crate::support::office::Office;

const HOSTILE: &str = "=cmd|' /C calc'!A0<script>alert(1)</script>\"'&\u{1b}[31m\u{202e}\r\n,x";

pub(super) async fn place(records: &[(Route, Value)]) -> Place {
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
        "-- title = \"Brands\"\n-- about = \"Jobs by brand.\"\n-- needs.jobs = [\"device_brand\"]\n\
         -- parameters.least.default = 1\n-- money = [\"total\"]\n-- chart.bars = [\"brand\", \"jobs\"]\n\
         SELECT device_brand AS brand, count(*) AS jobs, sum(total_amount) + 0.2 AS total FROM report_jobs\n\
         WHERE created_date BETWEEN :from AND :to GROUP BY 1 HAVING count(*) >= :least",
    );
    let listed = place.run(["report"]).await;
    assert!(
        listed.out.contains("brands") && listed.out.contains("intake"),
        "{listed:?}"
    );
    let args = [
        "report",
        "brands",
        "--from",
        "2026-03-01",
        "--to",
        "2026-03-02",
    ];
    let json = place
        .run(args.iter().chain(&["--format", "json"]))
        .await
        .json();
    assert_eq!(json["columns"], json!(["brand", "jobs", "total"]));
    assert_eq!(json["rows"], json!([["Acme", 1, 0.3]]));
    let csv = place.run(args.iter().chain(&["--format", "csv"])).await.out;
    assert_eq!(csv, "brand,jobs,total\r\n\"Acme\",1,0.30\r\n");
    let svg = place.run(args.iter().chain(&["--format", "svg"])).await.out;
    assert!(svg.starts_with("<svg") && svg.contains("Acme"), "{svg}");
    let none = place
        .run(args.iter().chain(&["--set", "least=2"]))
        .await
        .out;
    assert!(none.contains("nothing, as far as is known"), "{none}");
    for (more, part) in [
        (["--set", "most=2"], "it has: least"),
        (["--set", "least=many"], "must be a number"),
        (["--from", "2026-03-09"], "exchange --from and --to"),
    ] {
        let args = ["report", "brands", "--to", "2026-03-02"];
        let refused = place.run(args.iter().chain(&more)).await;
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert!(refused.err.contains(part), "{refused:?}");
    }

    // A report can only read, and what is wrong with one keeps no other from being made.
    place.write("reports/erase.sql", "DELETE FROM jobs");
    place.write("reports/two.sql", "SELECT 1; DELETE FROM jobs");
    place.write("reports/other.sql", "ATTACH '/etc/passwd' AS x");
    place.write("reports/head.sql", "-- chart.pie = [\"a\"]\nSELECT 1");
    for (name, part) in [
        ("erase", "may only read"),
        ("two", "may only read"),
        ("other", "may only read"),
        ("head", "line 1"),
        ("absent", "there is no report"),
        ("technicians", "jobs.assigned_to"),
    ] {
        let refused = place.run(["report", name]).await;
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.err.contains(part), "{name}: {refused:?}");
    }
    let listed = place.run(["report"]).await;
    assert!(
        listed.out.contains("brands") && listed.err.contains("head.sql"),
        "{listed:?}"
    );
    assert_eq!(place.number("SELECT count(*) FROM jobs"), 1);
}

#[tokio::test]
async fn hostile_text_is_text_in_every_format() {
    let job = json!({"id": 1, "status": HOSTILE, "status_stage": HOSTILE, "created_at": "2026-03-01T00:00:00Z"});
    let place = place(&[(Route::Jobs, job)]).await;
    let run = async |format: &str| {
        let args = ["report", "open-repairs", "--format", format];
        let ended = place.run(args).await;
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
    assert_eq!(json["rows"][0][1], HOSTILE);
}

#[tokio::test]
async fn a_spreadsheet_keeps_texts_of_digits_and_calculates_with_numbers() {
    let mut records = Vec::new();
    for (id, number, amount) in [
        (1, "00123", 1.5),
        (2, "+49 30 1", 2.0),
        (3, "a;=1+1", -3.25),
    ] {
        let payment = json!({"id": id, "reference": number, "amount": amount});
        records.push((Route::Payments, payment));
    }
    let place = place(&records).await;
    let Some(office) = Office::new(&place) else {
        return;
    };
    let args = ["records", "payments", "--format", "csv"];
    place.write("payments.csv", &place.run(args).await.out);
    // Comma, quotation mark, UTF-8, from the first row on, "format quoted field as text". Written
    // again with quotes around texts.
    let read_as = "--infilter=CSV:44,34,76,1,,0,true,false";
    let written_as = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,true,false";
    office
        .convert("payments.csv", &[read_as], written_as, "read")
        .await;
    let read = std::fs::read_to_string(place.path("read/payments.csv")).unwrap();
    for text in [
        "\"00123\"",
        "\"'+49 30 1\"",
        "\"a;'=1+1\"",
        ",1.5,",
        ",2,",
        ",-3.25,",
    ] {
        assert!(read.contains(text), "{text}: {read}");
    }
}

#[tokio::test]
async fn letters_with_joiners_and_marks_stay_and_a_cell_has_the_direction_of_its_text() {
    let name = "علی\u{200c}رضا \u{200f}שלום ශ්\u{200d}රී co\u{ad}op \u{2068}+49\u{2069}";
    let job = json!({"id": 1, "status": name, "status_stage": name, "created_at": "2026-03-01T00:00:00Z"});
    let place = place(&[(Route::Jobs, job)]).await;
    for format in ["table", "csv", "html", "json"] {
        let ended = place
            .run(["report", "open-repairs", "--format", format])
            .await;
        assert!(ended.out.contains(name), "{format}: {ended:?}");
        if format == "html" {
            let cell = format!(" dir=\"auto\">{name}</td>");
            assert!(ended.out.contains(&cell), "{ended:?}");
        }
    }
    let csv = place.run(["records", "jobs", "--format", "csv"]).await.out;
    assert!(csv.contains(name), "{csv}");

    // A terminal gets the letters too, and an escape for what reverses its line.
    let args = ["report", "open-repairs", "--format", "csv"];
    let mut terminal = Terminal::start(place.command(args).as_std());
    terminal
        .until("علی\u{200c}رضا \u{200f}שלום ශ්\u{200d}රී co\u{ad}op \\u{2068}+49\\u{2069}")
        .await;
    assert_eq!(terminal.end().await, Some(0));
}

#[tokio::test]
async fn no_call_of_a_function_takes_long_texts_and_no_answer_more_memory_than_there_is() {
    let place = place(&[]).await;
    for (name, sql, part) in [
        (
            "long-text",
            "SELECT instr(printf('%.200000c', 'a'), 'b') AS at",
            "more than 131072 bytes",
        ),
        (
            "long-pattern",
            "SELECT 'a' LIKE printf('%.2000c', '_') AS is_like",
            "pattern too complex",
        ),
        (
            "million",
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000)\n\
             SELECT i FROM n",
            "returns more than",
        ),
    ] {
        place.write(&format!("reports/{name}.sql"), sql);
        let refused = place.run(["report", name, "--format", "csv"]).await;
        assert_ne!(refused.code, Some(0), "{name}");
        assert!(refused.err.contains(part), "{name}: {}", refused.err);
    }
}
