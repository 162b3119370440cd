//! What helps on the command line: completion in a shell, and the pages of the manual.

use sandbox::Route;
use serde_json::json;

use crate::support::{Answer, Place, Receiver, Workspace};

/// Completes the last argument in a real bash, with the script that `completions bash` prints.
const BASH: &str = r#"
PATH=$(dirname "$0"):$PATH
source <("$0" completions bash) || exit 1
COMP_WORDS=(shopmirror "$@")
COMP_CWORD=$#
_clap_complete_shopmirror shopmirror "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// What bash offers for `shopmirror --config … ARGS`, but options; the last argument is the one being
/// typed.
async fn offered(place: &Place, args: &[&str]) -> Vec<String> {
    let ended = place.run_by(&["bash", "-c", BASH], args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let words = ended.out.split_whitespace().filter(|word| !word.starts_with('-'));
    words.map(str::to_owned).collect()
}

#[tokio::test]
async fn shells_complete_commands_routes_sinks_and_dead_letters() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    hook.always(Answer::status(422).body("no \u{1b}[31mroom"));
    let erp = Place::webhook_sink("erp", &hook.url("/"), "retry = []");
    place.configure(&format!("{erp}{}", Place::file_sink("audit", "")));
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    place.status_when("it is dead", |status| status["sinks"][1]["dead"] == 1).await;
    daemon.stop().await;
    let seq = place.run(["dead", "erp", "--json"]).await.json()[0]["seq"].to_string();

    assert_eq!(offered(&place, &["statu"]).await, ["status"]);
    assert_eq!(offered(&place, &["records", "job"]).await, ["jobs", "job_status_changes"]);
    assert_eq!(offered(&place, &["check", "--sink", ""]).await, ["audit", "erp"]);
    for action in ["drop", "show", "redrive"] {
        assert_eq!(offered(&place, &["dead", "erp", action, ""]).await, [seq.as_str()], "{action}");
    }
    // fish is told why a letter is dead, too.
    let line = r#"exec "$0" -- shopmirror dead erp show """#;
    let ended = place.run_by(&["env", "COMPLETE=fish", "sh", "-c", line], &[]).await;
    assert!(ended.out.contains(&seq) && ended.out.contains("answered 422"), "{ended:?}");
    assert!(!ended.out.contains('\u{1b}'), "{ended:?}");
    let broken = Place::new("http://127.0.0.1:9/api", "key");
    broken.write("shopmirror.toml", "this is no configuration");
    assert_eq!(offered(&broken, &["check", "--sink", ""]).await, [""; 0]);
}

#[tokio::test]
async fn every_command_has_its_page_in_the_manual() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    for (args, title) in [
        (&["man"][..], ".TH shopmirror 1"),
        (&["man", "gaps"], ".TH shopmirror-gaps 1"),
        (&["man", "dead", "list"], ".TH shopmirror-dead-list 1"),
    ] {
        let page = place.run(args).await;
        assert!(page.out.contains(title), "{page:?}");
    }
    assert_eq!(place.run(["man", "nothing"]).await.code, Some(64));
}
