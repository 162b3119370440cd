//! Every file under `tests/config` is read; an invalid one must give the messages beside it.
//!
//! After an intended change of a message, `REWRITE_EXPECTED=1 cargo test config_files` rewrites the
//! `.txt` files; read the difference before you commit it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shopmirror::config::{
    Auth, Base, Comparison, Condition, Config, ConfigError, KeySource, Side, SinkKind, Start,
    Wanted,
};
use shopmirror::record::{Kind, Route};

const INVALID_AT_LEAST: usize = 60;

/// A folder with the files that the fixtures name.
fn folder() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("erp-url", "https://erp.example.com/hooks/CANARY\n", 0o640),
        (
            "erp-secret",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n\nwhsec_Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ\n",
            0o600,
        ),
        ("writable", "https://erp.example.com/hooks/CANARY\n", 0o666),
        ("prose", "ask Anna for the CANARY\n", 0o600),
        ("blank", " \n\n", 0o600),
        ("chat.json", "{\"text\": \"{{ record.name }} CANARY\"}\n", 0o640),
        ("database", "postgresql://shop:CANARY@db.example.com/shops\n", 0o640),
        ("mail-login", "shop@example.com\nCANARY\n", 0o640),
        ("token", "CANARYCANARYCANARYCANARY\n", 0o640),
    ];
    for (name, content, mode) in files {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let base = Base { dir: dir.path().to_owned(), ..Base::default() };
    (dir, base)
}

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(kind);
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    paths.sort();
    paths
}

fn parse(path: &Path, base: &Base) -> Result<Config, String> {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let dir = base.dir.display().to_string();
    Config::parse(&text, &name, base).map_err(|problems| problems.to_string().replace(&dir, "DIR"))
}

fn valid(name: &str) -> Config {
    let (_dir, base) = folder();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/config/valid/{name}.toml"));
    parse(&path, &base).unwrap()
}

/// The values that a message gives as examples or suggestions, as they are written in the file.
fn suggested(message: &str) -> Vec<String> {
    let after = |start: &str| Some(message[message.rfind(start)? + start.len()..].to_owned());
    let quoted = |word: &str| match word {
        word if word.starts_with('"') => word.to_owned(),
        word => format!("\"{word}\""),
    };
    if let Some(word) = after("did you mean ") {
        return vec![word.trim_end_matches('?').trim_matches('`').to_owned()];
    }
    if let Some(words) = after("use one of ") {
        return words.split(", ").map(quoted).collect();
    }
    let Some(text) = after("for example ").or_else(|| after("write it as ")) else {
        return Vec::new();
    };
    if let Some(end) = text.find(", not ") {
        return vec![text[..end].to_owned()];
    }
    if text.starts_with(['[', '{']) || text.contains(" = ") {
        let end = text.find("; ").unwrap_or(text.len());
        return vec![text[..end].to_owned()];
    }
    if !text.starts_with('"') {
        return vec![quoted(text.split([' ', ',', ';']).next().unwrap_or_default())];
    }
    // "one", "two" or "three"; then more words may follow.
    let mut values = Vec::new();
    let mut rest = text.as_str();
    while let Some(end) = rest.strip_prefix('"').and_then(|inside| inside.find('"')) {
        values.push(rest[..end + 2].to_owned());
        rest = &rest[end + 2..];
        rest = rest.strip_prefix(", ").or_else(|| rest.strip_prefix(" or ")).unwrap_or("");
    }
    values
}

/// Each problem as its line and column, from 1, its message, and how many characters are marked.
fn problems(report: &str) -> Vec<(usize, usize, String, usize)> {
    let mut found: Vec<(usize, usize, String, usize)> = Vec::new();
    for line in report.lines().skip(1) {
        if line.starts_with(' ') {
            let marks = line.chars().filter(|c| *c == '^').count();
            if line.trim_start().starts_with('|') && marks > 0 {
                found.last_mut().unwrap().3 = marks;
            }
            continue;
        }
        let mut parts = line.splitn(4, ':');
        let _file = parts.next();
        let mut number = || parts.next().unwrap().parse::<usize>().unwrap();
        let (row, column) = (number(), number());
        found.push((row, column, parts.next().unwrap().to_owned(), 0));
    }
    found
}

