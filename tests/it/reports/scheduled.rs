//! Scheduled reports from outside: a mail with the chart, a file, what `check` and `status` say.

use jiff::tz::TimeZone;
use serde_json::json;

use crate::sinks::email::MailServer;
use crate::support::{Pages, Place, far_time_of_day, wait_until};

/// The first bytes of an Excel file, which is a ZIP archive.
const EXCEL: &[u8] = b"PK\x03\x04";

fn jobs() -> String {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(48);
    let job = |id: i64| {
        json!({"id": id, "status": "Open", "status_stage": "open", "device_brand": "Brand",
            "created_at": at.to_string()})
    };
    serde_json::Value::from((1..=9).rev().map(job).collect::<Vec<_>>()).to_string()
}

/// Lets a scheduled report have been due while no daemon ran.
pub(crate) fn missed(place: &Place, name: &str) {
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(48);
    let run = json!({"settled_at": at.to_string(), "made": 0, "failed_at": null, "failures": 0, "error": null});
    let store = place.writer();
    let add = "INSERT INTO _meta (name, value) VALUES ('scheduled_reports', json_object(?1, json(?2))) \
         ON CONFLICT (name) DO UPDATE SET value = json_patch(value, excluded.value)";
    store.execute(add, (name, run.to_string())).unwrap();
}

#[tokio::test]
async fn a_scheduled_report_is_mailed_with_its_chart_and_written_to_its_file() {
    let Some(server) = MailServer::start() else {
        return;
    };
    let pages = Pages::start().await;
    pages.show("jobs", jobs());
    let (place, at) = (pages.place(), far_time_of_day(TimeZone::UTC));
    place.configure(&format!(
        "[reports.schedule.hours]\nreport = \"busiest-hours\"\nat = \"{at}\"\nformat = \"csv\"\nnotes = true\nsink = \"desk\"\n\
         [reports.schedule.stages]\nreport = \"open-repairs\"\nat = \"{at}\"\nformat = \"xlsx\"\npath = \"stages.xlsx\"\nsink = \"desk\"\n\
         [sinks.desk]\ntype = \"email\"\nserver = \"localhost:{}\"\ntls = \"none\"\n\
         from = \"shop@example.com\"\nto = [\"desk@example.com\"]\n",
        server.port()
    ));
    let checked = place.run(["check"]).await;
    assert!(
        checked.out.contains("report hours busiest-hours, next at "),
        "{checked:?}"
    );
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let sent = place
        .run(["sinks", "desk", "test", "--report", "hours"])
        .await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.out.contains("accepted"), "{sent:?}");
    let unknown = place
        .run(["sinks", "desk", "test", "--report", "weeks"])
        .await;
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    assert!(unknown.err.contains("hours, stages"), "{unknown:?}");
    assert_eq!(server.mails().len(), 1, "it is sent now");
    missed(&place, "hours");
    missed(&place, "stages");
    let daemon = place.daemon();
    let is_report = |mail: &serde_json::Value| {
        let headers = mail["headers"].as_array().unwrap();
        headers
            .iter()
            .any(|h| h[0] == "Subject" && h[1].as_str().unwrap().contains("hours"))
    };
    wait_until("the report is mailed", || {
        server.mails().iter().filter(|mail| is_report(mail)).count() == 2
    })
    .await;
    let mail = server.mails().into_iter().rfind(is_report).unwrap();
    assert_eq!(mail["to"], json!(["desk@example.com"]));
    let html = mail["html"].as_str().unwrap();
    assert!(
        html.contains("<img src=\"cid:chart\"") && html.contains("<table"),
        "{html}"
    );
    assert!(mail["text"].as_str().unwrap().contains("HOUR"), "{mail}");
    let parts = mail["parts"].as_array().unwrap();
    let part = |kind: &str| parts.iter().find(|part| part[0] == kind).unwrap();
    let chart = part("image/svg+xml");
    assert_eq!(chart[2], "<chart>");
    let file = part("text/csv");
    assert!(file[1].as_str().unwrap().ends_with(".csv"), "{file}");
    let csv = file[3].as_str().unwrap();
    assert!(csv.starts_with("hour,") && csv.contains("\r\n# "), "{csv}");
    wait_until("the file is written", || place.path("stages.xlsx").exists()).await;
    let file = std::fs::read(place.path("stages.xlsx")).unwrap();
    assert!(file.starts_with(EXCEL), "{file:?}");
    let has_excel = |mail: &serde_json::Value| {
        let parts = mail["parts"].as_array().unwrap();
        parts.iter().any(|part| {
            let name = part[1].as_str().unwrap_or_default();
            name.ends_with(".xlsx") && part[3].as_str().unwrap().as_bytes().starts_with(EXCEL)
        })
    };
    wait_until("the Excel file is mailed", || {
        server.mails().iter().any(has_excel)
    })
    .await;
    let made = |status: &serde_json::Value| {
        let reports = status["reports"].as_array().unwrap();
        reports.len() == 2 && reports.iter().all(|report| report["last_at"].is_string())
    };
    place.status_when("both are made", made).await;
    daemon.stop().await;

    // A restart repeats nothing.
    let daemon = place.started().await;
    place.status_when("the reports are known", made).await;
    assert_eq!(
        server.mails().iter().filter(|mail| is_report(mail)).count(),
        2
    );
    daemon.stop().await;
}

#[tokio::test]
async fn check_tells_a_scheduled_report_that_cannot_be_made() {
    let place = Place::new("http://127.0.0.1:1/api", "any-key");
    place.configure(
        "[reports.schedule.absent]\nreport = \"absent\"\nat = \"07:30\"\npath = \"a.html\"\n\
         [reports.schedule.value]\nreport = \"payments\"\nat = \"07:30\"\nparameters.colour = \"1\"\npath = \"c.html\"\n",
    );
    let checked = place.run(["check", "--offline"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    for part in [
        "there is no report \"absent\"",
        "the report has no parameter \"colour\"",
    ] {
        assert!(checked.out.contains(part), "{part}: {checked:?}");
    }
}
