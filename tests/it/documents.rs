//! The commands in README.md and `docs/` that are marked as runnable are run as written, and what
//! they print is compared with what the document shows.
//!
//! ```` ```sh run ```` is run line by line in a folder with a configuration and a filled mirror,
//! ```` ```sql run ```` by sqlite3. A ```` ```text ```` block after it is what they print; `...` stands for
//! any text, and alone in a line for any lines. What a command without such a block prints is in
//! [`PRINTS`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Receiver, Workspace};

/// Commands that documents name and this test cannot run, and why not.
const NOT_RUN: [(&str, &str); 26] = [
    ("shopmirror init --systemd", "`release/try` runs it in a Debian with systemd"),
    ("shopmirror backup published/mirror.db", "`recipes` runs it"),
    ("shopmirror metadata > published/metadata.json", "`recipes` runs it"),
    ("datasette --immutable", "`recipes` runs it"),
    ("shopmirror export leads", "`recipes` runs it"),
    ("shopmirror replay erp", "`replay` does, with a sink of that shop"),
    ("cargo run -- demo", "`demo` runs it"),
    ("cargo run -- sandbox", "every test does"),
    ("apt install ./shopmirror_VERSION", "`release/try` runs it"),
    ("release/build --cut 0.2.0", "it builds for minutes; tried before a release"),
    ("release/try NEW.deb OLDER.deb", "it needs a built package"),
    ("tests/run", "it runs this test"),
    ("tests/browser/run", "`tests/run` runs it"),
    (".ci/run", "it runs this test"),
    // `.ci/units-live` does what docs/install.md says, in a container with systemd.
    ("install -m 755 target/dist/shopmirror", "`.ci/units-live`"),
    ("for k in sysusers tmpfiles", "`.ci/units-live`"),
    ("install -m 644 systemd/", "`.ci/units-live`"),
    ("systemd-sysusers && systemd-tmpfiles", "`.ci/units-live`"),
    ("install -m 640 -g shopmirror-secrets", "`.ci/units-live`"),
    ("editor /etc/shopmirror/config.toml", "an editor waits for a person"),
    ("runuser -u shopmirror -- shopmirror check", "`release/try` and `.ci/units-live`"),
    ("systemctl enable --now shopmirror shopmirror-key.path", "`.ci/units-live`"),
    ("usermod -aG", "it names users of this machine"),
    ("systemctl disable --now", "it removes the service of this machine"),
    ("rm /etc/systemd/system/shopmirror*", "it removes the service of this machine"),
    ("journalctl -u shopmirror", "it needs a service"),
];

/// How lines of a document are run.
const SHELL: [&str; 4] = ["bash", "-euo", "pipefail", "-c"];

