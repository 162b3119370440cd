//! What helps on the command line: completion in a shell, and the pages of the manual.

use crate::support::Place;

/// Completes the last argument in a real bash, with the script that `completions bash` prints.
const BASH: &str = r#"
source <("$0" completions bash) || exit 1
COMP_WORDS=(shopmirror "$@")
COMP_CWORD=$#
_shopmirror shopmirror "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[tokio::test]
async fn a_shell_completes_commands_routes_and_verbs_and_each_command_has_a_page() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    for (args, offered) in [
        (&["statu"][..], "status"),
        (&["records", "job"], "jobs\njob_status_changes"),
        (&["sinks", "erp", "redr"], "redrive"),
    ] {
        let ended = place.run_by(&["bash", "-c", BASH], args).await;
        assert_eq!(
            (ended.code, ended.out.trim()),
            (Some(0), offered),
            "{args:?}: {ended:?}"
        );
    }
    for (args, title) in [
        (&["man"][..], ".TH shopmirror 1"),
        (&["man", "gaps"], ".TH shopmirror-gaps 1"),
        (&["man", "sinks", "replay"], ".TH shopmirror-sinks-replay 1"),
    ] {
        let page = place.run(args).await;
        assert!(page.out.contains(title), "{page:?}");
    }
    let page = place.run(["man"]).await.out;
    assert!(
        page.contains("SHOPMIRROR_LOG_FORMAT") && page.contains("75"),
        "{page}"
    );
    assert_eq!(place.run(["man", "nothing"]).await.code, Some(64));
}
