//! How SQLite answers the built-in reports: each table of the mirror is read by the index that is meant
//! for it, so that a report about a month does not read what came in before.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Workspace;

/// The ways in which each report reads tables. `SCAN p` reads pollers or periods, `SCAN c` the repairs
/// of the period or the polls of each poller, `SCAN g` the gaps.
const READS: [(&str, &[&str]); 14] = [
    ("busiest-hours", &["SEARCH j USING COVERING INDEX report_jobs_created"]),
    (
        "customers",
        &[
            "SCAN p",
            "SEARCH c USING COVERING INDEX report_customers_created",
            "SEARCH e EXISTS USING COVERING INDEX report_jobs_mobile",
            "SEARCH j USING COVERING INDEX report_jobs_created",
        ],
    ),
    ("follow-ups", &["SEARCH l USING COVERING INDEX report_leads_due"]),
    (
        "intake",
        &[
            "SEARCH r USING COVERING INDEX report_customers_created",
            "SEARCH r USING COVERING INDEX report_jobs_created",
            "SEARCH r USING COVERING INDEX report_leads_created",
        ],
    ),
    (
        "leads",
        &[
            "SEARCH c USING COVERING INDEX report_customers_email",
            "SEARCH c USING COVERING INDEX report_customers_mobile",
            "SEARCH l USING INDEX report_leads_created",
        ],
    ),
    (
        "mirror",
        &[
            "SCAN c",
            "SCAN g USING COVERING INDEX gaps_state",
            "SCAN p",
            "SEARCH g USING COVERING INDEX gaps_state",
            "SEARCH g USING INDEX gaps_state",
            "SEARCH l USING INDEX polls_to_at",
        ],
    ),
    // These hold only the rows that are open or owing.
    ("open-repairs", &["SCAN jobs USING COVERING INDEX report_jobs_open"]),
    ("outsourced", &["SCAN outsourced_jobs USING COVERING INDEX report_outsourced_open"]),
    ("outstanding", &["SCAN jobs USING COVERING INDEX report_jobs_owing"]),
    ("payments", &["SEARCH p USING COVERING INDEX report_payments_created"]),
    ("sources", &["SEARCH l USING COVERING INDEX report_leads_created"]),
    (
        "technicians",
        &[
            "SCAN c",
            "SCAN jobs USING COVERING INDEX report_jobs_open",
            "SEARCH j USING COVERING INDEX report_jobs_created",
            "SEARCH j USING COVERING INDEX report_jobs_number",
            "SEARCH s USING COVERING INDEX report_changes_created",
        ],
    ),
    ("turnaround-by-brand", TURNAROUND),
    ("turnaround-by-person", TURNAROUND),
];
const TURNAROUND: &[&str] = &[
    "SCAN c",
    "SEARCH j USING COVERING INDEX report_jobs_number",
    "SEARCH s USING COVERING INDEX report_changes_created",
    "SEARCH s USING COVERING INDEX report_changes_job",
];

/// Days, offsets and intermediate results.
const SMALL: [&str; 10] =
    ["_time_zone_offsets", "ages", "counted", "d", "days", "h", "hours", "ranked", "spans", "z"];

/// A step without its conditions; `None` if it reads something small.
fn step(detail: &str) -> Option<String> {
    let step = detail.split(" (").next().unwrap_or(detail);
    let (verb, what) = step.split_once(' ')?;
    let table = what.split(' ').next().unwrap_or(what);
    let is_small = SMALL.contains(&table)
        || detail.starts_with("SCAN (subquery")
        || what.contains("AUTOMATIC COVERING");
    ((verb == "SCAN" || verb == "SEARCH") && !is_small).then(|| step.to_owned())
}

#[tokio::test]
async fn every_report_reads_the_index_that_is_meant_for_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let connection = place.open().unwrap();
    connection
        .execute_batch(
            "CREATE TEMP TABLE days (day TEXT PRIMARY KEY, period TEXT NOT NULL, from_at TEXT NOT NULL, \
             to_at TEXT NOT NULL) STRICT, WITHOUT ROWID",
        )
        .unwrap();
    let wanted = BTreeMap::from(READS);
    for listed in place.run(["report", "--format", "json"]).await.json().as_array().unwrap() {
        let name = listed["name"].as_str().unwrap();
        let sql = place.run(["report", name, "--sql"]).await.out;
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let details = statement.raw_query().mapped(|row| row.get::<_, String>("detail"));
        let steps: BTreeSet<String> = details.filter_map(|detail| step(&detail.unwrap())).collect();
        let expected: BTreeSet<String> =
            wanted[name].iter().map(|step| (*step).to_owned()).collect();
        assert_eq!(steps, expected, "{name}");
    }
}
