//! Runs a Python script with the public packages that tests compare with. The first call installs
//! them into `target/`, if they are not there yet.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The Python that has the packages of `tests/python-tools`. `None` only if they cannot be installed
/// and `SHOPMIRROR_LEFT_OUT`, which `tests/run` sets, names `python-tools`.
pub(crate) fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python-tools");
        let made = Command::new(script).output().unwrap();
        if made.status.success() {
            return Some(PathBuf::from(String::from_utf8(made.stdout).unwrap().trim()));
        }
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        let left_out = std::env::var("SHOPMIRROR_LEFT_OUT").unwrap_or_default();
        assert!(
            left_out.split(' ').any(|name| name == "python-tools"),
            "tests/python-tools cannot install its packages: {said}"
        );
        eprintln!("SKIPPED: python-tools is left out");
        None
    };
    FOUND.get_or_init(install).clone()
}

/// What the script prints as JSON, given `input` as JSON; `None` as for [`python`].
pub(crate) fn run_python(script: &str, input: &Value) -> Option<Value> {
    let mut child = Command::new(python()?)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}
