//! What is accepted: the defaults, every key, and where the key and the files are looked for.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::civil::time;
use jiff::tz::TimeZone;
use secrecy::ExposeSecret;
use shopmirror::config::{Auth, Base, Condition, Config, ConfigError, KeySource, SinkKind, Start};
use shopmirror::text::locale::Locale;
use shopmirror_core::record::Route;

use super::{WORKSPACE, folder, read};

const BARE: &str = "[workspace]\nbase_url = \"https://shop.example.com/api\"\n";

#[test]
fn what_is_left_out_depends_on_what_is_given() {
    let (_dir, base) = folder();
    let config = read("", WORKSPACE, &base).unwrap();
    assert_eq!(
        config.backup.path,
        config.store.path.with_file_name("backups")
    );
    assert_eq!(
        config.routes.iter().map(|r| r.route).collect::<Vec<_>>(),
        Route::ALL
    );
    let small = read("[budget]", "requests_per_minute = 20", &base).unwrap();
    assert_eq!(
        small.budget.reserve, 5,
        "a quarter is left to other clients"
    );
    let slow = read("[routes.jobs]", "min_interval = \"5m\"", &base).unwrap();
    assert_eq!(
        slow.routes[0].max_interval,
        Duration::from_secs(300),
        "the shortest counts"
    );
}

/// Keys that no test of the running program sets, and secrets in each place.
const EVERYTHING: &str = r#"[workspace]
base_url = "http://127.0.0.1:8080/api/"
api_key_file = "/etc/shopmirror/api-key"
auth = "x-api-key"
businesses = ["34", 12, "12"]
ca_file = "ca.pem"
time_zone = "Europe/Berlin"
locale = "de-DE"
[budget]
requests_per_minute = 600
reserve = 0
[poll]
min_interval = "100ms"
max_interval = "24h"
limit = 1
timeout = "1m 30s"
[routes]
outsourced_jobs.enabled = false
leads = { every = "30s" }
jobs = { ignore = ["age", "last_seen"], min_interval = "500ms" }
[once]
every = "10m"
[store]
path = "/var/lib/shopmirror/mirror.db"
log_retention = "2years"
[status]
listen = "0.0.0.0:7780"
token_file = "token"
[reports.schedule.till]
report = "payments"
at = "07:30"
days = ["mon", "fri"]
path = "till.csv"
[sinks.erp]
type = "webhook"
url_file = "erp-url"
secret_file = "erp-secret"
headers = { Authorization = "Bearer CANARY" }
timeout = "5s"
concurrency = 64
start = "2026-03-01T08:00:00+01:00"
retry = ["0s", "5s"]
[sinks.erp.where]
status_stage = "completed"
amount = { ">" = 10, "<" = 100.5 }
brand = { in = ["A", "B"] }
before.note = { exists = false }
changed = ["status", "amount"]
[sinks.chat]
type = "webhook"
url = "https://chat.example.com/hooks?token=CANARY"
format = "template"
template_file = "chat.json"
"#;

#[test]
fn every_key_sets_its_value_and_no_secret_is_shown() {
    let (dir, base) = folder();
    let config = read("", EVERYTHING, &base).unwrap_or_else(|problems| panic!("{problems}"));
    let shown = format!("{config:?} {config:#?}");
    assert!(
        !shown.contains("CANARY") && !shown.contains("whsec_"),
        "{shown}"
    );

    let workspace = &config.workspace;
    assert_eq!(workspace.base_url.as_str(), "http://127.0.0.1:8080/api");
    assert_eq!(
        (workspace.auth, workspace.businesses.clone()),
        (Auth::XApiKey, ["12", "34"].map(String::from).into())
    );
    assert_eq!(workspace.ca_file, Some(dir.path().join("ca.pem")));
    assert_eq!(workspace.time_zone.iana_name(), Some("Europe/Berlin"));
    assert_eq!(workspace.locale, Locale::named("de-DE"));
    let machine = Base {
        time_zone: TimeZone::get("Asia/Tokyo").ok(),
        ..base
    };
    let silent = read("", WORKSPACE, &machine).unwrap();
    assert_eq!(silent.workspace.time_zone.iana_name(), Some("Asia/Tokyo"));
    assert_eq!(
        (config.budget.requests_per_minute, config.budget.reserve),
        (600, 0)
    );
    assert_eq!(
        (config.poll.limit, config.poll.timeout),
        (1, Duration::from_secs(90))
    );
    let [jobs, customers, leads, ..] = &*config.routes else {
        panic!("{:?}", config.routes)
    };
    assert_eq!(config.routes.len(), 5);
    assert_eq!(jobs.min_interval, Duration::from_millis(500));
    assert_eq!((jobs.ignore.len(), customers.ignore.len()), (2, 0));
    assert_eq!(leads.every, Some(Duration::from_secs(30)));
    assert_eq!(config.once_every, Some(Duration::from_secs(600)));
    let token = &config.status.as_ref().unwrap().tokens[0];
    assert_eq!(token.secret.expose_secret().len(), 24);
    let till = &config.reports.schedule["till"];
    assert_eq!(
        (till.at.as_slice(), till.days.len()),
        (&[time(7, 30, 0, 0)][..], 2)
    );

    let erp = &config.sinks["erp"];
    let changed = Condition::Changed(vec!["status".to_owned(), "amount".to_owned()]);
    assert!(
        erp.filter.conditions.contains(&changed),
        "{:?}",
        erp.filter.conditions
    );
    assert_eq!(erp.filter.conditions.len(), 6);
    assert_eq!(
        erp.start,
        Start::At("2026-03-01T07:00:00Z".parse().unwrap())
    );
    assert_eq!(
        (*erp.retry).to_vec(),
        [Duration::ZERO, Duration::from_secs(5)]
    );
    let SinkKind::Webhook(webhook) = &erp.kind else {
        panic!("{erp:?}")
    };
    assert_eq!((webhook.secrets.len(), webhook.concurrency), (2, 64));
    assert!(webhook.headers.contains_key("authorization"));
}

