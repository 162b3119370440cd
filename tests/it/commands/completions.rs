//! Completion in a shell: commands, routes, sinks, the dead letters of a sink.

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

/// What bash offers for `shopmirror --config … ARGS`; the last argument is the one being typed.
async fn offered(place: &Place, args: &[&str]) -> Vec<String> {
    let ended = place.run_by(&["bash", "-c", BASH], args).await;
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    ended.out.split_whitespace().map(str::to_owned).collect()
}

/// As [`offered`], without the options.
async fn values(place: &Place, args: &[&str]) -> Vec<String> {
    let mut words = offered(place, args).await;
    words.retain(|word| !word.starts_with('-'));
    words
}

/// A store with two dead letters of the sink `erp`.
async fn with_dead_letters() -> (Place, Vec<String>) {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    hook.always(Answer::status(422).body("no \u{1b}[31mroom"));
    let erp = Place::webhook_sink("erp", &hook.url("/"), "retry = []");
    place.configure(&format!("{erp}{}", Place::file_sink("audit", "")));
    let daemon = place.started().await;
    workspace.all_polled().await;
    for name in ["Ada", "Grace"] {
        workspace.add(Route::Leads, json!({"name": name}));
    }
    place.status_when("both are dead", |status| status["sinks"][1]["dead"] == 2).await;
    daemon.stop().await;
    let letters = place.run(["dead", "erp", "--json"]).await.json();
    let seqs = letters.as_array().unwrap().iter().map(|letter| letter["seq"].to_string());
    (place, seqs.collect())
}

#[tokio::test]
async fn bash_completes_commands_routes_sinks_and_dead_letters() {
    let (place, seqs) = with_dead_letters().await;
    assert_eq!(offered(&place, &["statu"]).await, ["status"]);
    assert_eq!(offered(&place, &["records", "job"]).await, ["jobs", "job_status_changes"]);
    assert_eq!(offered(&place, &["check", "--sink", ""]).await, ["audit", "erp"]);
    assert_eq!(offered(&place, &["dead", "e"]).await, ["erp"]);
    for action in ["drop", "show", "redrive"] {
        assert_eq!(values(&place, &["dead", "erp", action, ""]).await, seqs, "{action}");
    }
    assert_eq!(values(&place, &["dead", "audit", "show", ""]).await, [] as [&str; 0]);
}

#[tokio::test]
async fn zsh_and_fish_are_told_why_a_letter_is_dead_without_control_characters() {
    let (place, seqs) = with_dead_letters().await;
    for (shell, index) in [("zsh", Some("4")), ("fish", None)] {
        let script = place.run(["completions", shell]).await;
        assert_eq!(script.code, Some(0), "{script:?}");
        assert!(script.out.contains("COMPLETE"), "{script:?}");
        let index = index.map(|index| format!("_CLAP_COMPLETE_INDEX={index}"));
        let complete = format!("COMPLETE={shell}");
        let mut wrapper = vec!["env", complete.as_str()];
        wrapper.extend(index.as_deref());
        wrapper.extend(["sh", "-c", r#"exec "$0" -- shopmirror dead erp show """#]);
        let ended = place.run_by(&wrapper, &[]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains(&seqs[0]) && ended.out.contains("answered 422"), "{ended:?}");
        assert!(!ended.out.contains('\u{1b}'), "{ended:?}");
    }
}

#[tokio::test]
async fn a_completion_without_configuration_or_store_prints_nothing() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    assert_eq!(values(&place, &["dead", "erp", "show", ""]).await, [] as [&str; 0]);
    place.write("config.toml", "this is no configuration");
    assert_eq!(values(&place, &["check", "--sink", ""]).await, [] as [&str; 0]);
}