/// The file with the marked part, or with a missing key, replaced by what a message suggests.
fn corrected(text: &str, problem: &(usize, usize, String, usize), with: &str) -> String {
    let (row, column, message, marks) = problem;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(rest) = message.split_once(" needs `") {
        let key = rest.1.split('`').next().unwrap();
        let line = if with.contains(" = ") { with.to_owned() } else { format!("{key} = {with}") };
        if rest.0.trim().starts_with("[workspace]") && !text.contains("[workspace]") {
            lines.push("[workspace]".to_owned());
            lines.push(line);
        } else {
            lines.insert(*row, line);
        }
    } else {
        let line: Vec<char> = lines[row - 1].chars().collect();
        let (before, after) = (&line[..column - 1], &line[column - 1 + marks..]);
        lines[row - 1] =
            before.iter().copied().chain(with.chars()).chain(after.iter().copied()).collect();
    }
    lines.join("\n")
}

#[test]
fn what_a_message_suggests_is_accepted_in_its_place() {
    let (_dir, base) = folder();
    let mut tried = 0;
    for path in fixtures("invalid") {
        let text = fs::read_to_string(&path).unwrap();
        let report = parse(&path, &base).unwrap_err();
        for problem in problems(&report) {
            for with in suggested(&problem.2) {
                let text = corrected(&text, &problem, &with);
                let again = Config::parse(&text, "again.toml", &base);
                let left = again.map_err(|problems| problems.to_string()).err().unwrap_or_default();
                let still = problems_at(&left, &problem);
                assert!(still.is_empty(), "{}: {with} is refused: {still:?}", path.display());
                tried += 1;
            }
        }
    }
    assert!(tried > 40, "only {tried} suggestions were tried");
}

/// The messages of a report about the place, or the missing key, of an earlier problem.
fn problems_at(report: &str, earlier: &(usize, usize, String, usize)) -> Vec<String> {
    let (row, column, message, _) = earlier;
    let missing = message.contains(" needs `");
    problems(report)
        .into_iter()
        .filter(|(at, from, now, _)| {
            let same_place = (at, from) == (row, column) && !missing;
            let same_key = missing && (now == message || *at == row + 1);
            (same_place || same_key) && !now.contains("duplicate key")
        })
        .map(|(_, _, now, _)| now)
        .collect()
}

#[test]
fn every_invalid_file_gives_the_messages_beside_it() {
    let (_dir, base) = folder();
    let rewrite = std::env::var_os("REWRITE_EXPECTED").is_some();
    let paths = fixtures("invalid");
    for path in &paths {
        let message = parse(path, &base).expect_err(&path.display().to_string()) + "\n";
        assert!(!message.contains("CANARY"), "{message}");
        let beside = path.with_extension("txt");
        if rewrite {
            fs::write(&beside, &message).unwrap();
        }
        assert_eq!(message, fs::read_to_string(&beside).unwrap(), "{}", path.display());
    }
    assert!(paths.len() >= INVALID_AT_LEAST, "only {} files were read", paths.len());
}

#[test]
fn every_valid_file_is_accepted_and_shows_no_secret() {
    let (_dir, base) = folder();
    let paths = fixtures("valid");
    for path in &paths {
        let config = parse(path, &base).unwrap_or_else(|problems| panic!("{problems}"));
        let shown = format!("{config:?} {config:#?}");
        assert!(!shown.contains("CANARY") && !shown.contains("whsec_"), "{shown}");
    }
    assert!(paths.len() >= 5, "only {} files were read", paths.len());
}

#[test]
fn the_smallest_file_has_the_documented_defaults() {
    let config = valid("smallest");
    assert_eq!(config.workspace.base_url.as_str(), "https://myshop.example.com/api");
    assert_eq!(config.workspace.auth, Auth::Bearer);
    assert_eq!((config.budget.requests_per_minute, config.budget.reserve), (60, 15));
    assert_eq!((config.poll.limit, config.poll.timeout), (100, Duration::from_secs(20)));
    assert_eq!(config.routes.iter().map(|r| r.route).collect::<Vec<_>>(), Route::ALL);
    for route in &config.routes {
        assert_eq!(route.min_interval, Duration::from_secs(1));
        assert_eq!(route.max_interval, Duration::from_secs(90));
        assert_eq!((route.every, route.weight), (None, 1.0));
    }
    assert!(config.store.path.ends_with("mirror.db"));
    assert_eq!((config.backup.keep, config.backup.at), (7, jiff::civil::time(3, 30, 0, 0)));
    assert_eq!(config.backup.path, config.store.path.with_file_name("backups"));
    assert_eq!(config.store.log_retention, Duration::from_secs(400 * 86_400));
    assert!(config.status.is_none() && config.sinks.is_empty());
}

