//! Keeps `docs/reference.md` and `config.example.toml` true: the reference has every key of every
//! struct with its default and no other key, and the example is valid as shipped and with all on.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;

use super::{Base, Config};

const EXAMPLE: &str = include_str!("../../config.example.toml");
const REFERENCE: &str = include_str!("../../docs/reference.md");

/// A configuration with each table of the reference and the keys that it needs. Each `[NAME]` and
/// `[ROUTE]` stands for one table; a type of sink names its sink.
const NEEDED: [(&str, &str); 21] = [
    ("workspace", "base_url = \"https://shop.example.com/api\""),
    ("budget", ""),
    ("poll", ""),
    ("routes.ROUTE", ""),
    ("once", ""),
    ("store", ""),
    ("backup", ""),
    (
        "backup.s3",
        "bucket = \"shop\"\naccess_key_file = \"two-lines\"\nprefix = \"north\"\n\
         age_recipient = \"age17sw573u84tx7uwgu7gae05unfa08y8gs5qkgx3np29afzsw8wcnse7s68x\"",
    ),
    ("status", "listen = \"127.0.0.1:0\""),
    ("reports", ""),
    (
        "reports.schedule.NAME",
        "report = \"payments\"\nat = \"07:30\"\npath = \"till.html\"",
    ),
    ("alerts", "heartbeat_url_file = \"heartbeat-url\""),
    (
        "webhook",
        "url = \"https://erp.example.com/\"\nformat = \"template\"\ntemplate = \"{}\"",
    ),
    ("file", "path = \"audit.ndjson\""),
    (
        "command",
        "command = [\"/bin/true\"]\nformat = \"template\"\ntemplate = \"{}\"",
    ),
    (
        "email",
        "server = \"localhost\"\nfrom = \"a@example.com\"\nto = [\"b@example.com\"]",
    ),
    (
        "postgres",
        "url = \"postgresql://u:p@localhost/d\"\nworkspace = \"north\"",
    ),
    ("nats", "url = \"nats://localhost\"\nworkspace = \"north\""),
    ("mqtt", "url = \"mqtts://localhost\"\nworkspace = \"north\""),
    (
        "s3",
        "bucket = \"shop\"\naccess_key_file = \"two-lines\"\nworkspace = \"north\"",
    ),
    ("intake", INTAKE),
];
const INTAKE: &str = "base_url = \"https://partner.example.com/api\"\napi_key_file = \"key\"\n\
    create = \"lead\"\nfields = { name = \"a\", email = \"b\" }";

/// One row of the reference.
#[derive(Debug)]
struct Row<'d> {
    key: &'d str,
    default: &'d str,
}

/// The rows of the reference by table; those of a type of sink under the name of the type.
fn rows() -> BTreeMap<&'static str, Vec<Row<'static>>> {
    let mut rows: BTreeMap<&str, Vec<Row<'_>>> = BTreeMap::new();
    let mut table = "";
    for line in REFERENCE.lines() {
        if let Some(name) = line
            .strip_prefix("## `[")
            .and_then(|rest| rest.strip_suffix("]`"))
        {
            table = name;
        } else if let Some(name) = line.strip_prefix("### `type = \"") {
            table = name.trim_end_matches("\"`");
        } else if let Some(row) = line.strip_prefix("| `") {
            let (key, rest) = row.split_once("` | ").unwrap();
            let (default, _) = rest.split_once(" | ").unwrap();
            rows.entry(table).or_default().push(Row { key, default });
        }
    }
    rows
}

/// The files that the texts name.
fn folder() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("two-lines", "id\nsecret\n"),
        ("smtp-login", "shop\nsecret\n"),
        ("archive-key", "id\nsecret\n"),
        ("erp-url", "https://erp.example.com/"),
        ("heartbeat-url", "https://watch.example.com/shop"),
        ("erp-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        (
            "warehouse-url",
            "postgresql://shop:password@db.example.com/shops",
        ),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    let base = Base {
        dir: dir.path().to_owned(),
        ..Base::default()
    };
    (dir, base)
}

/// A configuration with all tables. `keys` gives those of a table, from the ones that it needs.
fn with(keys: impl Fn(&str, &str) -> String) -> String {
    let mut text = String::new();
    for (table, needed) in NEEDED {
        let head = match table {
            "routes.ROUTE" => "[routes.jobs]".to_owned(),
            kind if is_type(kind) => format!("[sinks.{kind}]\ntype = \"{kind}\""),
            other => format!("[{}]", other.replace("NAME", "name")),
        };
        text.push_str(&format!("{head}\n{}\n", keys(table, needed)));
    }
    text
}

