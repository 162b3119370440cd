//! Reports and the records browser on the page.

use serde_json::json;

use super::{LISTEN, Site};
use crate::support::{Pages, Place};

const HOSTILE: &str = "=1+1<script>alert(1)</script>\u{202e}\"'&";

async fn site(
    pages: &Pages,
    settings: &str,
    reports: &str,
) -> (Place, crate::support::Daemon, Site) {
    let place = pages.place();
    place.configure(&format!("{LISTEN}{settings}{reports}"));
    let daemon = place.daemon();
    let site = Site::of(&place).await;
    (place, daemon, site)
}

fn jobs() -> String {
    let jobs = (1..=120).rev().map(|id| {
        json!({"id": id, "job_number": format!("J{id}"), "status": if id % 2 == 0 { "Open" } else { "Ready" },
            "status_stage": "open", "customer_name": if id == 7 { HOSTILE } else { "Ann" },
            "created_at": jiff::Timestamp::now().to_string(), "total_amount": 10, "paid_amount": 1})
    });
    serde_json::Value::from(jobs.take(100).collect::<Vec<_>>()).to_string()
}

#[tokio::test]
async fn reports_have_a_chart_and_records_are_hidden_unless_allowed() {
    let pages = Pages::start().await;
    pages.show("jobs", jobs());
    let (_place, _daemon, site) = site(&pages, "", "").await;
    let shown = |r: &super::Reply| r.body.contains("<svg");
    let hours = site.get_when("/report?name=busiest-hours", "the chart is shown", shown).await;
    assert_eq!(hours.code, 200);
    assert!(hours.body.contains("<form") && hours.body.contains("weekday"), "{}", hours.body);
    let list = site.get("/reports").await;
    assert!(
        list.body.contains("busiest-hours") && !list.body.contains("name=outstanding"),
        "{}",
        list.body
    );
    for path in ["/report?name=outstanding", "/report?name=absent"] {
        assert_eq!(site.get(path).await.code, 404, "{path}");
    }
    for path in
        ["/records", "/record?route=jobs&id=7", "/api/records", "/api/record?route=jobs&id=7"]
    {
        let reply = site.get(path).await;
        assert!(reply.code == 403 && reply.body.contains("show_records"), "{path}: {reply:?}");
    }
    // What the workspace does not send is said, not an error.
    let missing = site.get("/report?name=sources").await;
    assert!(missing.code == 200 && missing.body.contains("leads.source"), "{missing:?}");
    let bad = site.get("/report?name=busiest-hours&from=2026-03-02&to=2026-03-01").await;
    assert!(bad.code == 400 && bad.body.contains("ends"), "{bad:?}");
}

#[tokio::test]
async fn records_are_listed_filtered_sorted_found_and_shown_with_their_history() {
    let pages = Pages::start().await;
    pages.show("jobs", jobs());
    let (place, _daemon, site) =
        site(&pages, "show_records = true\n", "[reports]\nfolder = \".\"\n").await;
    place.write("mine.sql", "-- title: Mine\nSELECT customer_name FROM jobs WHERE id = '121'");
    let all = site
        .get_when("/api/records?route=jobs", "jobs are mirrored", |r| r.body.contains("J120"))
        .await;
    let rows: serde_json::Value = serde_json::from_str(&all.body).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 50);

    let edited = jobs().replacen("\"status\":\"Open\"", "\"status\":\"<b>Closed\"", 1);
    let hostile =
        json!({"id": 121, "status": "New", "job_number": "J121", "customer_name": HOSTILE})
            .to_string();
    pages.shown("jobs", edited.replacen('[', &format!("[{hostile},"), 1)).await;

    let ids = async |query: &str| -> Vec<String> {
        let reply = site.get(&format!("/api/records?route=jobs&{query}")).await;
        let rows: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("column=status&text=CLOSED").await, ["120"]);
    assert_eq!(ids("sort=job_number&order=up&column=status&text=ready").await[..2], ["101", "103"]);
    assert_eq!(ids("page=2").await.len(), 1);
    assert_eq!(ids("sort=&text=&order=").await.len(), 50, "as a form sends what is left empty");
    // What there is not is said, with what there is.
    let long = "x".repeat(3_000);
    for (query, says) in [
        ("route=jobs&column=nothing&text=x", "job_number"),
        ("route=jobs&sort=%22;--", "job_number"),
        ("route=job", "payments"),
        ("route=jobs&order=down%20up", "up, down"),
        ("page=-1", "whole number"),
        ("format=xls", "csv"),
        ("colunm=status&text=x", "column"),
        (&format!("q={long}"), "500 bytes"),
    ] {
        for path in ["/records", "/api/records"] {
            let reply = site.get(&format!("{path}?{query}")).await;
            assert!(reply.code == 400 && reply.body.contains(says), "{query}: {reply:?}");
        }
    }

    let html = site.get("/records?route=jobs").await.body;
    assert!(html.contains("Next page") && html.contains("&lt;script&gt;"), "{html}");
    assert!(html.contains("have them in UTC"), "{html}");
    let csv = site.get("/records?route=jobs&format=csv").await;
    assert!(csv.header("content-disposition").unwrap().contains("jobs.csv"), "{csv:?}");
    assert!(csv.body.contains("\"'=1+1<script>"), "{}", csv.body);
    let found = site.get("/records?q=J121").await.body;
    assert!(found.contains("record?route=jobs&amp;id=121"), "{found}");
    let record = site.get("/record?route=jobs&id=120").await.body;
    for part in ["Version 2", "<del>Open</del>", "<ins>&lt;b&gt;Closed</ins>"] {
        assert!(record.contains(part), "{part}: {record}");
    }
    let own = site.get("/report?name=mine").await.body;
    for body in [&html, &found, &record, &own] {
        assert!(!body.contains("<script>alert") && !body.contains('\u{202e}'), "{body}");
    }
    assert!(own.contains("&lt;script&gt;"), "{own}");
    assert_eq!(site.get("/record?route=jobs&id=999").await.code, 404);
}

