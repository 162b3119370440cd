//! `import`: older records from a file, beside the daemon.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::filled;
use crate::support::{Place, Workspace, run_python, wait_until};

/// What the tests import with.
const FORMAT: &str = "%d.%m.%Y %H:%M";
const COLUMNS: &str = "Job ID;Created At;Customer Name;Total Amount;Shelf\n";
const NEEDED: [&str; 5] = ["--map", "id=Job ID", "--date-format", FORMAT, "--json"];

/// An export as a portal may make it: the newest 20 jobs of the mirror and 30 older ones, each with
/// an id that is `shift` higher than the workspace's.
fn export(place: &Place, shift: i64) -> String {
    let mut text = COLUMNS.to_owned();
    let sql = "
        SELECT CAST(id AS INTEGER), created_at, customer_name
        FROM jobs
        ORDER BY created_at DESC";
    let jobs = place.rows(sql);
    let line = |id: i64, at: Timestamp, name: &str| {
        let at = at.strftime(FORMAT);
        format!("{};{at};{name};1.234,50 €;A{id}\n", id + shift)
    };
    let created_at = |job: &Value| job[1].as_str().unwrap().parse::<Timestamp>().unwrap();
    for job in jobs.iter().take(20) {
        let name = job[2].as_str().unwrap();
        text += &line(job[0].as_i64().unwrap(), created_at(job), name);
    }
    let lowest = jobs.iter().filter_map(|job| job[0].as_i64()).min().unwrap();
    let oldest = jobs.iter().map(created_at).min().unwrap();
    for number in 1..=30 {
        let at = oldest - SignedDuration::from_hours(12 * number);
        text += &line(lowest - number, at, "Older Olga");
    }
    text
}

#[tokio::test]
async fn an_export_is_imported_beside_the_daemon_and_sinks_get_it_only_from_the_beginning() {
    let workspace = Workspace::start_full().await;
    let place = workspace.place();
    let all = Place::file_sink("all", "start = \"beginning\"");
    place.configure(&format!("{all}{}", Place::file_sink("news", "")));
    let daemon = place.started().await;
    place
        .status_when("every job is read", |s| s["records"]["jobs"] == 100)
        .await;

    place.write("printed.csv", &export(&place, 1));
    let words = [&["import", "jobs", "printed.csv"], &NEEDED[..]].concat();
    let ended = place.run(&words).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert!(ended.err.contains("may be printed numbers"), "{ended:?}");

    place.write("export.csv", &export(&place, 0));
    let words = [&["import", "jobs", "export.csv"], &NEEDED[..]].concat();
    let trial = place
        .run([&words[..], &["--dry-run"]].concat())
        .await
        .json();
    assert_eq!(trial["outcome"]["stored"], 30, "{trial}");
    assert_eq!(trial["other_columns"], json!(["Shelf"]));
    assert_eq!(place.number("SELECT count(*) FROM jobs"), 100);

    let since = ["--complete-since", "2020-01-01"];
    let done = place.run([&words[..], &since].concat()).await.json();
    assert_eq!(done["agreement"]["agree"], 20, "{done}");
    assert_eq!(done["outcome"]["stored"], 30, "{done}");
    let sql = "SELECT count(*) FROM jobs WHERE _via = 'import' AND _total_amount = 1234.5";
    assert_eq!(place.number(sql), 30);
    let last = place.number("SELECT max(seq) FROM changes");
    wait_until("the sinks have it", || place.is_delivered(last)).await;
    let imported = |sink: &str| {
        let lines = place.lines(&format!("{sink}.ndjson"));
        let is_older = |line: &&Value| line["record"]["customer_name"] == "Older Olga";
        let older: Vec<Value> = lines.iter().filter(is_older).cloned().collect();
        assert!(older.iter().all(|line| line["kind"] == "baseline"));
        older.len()
    };
    assert_eq!((imported("all"), imported("news")), (30, 0));

    let again = place.run(&words).await.json();
    assert_eq!(
        again["outcome"],
        json!({"stored": 0, "replaced": 0, "known": 50, "newer": 0,
        "repaired": 0})
    );
    let report = place.run(["report", "repairs"]).await;
    assert!(report.out.contains("by import"), "{report:?}");
    drop(daemon);
}

