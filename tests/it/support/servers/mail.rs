//! A mail server in Python, in a process of its own, which keeps what it accepts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::kept_port;
use crate::support::python;

const SCRIPT: &str = include_str!("mail.py");

/// A mail server that ends with the value.
pub(crate) struct MailServer {
    dir: TempDir,
    child: Child,
    port: u16,
}

impl MailServer {
    /// `None` as for [`python`].
    pub(crate) fn start() -> Option<Self> {
        Self::with(&json!({}))
    }

    pub(crate) fn with(options: &Value) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mood"), "well").unwrap();
        let mut options = options.clone();
        options["port"] = kept_port().into();
        let (child, port) = run(dir.path(), &options)?;
        Some(Self { dir, child, port })
    }

    pub(crate) fn be(&self, mood: &str) {
        fs::write(self.dir.path().join("mood"), mood).unwrap();
    }

    /// Ends without a goodbye, and starts again at the same port.
    pub(crate) fn begin_again(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, _) = run(self.dir.path(), &json!({ "port": self.port })).unwrap();
    }

    /// Every mail that was accepted so far.
    pub(crate) fn mails(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.path().join("mails")).unwrap_or_default();
        // A line being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(dir: &Path, options: &Value) -> Option<(Child, u16)> {
    let mut asked = options.clone();
    for name in ["mood", "mails"] {
        asked[name] = dir.join(name).to_str().unwrap().into();
    }
    let mut child = Command::new(python()?)
        .args(["-c", SCRIPT, &asked.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap().parse().unwrap();
    Some((child, port))
}
