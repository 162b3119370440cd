//! Says in `SHOPMIRROR_BUILD` of which commit a program is that is no release.
//!
//! A build for development says so without a commit: otherwise each commit would compile everything
//! again.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_debug = std::env::var("PROFILE").as_deref() == Ok("debug");
    let build = if is_debug {
        " (development)".to_owned()
    } else {
        println!("cargo:rerun-if-changed=.git/HEAD");
        println!("cargo:rerun-if-changed=.git/index");
        commit().unwrap_or_default()
    };
    println!("cargo:rustc-env=SHOPMIRROR_BUILD={build}");
}

/// The commit in parentheses; empty for that of a release, `None` if this is no checkout.
fn commit() -> Option<String> {
    let release = format!("v{}", std::env::var("CARGO_PKG_VERSION").ok()?);
    let tags = git(&["tag", "--points-at", "HEAD"])?;
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    if !is_changed && tags.lines().any(|tag| tag == release) {
        return Some(String::new());
    }
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    let changes = if is_changed { " with changes" } else { "" };
    Some(format!(" ({}{changes})", commit.trim()))
}

fn git(arguments: &[&str]) -> Option<String> {
    let ended = Command::new("git").args(arguments).output().ok()?;
    if ended.status.success() {
        String::from_utf8(ended.stdout).ok()
    } else {
        None
    }
}
