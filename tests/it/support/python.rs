//! Runs a Python script with the public packages that tests compare with. The first call installs
//! them into `target/`, if they are not there yet.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::servers::is_left_out;

/// The Python that has the packages of `tests/python-tools`; `None` if they are left out.
pub(crate) fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if is_left_out("python-tools") {
        return None;
    }
    let install = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python-tools");
        let made = Command::new(script).output().unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())
    };
    Some(FOUND.get_or_init(install).clone())
}

/// What the script prints as JSON, given `input` as JSON; `None` as for [`python`].
pub(crate) fn run_python(script: &str, input: &Value) -> Option<Value> {
    let mut child = Command::new(python()?)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.to_string().as_bytes())
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}