#[tokio::test]
async fn a_file_that_ends_before_the_polls_begin_is_not_taken_for_complete() {
    let workspace = Workspace::start_full().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let text = export(&place, 0);
    let older = text.lines().skip(21).collect::<Vec<_>>().join("\n");
    place.write("older.csv", &format!("{COLUMNS}{older}\n"));
    let words = [&["import", "jobs", "older.csv"], &NEEDED[..]].concat();
    let ended = place.run(&words).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert!(ended.err.contains("only 0 of the ids"), "{ended:?}");
    let since = ["--trust-ids", "--complete-since", "2020-01-01"];
    let ended = place.run([&words[..], &since].concat()).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert!(ended.err.contains("does not reach the polls"), "{ended:?}");
    let lines = format!("{COLUMNS}{older}\n1;2;3;4;5;6\n");
    place.write("older.csv", &lines);
    let ended = place.run([&words[..], &since].concat()).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert!(
        ended
            .err
            .contains("more cells than there are columns, first in line 32")
    );
    let done = place.run([&words[..], &["--trust-ids"]].concat()).await;
    assert_eq!(done.json()["outcome"]["stored"], 30, "{done:?}");
}

/// Makes a spreadsheet with a date and numbers as Excel stores them.
const SPREADSHEET: &str = r#"
import json, sys, zipfile
path = json.load(sys.stdin)
def part(name, text):
    book.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
main = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
rels = 'http://schemas.openxmlformats.org/package/2006/relationships'
kinds = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
types = 'http://schemas.openxmlformats.org/package/2006/content-types'
def cells(row):
    return ''.join('<c t="inlineStr"><is><t>%s</t></is></c>' % c if isinstance(c, str)
        else '<c s="1"><v>%s</v></c>' % c if isinstance(c, float) else '<c><v>%s</v></c>' % c
        for c in row)
rows = [['id', 'Name', 'Created At'], [1, 'Ada', 46023.5]]
sheet = ''.join('<row>%s</row>' % cells(row) for row in rows)
book = zipfile.ZipFile(path, 'w')
part('[Content_Types].xml', f'<Types xmlns="{types}"/>')
part('_rels/.rels', f'<Relationships xmlns="{rels}"><Relationship Id="r1" '
    f'Type="{kinds}/officeDocument" Target="xl/workbook.xml"/></Relationships>')
part('xl/_rels/workbook.xml.rels', f'<Relationships xmlns="{rels}"><Relationship Id="r1" '
    f'Type="{kinds}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>')
part('xl/workbook.xml', f'<workbook xmlns="{main}" xmlns:r="{kinds}"><sheets>'
    '<sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>')
part('xl/styles.xml', f'<styleSheet xmlns="{main}"><cellXfs><xf numFmtId="0"/>'
    '<xf numFmtId="22"/></cellXfs></styleSheet>')
part('xl/worksheets/sheet1.xml', f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData>'
    '</worksheet>')
book.close()
print('null')
"#;

#[tokio::test]
async fn a_spreadsheet_is_imported_with_its_times_by_the_clock_of_the_shop() {
    let (_workspace, place) = filled("").await;
    let path = place.path("customers.xlsx");
    if run_python(SPREADSHEET, &json!(path)).is_none() {
        return;
    }
    let words = ["import", "customers", "customers.xlsx", "--trust-ids"];
    let ended = place.run(words).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("stored 1 record"), "{ended:?}");
    let sql = "SELECT name, created_at FROM customers WHERE id = '1'";
    assert_eq!(
        place.rows(sql),
        [json!(["Ada", "2026-01-01T12:00:00.000000Z"])]
    );
}