#[tokio::test]
async fn a_record_with_thousands_of_versions_is_shown_as_it_is_now() {
    const LAST: usize = 10_400;
    let pages = Pages::start().await;
    pages.show("leads", r#"[{"id":1,"name":"N1","status":"New"}]"#);
    let place = pages.place();
    place.configure(&format!("{LISTEN}show_records = true\n"));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let tool = rusqlite::Connection::open(place.store()).unwrap();
    tool.execute_batch(&format!(
        "WITH RECURSIVE n (v) AS (SELECT 2 UNION ALL SELECT v + 1 FROM n WHERE v < {LAST})
         INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, business, body)
         SELECT 'evt_' || v, 'leads', '1', 'updated', v, observed_at, NULL,
             '{{\"id\":1,\"name\":\"N' || v || '\",\"status\":\"New\"}}'
         FROM n CROSS JOIN changes c WHERE c.route = 'leads' AND c.version = 1;
         UPDATE leads SET name = 'N{LAST}', _seq = (SELECT max(seq) FROM changes);"
    ))
    .unwrap();
    drop(tool);
    let newest = format!("N{LAST}");

    let shown = place.run(["show", "leads", "1", "--json"]).await.json();
    assert_eq!(shown["record"]["name"], newest.as_str());
    assert_eq!(shown["changes"].as_array().unwrap().len(), 200);
    assert_eq!(shown["changes"][199]["version"], LAST);
    assert_eq!(shown["has_older"], true);
    let text = place.run(["show", "leads", "1"]).await.out;
    let advice = "shopmirror log --route leads --id 1 --limit 1000";
    assert!(text.contains(&newest) && text.contains(advice), "{text}");
    let all =
        place.run(["log", "--route", "leads", "--id", "1", "--limit", "99999", "--json"]).await;
    assert_eq!(all.json().as_array().unwrap().len(), LAST);
    let latest = place.run(["log", "--route", "leads", "--id", "1", "--limit", "2"]).await.out;
    assert!(
        latest.lines().count() == 2 && latest.ends_with(&format!("\"{newest}\"\n")),
        "{latest}"
    );

    pages.show("leads", format!(r#"[{{"id":1,"name":"{newest}","status":"New"}}]"#));
    let _daemon = place.daemon();
    let site = Site::of(&place).await;
    let page = site.get("/record?route=leads&id=1").await.body;
    assert!(page.contains(&format!("<dd>{newest}</dd>")) && page.contains(advice), "{page}");
    let changes: serde_json::Value =
        serde_json::from_str(&site.get("/api/record?route=leads&id=1").await.body).unwrap();
    assert_eq!(changes.as_array().unwrap().len(), 200);
    assert_eq!(changes[199]["version"], LAST);
}
