//! The command line, by what a user runs: what each command does, and how it ends.

mod check;
mod completions;
mod errors;
mod import;
mod init;
mod json;
mod once;
mod records_and_log;
mod search;
mod sinks;
mod status;
pub(crate) mod terminal;

use crate::support::{Place, Workspace};

/// Another user of this machine, in no group. Only root can switch to it.
const STRANGER: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// Says that a test is left out, unless this user may become another one.
fn may_become_another_user() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can become another user");
    }
    is_root
}

/// A folder in which `once` has run on a small shop, with this behind the usual configuration.
async fn filled(rest: &str) -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(rest);
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    (workspace, place)
}