#[test]
fn every_key_sets_its_value() {
    let config = valid("everything");
    assert_eq!(config.workspace.businesses, ["12", "34"]);
    assert!(config.workspace.ca_file.as_ref().unwrap().ends_with("ca.pem"));
    assert_eq!((config.budget.requests_per_minute, config.budget.reserve), (600, 0));
    assert_eq!((config.poll.limit, config.poll.timeout), (1, Duration::from_secs(90)));
    assert_eq!(config.routes.len(), 5);
    assert_eq!(
        (config.routes[0].weight, config.routes[0].min_interval),
        (2.0, Duration::from_millis(500))
    );
    assert_eq!(config.routes[0].ignore, ["age", "last_seen"]);
    assert!(config.routes[1].ignore.is_empty());
    assert_eq!(config.once_every, Some(Duration::from_secs(600)));
    assert_eq!(config.routes[2].every, Some(Duration::from_secs(30)));
    assert_eq!((config.backup.keep, config.backup.path.as_path()), (14, Path::new("/srv/backups")));
    assert_eq!(config.backup.at, jiff::civil::time(23, 59, 0, 0));
    let erp = &config.sinks["erp"];
    assert_eq!(erp.filter.routes, [Route::Payments, Route::Jobs]);
    assert_eq!(erp.filter.changes, [Kind::Created, Kind::Updated, Kind::Gap, Kind::Baseline]);
    let equals = |name: &str, value: serde_json::Value| Condition::Field {
        side: Side::After,
        name: name.to_owned(),
        wanted: Wanted::Compared(Comparison::Equal, value),
    };
    for wanted in [equals("paid", true.into()), equals("amount", 10.into())] {
        assert!(erp.filter.conditions.contains(&wanted), "{:?}", erp.filter.conditions);
    }
    assert_eq!(erp.start, Start::At("2026-03-01T07:00:00Z".parse().unwrap()));
    assert_eq!(*erp.retry, [Duration::ZERO, Duration::from_secs(5)]);
    let SinkKind::Webhook(webhook) = &erp.kind else { panic!("{erp:?}") };
    assert_eq!((webhook.secrets.len(), webhook.concurrency), (2, 64));
    assert!(webhook.headers.contains_key("authorization"));
    let chat = &config.sinks["chat"];
    assert_eq!(chat.filter.changes, [Kind::Created, Kind::Updated]);
    assert_eq!(chat.filter.routes, Route::ALL);
    assert_eq!((chat.start, chat.retry.len()), (Start::Now, 9));
    assert!(config.sinks["audit"].retry.is_empty());
    let SinkKind::Command(label) = &config.sinks["label"].kind else { panic!() };
    assert_eq!(label.argv, ["/usr/local/bin/print-label", ""]);
}

#[test]
fn a_file_without_a_key_is_read_and_only_its_key_is_refused() {
    let config = valid("no_key");
    let error = config.workspace.key.read().unwrap_err().to_string();
    for source in ["api_key_file", "credential `api-key`", "SHOPMIRROR_API_KEY"] {
        assert!(error.contains(source), "{error}");
    }
}

#[test]
fn a_small_budget_keeps_a_quarter_in_reserve() {
    assert_eq!(valid("small_budget").budget.reserve, 5);
}

#[test]
fn the_key_is_looked_for_in_its_documented_order() {
    let (dir, base) = folder();
    let bare = "[workspace]\nbase_url = \"https://h.example/api\"\n";
    let named = format!("{bare}api_key_file = \"mine\"\n");
    let key = |text: &str, base: &Base| Config::parse(text, "f", base).unwrap().workspace.key;
    let base = Base { env_key: Some("ak_CANARY".into()), ..base };
    assert!(matches!(key(bare, &base), KeySource::Environment(_)));
    let credentials = dir.path().join("credentials");
    let base = Base { credentials_dir: Some(credentials.clone()), ..base };
    assert!(matches!(key(bare, &base), KeySource::Environment(_)), "no credential of that name");
    fs::create_dir(&credentials).unwrap();
    fs::write(credentials.join("api-key"), "ak_CANARY").unwrap();
    assert!(matches!(key(bare, &base), KeySource::File(p) if p == credentials.join("api-key")));
    assert!(matches!(key(&named, &base), KeySource::File(p) if p == dir.path().join("mine")));
    let config = Config::parse(bare, "f", &Base { credentials_dir: None, ..base }).unwrap();
    assert!(!format!("{config:?}").contains("CANARY"));
}