#[test]
fn the_key_is_looked_for_in_its_documented_order() {
    let (dir, base) = folder();
    let named = format!("{BARE}api_key_file = \"mine\"\n");
    let key = |text: &str, base: &Base| Config::parse(text, "f", base).unwrap().workspace.key;
    let error = key(BARE, &base).read().unwrap_err().to_string();
    for source in ["api_key_file", "credential `api-key`", "SHOPMIRROR_API_KEY"] {
        assert!(error.contains(source), "{error}");
    }
    let base = Base {
        env_key: Some("ak_CANARY".into()),
        ..base
    };
    assert!(matches!(key(BARE, &base), KeySource::Environment(_)));
    let credentials = dir.path().join("credentials");
    let base = Base {
        credentials_dir: Some(credentials.clone()),
        ..base
    };
    assert!(
        matches!(key(BARE, &base), KeySource::Environment(_)),
        "no credential of that name"
    );
    fs::create_dir(&credentials).unwrap();
    fs::write(credentials.join("api-key"), "ak_CANARY").unwrap();
    assert!(matches!(key(BARE, &base), KeySource::File(p) if p == credentials.join("api-key")));
    assert!(matches!(key(&named, &base), KeySource::File(p) if p == dir.path().join("mine")));
}

#[test]
fn written_files_are_relative_to_the_state_folder_and_read_files_to_the_configuration() {
    let text = format!("{WORKSPACE}[sinks.audit]\ntype = \"file\"\npath = \"audit.ndjson\"\n");
    let base = Base {
        dir: "/etc/s".into(),
        state_dir: Some("/var/s".into()),
        ..Base::default()
    };
    let config = Config::parse(&text, "f", &base).unwrap();
    let key = Path::new("/etc/s/api-key");
    assert!(matches!(&config.workspace.key, KeySource::File(path) if path == key));
    assert_eq!(config.store.path, Path::new("/var/s/mirror.db"));
    let SinkKind::File(audit) = &config.sinks["audit"].kind else {
        panic!()
    };
    assert_eq!(audit.path, Path::new("/var/s/audit.ndjson"));
    let config = Config::parse(
        &text,
        "f",
        &Base {
            state_dir: None,
            ..base
        },
    )
    .unwrap();
    assert_eq!(config.store.path, Path::new("/etc/s/mirror.db"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let load = |name: &str| Config::load(&dir.path().join(name)).unwrap_err();
    fs::write(dir.path().join("binary.toml"), b"\xff\xfe").unwrap();
    fs::write(dir.path().join("huge.toml"), vec![b'#'; 1024 * 1024 + 1]).unwrap();
    for name in ["absent.toml", "binary.toml", "huge.toml"] {
        let error = load(name);
        assert!(matches!(error, ConfigError::Read { .. }) && error.to_string().contains(name));
    }
    fs::write(dir.path().join("bad.toml"), "[poll]\nlimit = 500\n").unwrap();
    let ConfigError::Invalid(problems) = load("bad.toml") else {
        panic!()
    };
    assert!(
        problems.iter().any(|p| (p.line, p.column) == (2, 9)),
        "{problems}"
    );
}