/// A line of what each command prints, by the beginning of the command; `...` stands for any text.
const PRINTS: &[(&str, &str)] = &[
    ("sqlite3 -readonly /var/lib/shopmirror/mirror.db 'select id, name", "4711|Ann Fischer|..."),
    ("select status, count(*) from jobs", "Completed|1"),
    ("shopmirror status", "store ... changes in the log"),
    ("shopmirror records jobs --where", " 1042 ... Completed ..."),
    ("shopmirror show leads 4711", "name ... Ann Fischer"),
    (
        "shopmirror log --since 2h",
        "...leads.updated ... 4711 ... name: \"Ann Fisher\" -> \"Ann Fischer\"",
    ),
    ("shopmirror gaps", "no gaps: every page shared a record with the previous page..."),
    ("shopmirror sinks", " erp ... webhook ..."),
    ("shopmirror dead erp redrive --all", "0 changes will be delivered again when the daemon runs"),
    ("shopmirror find Fischer", " leads ... 4711 ... Ann Fischer ..."),
    ("shopmirror report payments --by month ", " 20... 1 ... 49.95 ... 49.95"),
    ("shopmirror why leads", "guarantee ..."),
    ("shopmirror backup copy.db", "copy.db holds ... changes up to ...; the copy was checked"),
    ("shopmirror verify", "ok ... mirror leads ... records equal their newest version in the log"),
    ("shopmirror forget leads 4711", "removed the data of 4711 in leads: 2 versions"),
    (
        "sqlite3 -readonly mirror.db \"SELECT * FROM _about",
        "report_jobs||The repairs, for reports: ...",
    ),
    ("-- today's leads", "...|leads|4711|baseline"),
    ("shopmirror report  ", " open-repairs ... Open repairs ..."),
    ("shopmirror report intake --business 2 --format csv", "period,jobs,leads,customers"),
    ("shopmirror report busiest-hours --format svg", "<svg ..."),
    ("shopmirror report open-repairs --at", "Open repairs, ... to 2026-03-01"),
    ("shopmirror records jobs --at 3d", "no records match"),
    ("shopmirror show jobs 1042 --at 0s", "status ... Completed"),
    ("shopmirror log --summary --since 1d", " leads ... baseline ..."),
    ("shopmirror log --summary --since 2026", "no changes match"),
    ("shopmirror export jobs", "1042,..."),
    ("shopmirror export payments --format ndjson", "{...\"amount\":49.95...}"),
    ("shopmirror export intake --format csv", "period,jobs,leads,customers"),
    ("shopmirror find miller iphone", " leads ... 4712 ... Tom Miller ..."),
    ("shopmirror find +44 7700 900123", " customers ... 815 ... +44 7700 900123 ..."),
    ("shopmirror find 900123 --route customers --json", "...\"815\"..."),
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
    workspace.add(Route::Payments, json!({"amount": 49.95, "created_at": now}));
    let miller = json!({"id": 4712, "name": "Tom Miller", "device_model": "iPhone 13"});
    workspace.add(Route::Leads, miller);
    let number = json!({"mobile_country_code": "+44", "mobile_number": "7700 900123", "id": 815});
    workspace.add(Route::Customers, number);
    let place = workspace.place();
    place.configure(&Place::webhook_sink("erp", &erp.url("/hook"), ""));
    // The second run sees a change, which the sink gets.
    for name in ["Ann Fisher", "Ann Fischer"] {
        workspace.edit(Route::Leads, "4711", json!({"name": name}));
        let ended = place.run(["once"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
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

/// Runs a block; the problems that its output shows.
async fn check(block: &Block, place: &Place) -> Vec<String> {
    let Block { place: name, text, .. } = block;
    match (block.language.as_str(), &block.shown) {
        ("sql", shown) => {
            let store = place.store().display().to_string();
            // A comment at the beginning would be read as an option.
            let output =
                run(place, &["sqlite3", "-readonly", "-bail", &store], &format!("\n{text}")).await;
            match shown {
                Some(shown) => differs(name, shown, &printed(text, &output)),
                None => lacks(name, text, &printed(text, &output)),
            }
        }
        (_, Some(shown)) => {
            let output = run(place, &SHELL, text).await;
            differs(name, shown, &printed(text, &output))
        }
        (_, None) => {
            let mut problems = Vec::new();
            for line in text.lines() {
                let output = run(place, &SHELL, line).await;
                let mut all = printed(line, &output);
                if let Some((_, file)) = line.split_once(" > ") {
                    all += &fs::read_to_string(place.path(file)).unwrap();
                }
                problems.extend(lacks(name, line, &all));
            }
            problems
        }
    }
}

/// What a script printed; it must have succeeded.
fn printed(script: &str, output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{out}{err}");
    out
}

fn differs(name: &str, shown: &str, out: &str) -> Vec<String> {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), out.lines().collect());
    if fits(&shown, &printed) {
        vec![]
    } else {
        vec![format!("{name} prints something else:\n{out}")]
    }
}

fn lacks(name: &str, command: &str, out: &str) -> Vec<String> {
    let Some((_, text)) = PRINTS.iter().find(|(start, _)| command.starts_with(start)) else {
        return vec![format!("{name}: PRINTS has no line for {command}, which printed:\n{out}")];
    };
    let parts: Vec<&str> = text.split("...").collect();
    if out.lines().any(|line| line_fits(&parts, line)) {
        vec![]
    } else {
        vec![format!("{name}: {command} printed:\n{out}")]
    }
}

#[tokio::test]
async fn every_command_that_a_document_marks_as_runnable_works_and_prints_what_it_promises() {
    let (mut ran, mut problems) = (0, Vec::new());
    for document in documents() {
        let (marked, _) = blocks(&document);
        if marked.is_empty() {
            continue;
        }
        // A folder for each document, because one may remove what another shows.
        let (_workspace, _erp, place) = shop().await;
        for block in &marked {
            problems.extend(check(block, &place).await);
            ran += 1;
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(ran >= 9, "only {ran} blocks were run");
}

/// The first words of lines that are commands.
const PROGRAMS: [&str; 18] = [
    "shopmirror",
    "sqlite3",
    "cargo",
    "apt",
    "install",
    "for",
    "systemctl",
    "systemd-sysusers",
    "usermod",
    "runuser",
    "journalctl",
    "rm",
    "editor",
    "datasette",
    "duckdb",
    "release/",
    "tests/",
    ".ci/",
];

#[test]
fn every_command_of_a_document_is_run_or_named_with_the_reason() {
    let (mut unmarked, mut found) = (Vec::new(), Vec::new());
    for document in documents() {
        for line in blocks(&document).1 {
            let first = line.split(' ').next().unwrap_or_default();
            let is_command = PROGRAMS.iter().any(|name| {
                if name.ends_with('/') { first.starts_with(name) } else { first == *name }
            });
            if !is_command {
                continue;
            }
            match NOT_RUN.iter().find(|(start, _)| line.starts_with(start)) {
                Some((start, _)) => found.push(*start),
                None => unmarked.push(format!("{}: {line}", document.display())),
            }
        }
    }
    let needless = NOT_RUN.iter().filter(|(start, _)| !found.contains(start)).collect::<Vec<_>>();
    assert!(needless.is_empty(), "no document has these commands: {needless:?}");
    assert!(unmarked.is_empty(), "mark these blocks with `sh run`:\n{}", unmarked.join("\n"));
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let count = text.lines().count();
    assert!(count <= 120, "README.md has {count} lines: move some of it to docs/");
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
