//! The configuration file, as a shop writes it: what is refused, with which words, and what is
//! accepted.
//!
//! A row of a table is a text and the problems it must give, each as `LINE:COLUMN PART OF THE
//! MESSAGE`. The text stands first in its file, so that its lines are counted from 1.

mod secrets;
mod sections;
mod sinks;
mod valid;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use shopmirror::config::{Base, Config, Problems};

const WORKSPACE: &str =
    "[workspace]\nbase_url = \"https://shop.example.com/api\"\napi_key_file = \"api-key\"\n";

/// A folder with the files that the texts name. `CANARY` is a secret.
fn folder() -> (tempfile::TempDir, Base) {
    let dir = tempfile::tempdir().unwrap();
    let secrets =
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n\nwhsec_Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ\n";
    for (name, content, mode) in [
        ("erp-url", "https://erp.example.com/hooks/CANARY\n", 0o640),
        ("erp-secret", secrets, 0o600),
        ("writable", "https://erp.example.com/hooks/CANARY\n", 0o666),
        ("prose", "ask Anna for the CANARY\n", 0o600),
        (
            "chat.json",
            "{\"text\": \"{{ record.name }} CANARY\"}\n",
            0o640,
        ),
        (
            "database",
            "postgresql://shop:CANARY@db.example.com/shops\n",
            0o640,
        ),
        ("two-lines", "id\nCANARY\n", 0o640),
        ("token", "CANARYCANARYCANARYCANARY\n", 0o640),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let base = Base {
        dir: dir.path().to_owned(),
        ..Base::default()
    };
    (dir, base)
}

/// Reads `head` and `keys`, with a workspace behind them unless `head` is empty or is one.
fn read(head: &str, keys: &str, base: &Base) -> Result<Config, Problems> {
    let text = match head {
        "" => keys.to_owned(),
        head if head.starts_with("[workspace]") => format!("{head}\n{keys}\n"),
        head => format!("{head}\n{keys}\n{WORKSPACE}"),
    };
    Config::parse(&text, "shopmirror.toml", base)
}

/// Expects `head` with each row's keys to give exactly the problems of the row, and to show no
/// secret.
fn refused(head: &str, rows: &[(&str, &[&str])]) {
    let (_dir, base) = folder();
    for (keys, wanted) in rows {
        let problems = read(head, keys, &base).expect_err(keys);
        let shown = problems.to_string();
        assert!(!shown.contains("CANARY"), "{keys}\n{shown}");
        assert_eq!(problems.iter().count(), wanted.len(), "{keys}\n{shown}");
        for (problem, wanted) in problems.iter().zip(*wanted) {
            let (place, part) = wanted.split_once(' ').unwrap();
            let found = format!("{}:{}", problem.line, problem.column);
            let is_said = found == place && problem.message.contains(part);
            assert!(is_said, "{keys}\nwanted {wanted}\n{shown}");
        }
    }
}
