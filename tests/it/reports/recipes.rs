//! The recipes of docs/database.md for other programs: each block marked `sh tools` or `python
//! tools` is run as written, by the real programs, and must print each line of the `text` block
//! after it. Datasette and the sqlite3 of the system, which may be years older than ours, read
//! every table of a store with a history.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Place, Workspace, python, run_python};

/// Counts the rows of each table and view by Datasette.
const COUNT_BY_DATASETTE: &str = r#"
import asyncio, json, sys
from datasette.app import Datasette

async def main():
    asked = json.load(sys.stdin)
    datasette = Datasette([asked["file"]])
    await datasette.invoke_startup()
    counts = {}
    for name in asked["names"]:
        params = {"sql": f'select count(*) as n from "{name}"', "_shape": "array"}
        answer = await datasette.client.get("/mirror.json", params=params)
        counts[name] = answer.json()[0]["n"] if answer.status_code == 200 else answer.text
    print(json.dumps(counts))

asyncio.run(main())
"#;

struct Recipe {
    language: String,
    text: String,
    shown: String,
}

fn recipes() -> Vec<Recipe> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/database.md");
    let text = fs::read_to_string(path).unwrap();
    let (mut found, mut lines) = (Vec::<Recipe>::new(), text.lines());
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(language) = kind.strip_suffix(" tools") {
            let (language, text) = (language.to_owned(), inside.join("\n"));
            found.push(Recipe {
                language,
                text,
                shown: String::new(),
            });
        } else if kind == "text" && found.last().is_some_and(|recipe| recipe.shown.is_empty()) {
            found.last_mut().unwrap().shown = inside.join("\n");
        }
    }
    found
}

fn run(place: &Place, python: &Path, recipe: &Recipe) -> Output {
    let tools = python.parent().unwrap().display();
    let own = Path::new(env!("CARGO_BIN_EXE_shopmirror"))
        .parent()
        .unwrap()
        .display();
    let mut command = match recipe.language.as_str() {
        "python" => Command::new(python),
        _ => Command::new("bash"),
    };
    if recipe.language != "python" {
        command.args(["-euo", "pipefail"]);
    }
    command
        .args(["-c", &recipe.text])
        .current_dir(place.path(""))
        .stdin(Stdio::null());
    command
        .env_clear()
        .env("HOME", place.path(""))
        .env("NO_COLOR", "1")
        .env("TZ", "UTC");
    command
        .env("PATH", format!("{own}:{tools}:/usr/bin:/bin"))
        .output()
        .unwrap()
}

/// What the system's sqlite3 prints, without a word of an error.
fn sqlite3(place: &Place, sql: &str) -> String {
    let shell = Command::new("sqlite3")
        .arg("-readonly")
        .arg(place.store())
        .arg(sql)
        .output();
    let shell = shell.unwrap();
    assert!(
        shell.status.success() && shell.stderr.is_empty(),
        "{sql}: {shell:?}"
    );
    String::from_utf8(shell.stdout).unwrap()
}

#[tokio::test]
async fn other_programs_read_a_store_with_updates_and_forgotten_records_as_the_recipes_say() {
    let Some(python) = python() else { return };
    let workspace = Workspace::start().await;
    workspace.add(Route::Leads, json!({"id": 4711, "name": "Ann Fisher"}));
    let gone = workspace.add(Route::Leads, json!({"name": "Quetzal"}));
    let place = workspace.place();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.edit(Route::Leads, "4711", json!({"name": "Ann Fischer"}));
    for command in [&["once"][..], &["forget", "leads", &gone]] {
        let ended = place.run(command).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    let dump = sqlite3(&place, ".dump");
    assert!(
        dump.ends_with("COMMIT;\n") && !dump.contains("ERROR"),
        "{dump}"
    );
    // SQLite before 3.37 opens no file with a strict table.
    assert!(!sqlite3(&place, ".schema").contains("STRICT"));
    let names = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')";
    let names: Vec<String> = sqlite3(&place, names).lines().map(str::to_owned).collect();
    assert!(
        names.len() > 20 && names.contains(&"report_jobs".to_owned()),
        "{names:?}"
    );
    let counted = names.iter().map(|name| {
        let count = sqlite3(
            &place,
            &format!("SELECT count(*) FROM (SELECT * FROM \"{name}\")"),
        );
        (
            name.clone(),
            Value::from(count.trim().parse::<i64>().unwrap()),
        )
    });
    let counted = Value::Object(counted.collect());
    assert!(counted["leads"].as_i64() > Some(0), "{counted}");
    let asked = json!({"file": place.store(), "names": names});
    assert_eq!(
        run_python(COUNT_BY_DATASETTE, &asked).as_ref(),
        Some(&counted)
    );

    let described = include_str!("../../../examples/datasette.json");
    fs::write(place.path("datasette.json"), described).unwrap();
    let described: Value = serde_json::from_str(described).unwrap();
    let described = described["databases"]["mirror"]["tables"]
        .as_object()
        .unwrap();
    for name in counted
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| !name.starts_with("sqlite_"))
    {
        let is_own = name.starts_with('_');
        let fits = described
            .get(name)
            .is_some_and(|table| table["hidden"].is_null() != is_own);
        assert!(
            fits,
            "{name} is not in examples/datasette.json as it should be"
        );
    }
    let gone = described
        .keys()
        .find(|name| counted[name.as_str()].is_null());
    assert_eq!(
        gone, None,
        "examples/datasette.json describes a table that is not there"
    );

    let recipes = recipes();
    assert!(
        recipes.len() >= 4,
        "only {} recipes were found",
        recipes.len()
    );
    for recipe in recipes {
        let output = run(&place, &python, &recipe);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}\n{output:?}", recipe.text);
        for line in recipe.shown.lines() {
            assert!(
                said.contains(line),
                "{}\nprints no {line}:\n{said}",
                recipe.text
            );
        }
    }
}
