//! The recipes of docs/database.md for other programs: each block marked `sh tools` or `python tools` is
//! run as written, by the real programs, and must print each line of the `text` block after it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Workspace, python};

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
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(language) = kind.strip_suffix(" tools") {
            let (language, text) = (language.to_owned(), inside.join("\n"));
            found.push(Recipe { language, text, shown: String::new() });
        } else if kind == "text" && found.last().is_some_and(|recipe| recipe.shown.is_empty()) {
            found.last_mut().unwrap().shown = inside.join("\n");
        }
    }
    found
}

fn run(place: &Place, python: &Path, recipe: &Recipe) -> Output {
    let tools = python.parent().unwrap().display();
    let own = Path::new(env!("CARGO_BIN_EXE_shopmirror")).parent().unwrap().display();
    let mut command = match recipe.language.as_str() {
        "python" => Command::new(python),
        _ => Command::new("bash"),
    };
    if recipe.language != "python" {
        command.args(["-euo", "pipefail"]);
    }
    command.args(["-c", &recipe.text]).current_dir(place.path("")).stdin(Stdio::null());
    command.env_clear().env("HOME", place.path("")).env("NO_COLOR", "1").env("TZ", "UTC");
    command.env("PATH", format!("{own}:{tools}:/usr/bin:/bin")).output().unwrap()
}

#[tokio::test]
async fn each_recipe_for_another_program_works_as_written() {
    let Some(python) = python() else { return };
    let workspace = Workspace::start().await;
    workspace.add(Route::Leads, json!({"id": 4711, "name": "Ann Fischer"}));
    let place = workspace.place();
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let recipes = recipes();
    assert!(recipes.len() >= 4, "only {} recipes were found", recipes.len());
    for recipe in recipes {
        let output = run(&place, &python, &recipe);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}\n{output:?}", recipe.text);
        for line in recipe.shown.lines() {
            assert!(said.contains(line), "{}\nprints no {line}:\n{said}", recipe.text);
        }
    }
}
