//! The commands in README.md and `docs/` that are marked as runnable are run as written, and what
//! they print is compared with what the document shows.
//!
//! ```` ```sh run ```` is run line by line in a folder with a configuration and a filled mirror,
//! ```` ```sql run ```` by sqlite3. A ```` ```text ```` block after it is what they print; `...` stands for
//! any text. What the commands of other blocks print is in [`PRINTS`]. The receiver that the page
//! of the webhook shows is run against the program.

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use sandbox::Route;
use serde_json::json;

use crate::support::servers::kept_port;
use crate::support::{Place, Receiver, Workspace, wait_until};

/// How lines of a document are run.
const SHELL: [&str; 4] = ["bash", "-euo", "pipefail", "-c"];

/// Words that stand in one line of what a command prints, by the beginning of the command.
const PRINTS: &[(&str, &[&str])] = &[
    (
        "sqlite3 -readonly mirror.db 'select id, name",
        &["4711|Ann Fischer|"],
    ),
    ("shopmirror status leads", &["guarantee"]),
    ("shopmirror status", &["mirror ", "changes in the log"]),
    ("shopmirror records jobs --where", &["1042", "Completed"]),
    ("shopmirror records leads 4711", &["name", "Ann Fischer"]),
    (
        "shopmirror log --since 2h",
        &["leads.updated", "4711", "\"Ann Fisher\" -> \"Ann Fischer\""],
    ),
    (
        "shopmirror gaps",
        &["no gaps: every page shared a record with the previous page"],
    ),
    ("shopmirror sinks erp dead", &["no refused changes"]),
    (
        "shopmirror sinks erp replay",
        &["the replay of rows", "replay --cancel"],
    ),
    (
        "shopmirror sinks erp redrive --all",
        &["0 changes will be sent again"],
    ),
    (
        "shopmirror sinks erp redrive --all",
        &["0 changes will be sent again"],
    ),
    ("shopmirror sinks", &["erp", "webhook"]),
    ("shopmirror find Fischer", &["leads", "4711", "Ann Fischer"]),
    (
        "shopmirror report payments --by month --format xlsx",
        &["PK"],
    ),
    ("shopmirror records jobs --format xlsx", &["PK"]),
    ("shopmirror report payments --by month", &["49.95"]),
    ("shopmirror report open-repairs", &["Open repairs"]),
    (
        "shopmirror report intake --business 1 --format csv",
        &["period,jobs,jobs_mark,leads,leads_mark,customers,customers_mark"],
    ),
    ("shopmirror report busiest-hours --format svg", &["<svg"]),
    (
        "shopmirror backup copy.db",
        &["copy.db holds", "the copy was checked"],
    ),
    (
        "shopmirror verify",
        &[
            "mirror leads",
            "records equal their newest version in the log",
        ],
    ),
    (
        "shopmirror forget leads 4711",
        &["removed the data of 1 record: 2 versions"],
    ),
    (
        "shopmirror find miller iphone",
        &["leads", "4712", "Tom Miller"],
    ),
    ("shopmirror find +44 7700 900123", &["customers", "815"]),
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
    let files = ["docs", "docs/sinks"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let files = files
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    all.extend(["README.md", "CONTRIBUTING.md", "lab/README.md"].map(|name| root.join(name)));
    all.sort();
    all
}

/// The marked blocks of a document.
fn blocks(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let mut marked = Vec::<Block>::new();
    let mut lines = text.lines().enumerate();
    let mut just_ended = false;
    while let Some((number, line)) = lines.next() {
        let kind = line.strip_prefix("```");
        if let Some(kind) = kind {
            let inside: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .collect();
            if let Some((language, rest)) = kind.split_once(" run") {
                let language = format!("{language}{rest}");
                let place = format!("{name}:{}", number + 1);
                marked.push(Block {
                    place,
                    language,
                    text: inside.join("\n"),
                    shown: None,
                });
            } else if kind == "text" && just_ended {
                marked.last_mut().unwrap().shown = Some(inside.join("\n"));
            }
        }
        just_ended = kind.is_some_and(|kind| kind.contains(" run"));
    }
    marked
}

/// True if `printed` is what `shown` says, with its `...` for any text.
fn fits(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (
        format!("\n{shown}\n"),
        format!("\n{}\n", printed.trim_end()),
    );
    let parts: Vec<&str> = shown.split("...").collect();
    let (last, others) = parts.split_last().expect("a split has a part");
    let mut left = printed.as_str();
    for (nth, part) in others.iter().enumerate() {
        match left.find(part) {
            Some(at) if nth > 0 || at == 0 => left = &left[at + part.len()..],
            _ => return false,
        }
    }
    if others.is_empty() {
        left == *last
    } else {
        left.ends_with(last)
    }
}

/// A shop with the records that the documents name, mirrored, with the sinks that they name.
async fn shop() -> (Workspace, Receiver, Place) {
    let (workspace, erp) = (Workspace::start().await, Receiver::start().await);
    workspace.add(Route::Leads, json!({"id": 4711, "name": "Ann Fischer"}));
    // A report of the last weeks needs a repair of today.
    let now = jiff::Timestamp::now().to_string();
    workspace.add(
        Route::Jobs,
        json!({"id": 1042, "status": "Completed", "created_at": now}),
    );
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
    let script = script
        .replace("/var/lib/shopmirror/", &folder)
        .replace("/etc/shopmirror/", &folder);
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        env!("CARGO_BIN_EXE_shopmirror"),
        bin.path().join("shopmirror"),
    )
    .unwrap();
    let mut command = Command::new(shell[0]);
    command
        .args(&shell[1..])
        .arg(script)
        .current_dir(place.path(""))
        .stdin(Stdio::null());
    command.env_clear().env("NO_COLOR", "1").env("TZ", "UTC");
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()));
    tokio::task::spawn_blocking(move || {
        let output = command.output().unwrap();
        drop(bin);
        output
    })
    .await
    .unwrap()
}

