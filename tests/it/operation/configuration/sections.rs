//! What each section but `[sinks]` refuses.

use super::refused;

#[test]
fn a_text_that_is_no_configuration() {
    refused(
        "",
        &[
            ("", &["1:1 [workspace] needs `base_url`"]),
            ("[workspace", &["1:11 unclosed table, expected `]`"]),
            (
                "[workspace]\nbase_url \"https://shop.example.com/api\"",
                &["2:10 expected `=`"],
            ),
            ("[poll]\nlimit = 50\n[poll]", &["3:2 duplicate key"]),
            (
                "[workspce]",
                &[
                    "1:1 needs `base_url`",
                    "1:2 unknown key at the top; did you mean `workspace`?",
                ],
            ),
        ],
    );
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let text = r#"[workspace]
base_url = "http://shop.example.com"
api_key_fil = "api-key"
[budget]
requests_per_minute = 0
[poll]
timeout = "soon"
limit = 500
[sinks.erp]
type = "webhook"
url = "https://erp.example.com/CANARY"
routes = ["job"]
"#;
    let problems = [
        "2:12 `base_url` must begin with https://",
        "3:1 unknown key in [workspace]; did you mean `api_key_file`?",
        "5:23 `requests_per_minute` must be from 1 to 1000000",
        "7:11 `timeout` must be a duration, for example",
        "8:9 `limit` must be from 1 to 100",
        r#"12:11 `routes` cannot be this word; did you mean "jobs"?"#,
    ];
    refused("", &[(text, &problems)]);
}

#[test]
fn the_workspace() {
    refused(
        "[workspace]",
        &[
            (
                r#"base_url = "shop.example.com/api""#,
                &["2:12 must begin with https:// or http://, for example"],
            ),
            (
                r#"base_url = "https://shop.example.com/""#,
                &["2:12 must end in /api"],
            ),
            (
                r#"base_url = "https://shop.example.com/api?p=2""#,
                &["2:12 must end in /api"],
            ),
        ],
    );
    refused(
        "[workspace]\nbase_url = \"https://shop.example.com/api\"",
        &[
            (
                r#"auth = "oauth""#,
                &["3:8 cannot be this word; use one of bearer, x-api-key"],
            ),
            (
                r#"businesses = "12""#,
                &["3:14 must be a list in square brackets"],
            ),
            (
                "businesses = [true]",
                &["3:14 `businesses` must be a list of ids, for example [\"2\", \"5\"]"],
            ),
            (
                r#"time_zone = "Berlin""#,
                &[r#"3:13 for example "Europe/Berlin""#],
            ),
            (
                r#"locale = "German""#,
                &[r#"3:10 must be a language and a country, for example "de-DE""#],
            ),
            (
                "reserve = 5",
                &["3:1 unknown key in [workspace]; the keys here are: api_key_file"],
            ),
        ],
    );
}

#[test]
fn the_budget_and_the_polls() {
    refused(
        "[budget]",
        &[
            (
                r#"requests_per_minute = "60""#,
                &["2:23 must be a whole number"],
            ),
            (
                "reserve = 90",
                &["2:11 otherwise no request is left for polls"],
            ),
        ],
    );
    refused(
        "[poll]",
        &[
            (
                "timeout = 20",
                &["2:11 must be a duration in quotes, for example \"20s\""],
            ),
            (
                r#"timeout = "20""#,
                &["2:11 write a number and a unit (ms, s, m, h, d)"],
            ),
        ],
    );
}

#[test]
fn the_routes() {
    refused(
        "[routes.payment]",
        &[(r#"every = "5m""#, &["1:9 did you mean `payments`?"])],
    );
    refused(
        "[routes.jobs]",
        &[(
            r#"enabled = "no""#,
            &["2:11 `enabled` must be true or false, without quotes"],
        )],
    );
    let all = "jobs customers leads payments job_status_changes outsourced_jobs";
    let off: String = all
        .split(' ')
        .map(|route| format!("{route}.enabled = false\n"))
        .collect();
    refused(
        "[routes]",
        &[(
            &off,
            &["1:1 every route has enabled = false: enable at least one"],
        )],
    );
}

#[test]
fn the_store_and_its_backup() {
    refused(
        "[store]",
        &[(
            r#"log_retention = "5s""#,
            &["2:17 `log_retention` must be from 1m to 36525d"],
        )],
    );
    refused(
        "[backup]",
        &[(
            r#"at = "25:10""#,
            &[r#"2:6 a time of day from "00:00" to "23:59""#],
        )],
    );
}

#[test]
fn the_status_page() {
    refused(
        "[status]",
        &[
            (
                r#"listen = "localhost:7780""#,
                &["2:10 must be an address and a port, for example"],
            ),
            (
                r#"listen = "0.0.0.0:7780""#,
                &["2:10 so the page needs a token"],
            ),
            (
                "token_file = \"prose\"\nlisten = \"[::]:80\"",
                &["2:14 must be one token alone, or a name, a role and a token"],
            ),
            (
                "cert_file = \"page.pem\"\nlisten = \"127.0.0.1:80\"",
                &["2:13 needs the other of `cert_file` and `key_file` beside it"],
            ),
        ],
    );
}

#[test]
fn the_alerts() {
    let file = "[sinks.audit]\ntype = \"file\"\npath = \"a.ndjson\"\n";
    let postgres = "[sinks.db]\ntype = \"postgres\"\nurl_file = \"database\"\nworkspace = \"a\"\n";
    refused(
        &format!("{file}{postgres}[alerts]"),
        &[
            (
                r#"sink = "adit""#,
                &[r#"9:8 names no sink of this file; did you mean "audit"?"#],
            ),
            (
                r#"sink = ["db"]"#,
                &["9:8 names a sink of type postgres, which takes records only"],
            ),
        ],
    );
}

#[test]
fn the_scheduled_reports() {
    let report = "report = \"payments\"\nat = \"07:30\"";
    let missing = ["1:1 needs `report`", "1:1 needs `at`"];
    refused("[reports.schedule.till]", &[("", &missing)]);
    refused(
        &format!("[reports.schedule.till]\n{report}"),
        &[
            ("", &["1:1 needs `path`, a file to write, or `sink`"]),
            (
                "path = \"till.csv\"\nsink = \"erp\"",
                &["5:8 names no sink of this file"],
            ),
            (
                "path = \"a.csv\"\nperiod = \"tomorrow\"",
                &["5:10 use one of today, yesterday"],
            ),
        ],
    );
}
