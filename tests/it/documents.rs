//! The commands in README.md and `docs/` that are marked as runnable are run as written, and what
//! they print is compared with what the document shows.
//!
//! ```` ```sh run ```` is run line by line in a folder with a configuration and a filled mirror,
//! ```` ```sql run ```` by sqlite3. A ```` ```text ```` block after it is what they print; `...` stands for
//! any text, and alone in a line for any lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Receiver, Workspace};

/// Commands that documents name and this test cannot run, and why not.
const NOT_RUN: [(&str, &str); 2] = [
    ("shopmirror init --systemd", "`release/try` runs it in a Debian with systemd"),
    ("shopmirror metadata > metadata.json", "the next line needs Datasette"),
];

/// A marked block, and what the document shows as its output.
struct Block {
    place: String,
    language: String,
    text: String,
    shown: Option<String>,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    all.push(root.join("README.md"));
    all.sort();
    all
}

/// The marked blocks of a document, and the lines of its other blocks.
fn blocks(path: &Path) -> (Vec<Block>, Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let (mut marked, mut others) = (Vec::<Block>::new(), Vec::new());
    let mut lines = text.lines().enumerate();
    let mut just_ended = false;
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            just_ended = false;
            others.extend(line.strip_prefix("    ").map(str::to_owned));
            continue;
        };
        let inside: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        match kind.split_once(" run") {
            Some((language, rest)) => {
                let language = format!("{language}{rest}");
                let place = format!("{name}:{}", number + 1);
                marked.push(Block { place, language, text: inside.join("\n"), shown: None });
            }
            None if kind == "text" && just_ended => {
                marked.last_mut().unwrap().shown = Some(inside.join("\n"));
            }
            None => others.extend(inside.iter().map(|line| (*line).to_owned())),
        }
        just_ended = kind.contains(" run");
    }
    (marked, others)
}

/// True if `printed` is what `shown` says, with its `...`.
fn fits(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skipped| fits(rest, &printed[skipped..])),
        Some((line, rest)) => printed.split_first().is_some_and(|(first, others)| {
            line_fits(&line.split("...").collect::<Vec<_>>(), first) && fits(rest, others)
        }),
    }
}

fn line_fits(parts: &[&str], line: &str) -> bool {
    let Some((first, rest)) = parts.split_first() else { return false };
    let Some(after) = line.strip_prefix(first) else { return false };
    match rest {
        [] => after.is_empty(),
        [.., last] => {
            let middle = &rest[..rest.len() - 1];
            let found = middle.iter().try_fold(after, |left, part| {
                left.find(part).map(|place| &left[place + part.len()..])
            });
            found.is_some_and(|left| left.ends_with(last))
        }
    }
}

/// A shop with the records that the documents name, mirrored, with the sinks that they name.
async fn shop() -> (Workspace, Receiver, Place) {
    let (workspace, erp) = (Workspace::start().await, Receiver::start().await);
    workspace.add(Route::Leads, json!({"id": 4711, "name": "Ann Fischer"}));
    // A report of the last weeks needs a repair of today.
    let now = jiff::Timestamp::now().to_string();
    workspace.add(Route::Jobs, json!({"id": 1042, "status": "Completed", "created_at": now}));
    let place = workspace.place();
    place.configure(&Place::webhook_sink("erp", &erp.url("/hook"), ""));
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    (workspace, erp, place)
}

/// Runs a script as an operator types it, with the folders of the service moved to `place`.
async fn run(place: &Place, shell: &[&str], script: &str) -> Output {
    let folder = place.path("").display().to_string();
    let script =
        script.replace("/var/lib/shopmirror/", &folder).replace("/etc/shopmirror/", &folder);
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_shopmirror"), bin.path().join("shopmirror"))
        .unwrap();
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(script).current_dir(place.path("")).stdin(Stdio::null());
    command.env_clear().env("NO_COLOR", "1");
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()));
    tokio::task::spawn_blocking(move || {
        let output = command.output().unwrap();
        drop(bin);
        output
    })
    .await
    .unwrap()
}

async fn check(block: &Block, place: &Place) {
    let output = match block.language.as_str() {
        "sql" => {
            let store = place.store().display().to_string();
            // A comment at the beginning would be read as an option.
            let script = format!("\n{}", block.text);
            run(place, &["sqlite3", "-readonly", "-bail", &store], &script).await
        }
        _ => run(place, &["bash", "-euo", "pipefail", "-c"], &block.text).await,
    };
    let out = String::from_utf8_lossy(&output.stdout);
    let said = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {}\n{said}", block.place, block.text);
    if let Some(shown) = &block.shown {
        let (shown, printed): (Vec<&str>, Vec<&str>) =
            (shown.lines().collect(), out.lines().collect());
        assert!(fits(&shown, &printed), "{} prints something else:\n{out}", block.place);
    } else if block.language == "sh" {
        assert!(!out.is_empty(), "{} prints nothing", block.place);
    }
}

#[tokio::test]
async fn every_command_that_a_document_marks_as_runnable_works_as_shown() {
    let mut ran = 0;
    for document in documents() {
        let (marked, _) = blocks(&document);
        if marked.is_empty() {
            continue;
        }
        // A folder for each document, because one may remove what another shows.
        let (_workspace, _erp, place) = shop().await;
        for block in &marked {
            check(block, &place).await;
            ran += 1;
        }
    }
    assert!(ran >= 9, "only {ran} blocks were run");
}

#[test]
fn every_command_of_a_document_is_run_or_named_with_the_reason() {
    let mut unmarked = Vec::new();
    for document in documents() {
        for line in blocks(&document).1 {
            let command = line.starts_with("shopmirror ") || line.starts_with("sqlite3 ");
            if command && !NOT_RUN.iter().any(|(start, _)| line.starts_with(start)) {
                unmarked.push(format!("{}: {line}", document.display()));
            }
        }
    }
    assert!(unmarked.is_empty(), "mark these blocks with `sh run`:\n{}", unmarked.join("\n"));
}

#[test]
fn what_is_shown_is_compared_line_by_line() {
    for (shown, printed, expected) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("...\nb", "x\ny\nb", true),
        ("...", "", true),
        ("ok ... c", "ok   b c", true),
        ("ok ... c", "ok   b d", false),
        ("...5 s", "12.5 s", true),
        ("a...b...c", "a1b2c", true),
        ("a...b...c", "a1c", false),
    ] {
        let (shown, printed): (Vec<&str>, Vec<&str>) =
            (shown.lines().collect(), printed.lines().collect());
        assert_eq!(fits(&shown, &printed), expected, "{shown:?} {printed:?}");
    }
}