/// Runs a block; what it prints that the document does not promise.
async fn check(block: &Block, place: &Place) -> Vec<String> {
    let Block {
        place: name, text, ..
    } = block;
    let store = place.store().display().to_string();
    let sqlite = ["sqlite3", "-readonly", "-bail", &store];
    let is_sql = block.language == "sql";
    let shell = if is_sql { &sqlite } else { &SHELL };
    let whole = is_sql || block.shown.is_some();
    let scripts = if whole {
        vec![text.as_str()]
    } else {
        text.lines().collect()
    };
    let mut problems = Vec::new();
    for script in scripts {
        // A comment at the beginning would be read as an option.
        let output = run(place, shell, &format!("\n{script}")).await;
        let mut out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{script}\n{output:?}");
        let file = if whole {
            None
        } else {
            script.split_once(" > ")
        };
        if let Some((_, file)) = file {
            let bytes = fs::read(place.path(file)).unwrap();
            out += &String::from_utf8_lossy(&bytes);
        }
        let is_right = match &block.shown {
            Some(shown) => fits(shown, &out),
            None => has_words(script, &out),
        };
        if !is_right {
            problems.push(format!("{name}: {script} printed:\n{out}"));
        }
    }
    problems
}

/// True if a line of what a command printed has the words of [`PRINTS`], if it has any there.
fn has_words(command: &str, out: &str) -> bool {
    let known = PRINTS.iter().find(|(start, _)| command.starts_with(start));
    known.is_none_or(|(_, words)| {
        out.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    })
}

#[tokio::test]
async fn every_command_that_a_document_marks_as_runnable_works_and_prints_what_it_promises() {
    let (mut ran, mut problems) = (0, Vec::new());
    for document in documents() {
        let marked = blocks(&document);
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

/// Ends the program when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

#[tokio::test]
async fn the_receiver_of_the_webhook_page_takes_what_is_signed_with_its_secret_and_nothing_else() {
    let page = include_str!("../../docs/sinks/webhook.md");
    let (_, code) = page.split_once("```python receiver\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    let (workspace, port) = (Workspace::start().await, kept_port());
    workspace.add(Route::Leads, json!({"id": 4711, "name": "Ann Fisher"}));
    let place = workspace.place();
    let mut sinks = String::new();
    for (name, letter) in [("erp", "A"), ("other", "E")] {
        let file = format!("{name}-secret");
        place.write(&file, &format!("whsec_{}=\n", letter.repeat(43)));
        fs::set_permissions(place.path(&file), Permissions::from_mode(0o600)).unwrap();
        let url = format!("http://127.0.0.1:{port}/");
        sinks += &Place::webhook_sink(name, &url, &format!("secret_file = \"{file}\""));
    }
    place.configure(&sinks);
    let code = code.replace("9000", &port.to_string());
    let mut python = Command::new("python3");
    python.args(["-c", &code]).current_dir(place.path(""));
    let mut running = Running(
        python
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    wait_until("the receiver listens", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
    .await;
    for name in ["Ann Fisher", "Ann Fischer"] {
        workspace.edit(Route::Leads, "4711", json!({"name": name}));
        place.run(["once"]).await;
    }
    let sinks = place.run(["sinks", "--json"]).await.json();
    assert_eq!(
        (&sinks[0]["delivered"], &sinks[1]["delivered"]),
        (&json!(1), &json!(0)),
        "{sinks}"
    );
    drop(running.0.kill());
    let mut printed = String::new();
    running
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    assert_eq!(printed, "leads.updated 4711\n");
}

/// The Markdown files below a folder.
fn pages_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
}

#[test]
fn each_link_of_the_documents_leads_to_a_file_that_is_installed_with_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // What the package has beside the documents.
    let installed = [
        "docs",
        "examples",
        "systemd/drop-ins",
        "README.md",
        "config.example.toml",
    ];
    let mut pages = vec![root.join("README.md")];
    pages_below(&root.join("docs"), &mut pages);
    let mut dead = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1) {
            let link = link.split([')', '#', ' ']).next().unwrap_or_default();
            if link.is_empty() || link.contains(':') {
                continue;
            }
            let target = page.parent().unwrap().join(link);
            let is_there = target.canonicalize().is_ok_and(|target| {
                installed
                    .iter()
                    .any(|place| target.starts_with(root.join(place)))
            });
            if !is_there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}