#[test]
fn written_files_are_relative_to_the_state_folder_and_read_files_to_the_configuration() {
    let text = "[workspace]\nbase_url = \"https://h.example/api\"\napi_key_file = \"key\"\n\
                [sinks.audit]\ntype = \"file\"\npath = \"audit.ndjson\"\n";
    let base = Base { dir: "/etc/s".into(), state_dir: Some("/var/s".into()), ..Base::default() };
    let config = Config::parse(text, "f", &base).unwrap();
    assert!(matches!(&config.workspace.key, KeySource::File(p) if p == Path::new("/etc/s/key")));
    assert_eq!(config.store.path, Path::new("/var/s/mirror.db"));
    let SinkKind::File(audit) = &config.sinks["audit"].kind else { panic!() };
    assert_eq!(audit.path, Path::new("/var/s/audit.ndjson"));
    let config = Config::parse(text, "f", &Base { state_dir: None, ..base }).unwrap();
    assert_eq!(config.store.path, Path::new("/etc/s/mirror.db"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let load = |name: &str| Config::load(&dir.path().join(name), None, None).unwrap_err();
    fs::write(dir.path().join("binary.toml"), b"\xff\xfe").unwrap();
    fs::write(dir.path().join("huge.toml"), vec![b'#'; 1024 * 1024 + 1]).unwrap();
    for name in ["absent.toml", "binary.toml", "huge.toml"] {
        let error = load(name);
        assert!(matches!(error, ConfigError::Read { .. }) && error.to_string().contains(name));
    }
    fs::write(dir.path().join("bad.toml"), "[poll]\nlimit = 500\n").unwrap();
    let ConfigError::Invalid(problems) = load("bad.toml") else { panic!() };
    assert!(problems.iter().any(|p| (p.line(), p.column()) == (2, 9)), "{problems}");
}

#[test]
fn hostile_text_is_refused_without_a_panic() {
    let deep = format!("a = {}", "[".repeat(100_000));
    let wide = format!("[workspace]\nbase_url = \"{}\"", "é\t".repeat(100_000));
    for text in ["\u{feff}", "\0", "[", "\"", "=", "[[sinks]]", "a.b.c = 1\r\n", &deep, &wide] {
        let problems = Config::parse(text, "f", &Base::default()).unwrap_err();
        assert!(problems.iter().count() > 0);
        assert!(problems.to_string().len() < 100_000, "the message is out of proportion");
    }
}

/// A file whose every secret is a canary, for the test below.
const SECRETS: &str = r#"[workspace]
base_url = "https://h.example/api"
api_key_file = "api-key"

[sinks.erp]
type = "webhook"
url = "https://erp.example.com/CANARY?t=CANARY"   # was CANARY
headers = { Authorization = "Bearer CANARY", "X-Token" = "CANARY==" }
timeout = "5s"

[sinks]
chat = { type = "webhook", url = "https://chat.example.com/CANARY", concurrency = 4 }
"#;

#[test]
fn no_misplaced_secret_appears_in_a_message() {
    let base = Base::default();
    let mut refused = 0;
    for at in 0..SECRETS.len() {
        for removed in [0, 1, 3, 9] {
            for written in ["", "\"", "\"\"\"", "'", "\n", "=", " ", "[", "}", "#", "a"] {
                let rest = &SECRETS[(at + removed).min(SECRETS.len())..];
                let text = format!("{}{written}{rest}", &SECRETS[..at]);
                if let Err(problems) = Config::parse(&text, "f", &base) {
                    refused += 1;
                    let shown = problems.to_string();
                    assert!(!shown.contains("CANARY"), "{text}\n{shown}");
                }
            }
        }
    }
    assert!(refused > 10_000, "only {refused} texts were refused");
}