fn is_type(table: &str) -> bool {
    let types = [
        "webhook", "file", "command", "email", "postgres", "nats", "mqtt", "s3", "intake",
    ];
    types.contains(&table)
}

#[test]
fn the_reference_has_every_key_and_no_other() {
    let (_dir, base) = folder();
    let text = with(|_, needed| format!("{needed}\nqqq = 1"));
    let problems = Config::parse(&text, "shopmirror.toml", &base).unwrap_err();
    let known = |table: &str| -> BTreeSet<String> {
        let begin = format!("unknown key in [{table}]; the keys here are: ");
        let keys = problems
            .iter()
            .find_map(|problem| problem.message.strip_prefix(&begin));
        keys.expect(table).split(", ").map(str::to_owned).collect()
    };
    let rows = rows();
    let documented = |table: &str| -> BTreeSet<&str> {
        rows.get(table)
            .into_iter()
            .flatten()
            .map(|row| row.key)
            .collect()
    };
    for (table, _) in NEEDED {
        let (name, mut wanted) = match table {
            "routes.ROUTE" => ("routes.jobs".to_owned(), documented(table)),
            kind if is_type(kind) => (format!("sinks.{kind}"), documented("sinks.NAME")),
            other => (other.replace("NAME", "name"), documented(table)),
        };
        wanted.extend(documented(table));
        let mut found = known(&name);
        found.remove("schedule");
        found.remove("s3");
        let wanted: BTreeSet<String> = wanted.into_iter().map(str::to_owned).collect();
        assert_eq!(found, wanted, "{table}");
    }
    let tables: BTreeSet<&str> = rows.keys().copied().collect();
    let read: BTreeSet<&str> = NEEDED
        .iter()
        .map(|(table, _)| *table)
        .chain(["sinks.NAME"])
        .collect();
    assert_eq!(tables, read);
}

#[test]
fn each_default_of_the_reference_is_the_default() {
    let (_dir, base) = folder();
    let rows = rows();
    let tried = std::cell::Cell::new(0);
    // The keys of `table` that are not given, with the defaults that the reference shows.
    let defaults = |table: &str, given: &str| -> String {
        let shown = rows[table].iter().filter_map(|Row { key, default }| {
            let value = default.strip_prefix('`')?.strip_suffix('`')?;
            let is_given = given
                .lines()
                .any(|line| line.starts_with(&format!("{key} =")));
            (!is_given).then(|| format!("{key} = {value}\n"))
        });
        let shown: Vec<String> = shown.collect();
        tried.set(tried.get() + shown.len());
        shown.concat()
    };
    let text = with(|table, needed| {
        // Only a CSV file has columns.
        let given = format!(
            "{needed}\n{}",
            if table == "file" { "columns =" } else { "" }
        );
        let common = match table {
            "postgres" => defaults("sinks.NAME", "start ="),
            kind if is_type(kind) => defaults("sinks.NAME", ""),
            _ => String::new(),
        };
        format!("{needed}\n{}{common}", defaults(table, &given))
    });
    let read = |text: &str| {
        let config = Config::parse(text, "shopmirror.toml", &base);
        let config = config.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        format!(
            "{:#?}",
            Config {
                for_readers: String::new(),
                ..config
            }
        )
    };
    assert_eq!(read(&text), read(&with(|_, needed| needed.to_owned())));
    assert!(tried.get() > 60, "only {} defaults are shown", tried.get());
}

#[test]
fn the_example_is_short_and_valid_as_shipped_and_with_all_on() {
    let (dir, base) = folder();
    let read = |text: &str| {
        Config::parse(
            &text.replace("/etc/shopmirror", &dir.path().display().to_string()),
            "example",
            &base,
        )
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    };
    assert!(EXAMPLE.lines().count() <= 150);
    for sink in EXAMPLE
        .split("\n\n")
        .filter(|part| part.contains("#[sinks."))
    {
        let lines = sink.lines().filter(|line| !line.starts_with("# ")).count();
        assert!(lines <= 6, "{sink}");
    }
    let shipped = read(EXAMPLE);
    assert!(shipped.sinks.is_empty() && shipped.status.is_none());
    let on: Vec<&str> = EXAMPLE
        .lines()
        .map(|line| {
            line.strip_prefix('#')
                .filter(|rest| !rest.starts_with(' '))
                .unwrap_or(line)
        })
        .collect();
    let all = read(&on.join("\n"));
    let types: BTreeSet<&str> = all.sinks.values().map(|sink| sink.type_name).collect();
    assert_eq!(types.len(), 9, "an example of each type");
    assert!(all.status.is_some() && all.reports.schedule.len() == 1);
}
