//! What helps on the command line: completion in a shell, and the pages of the manual.

use crate::support::Place;

/// Completes the last argument in a real bash, with the script that `completions bash` prints.
const BASH: &str = r#"
PATH="$(dirname "$0"):$PATH"
source <(shopmirror completions bash) || exit 1
COMP_WORDS=(shopmirror "$@")
COMP_CWORD=$#
COMP_TYPE=9
_clap_complete_shopmirror shopmirror "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[tokio::test]
async fn a_shell_completes_words_and_the_names_of_the_shop_and_each_command_has_a_page() {
    let place = Place::new("http://127.0.0.1:9/api", "key");
    place.configure(&format!(
        "[reports]\nfolder = \"reports\"\n{}",
        Place::file_sink("erp", "")
    ));
    std::fs::create_dir(place.path("reports")).unwrap();
    place.write(
        "reports/payroll.sql",
        "-- title = \"Payroll\"\nSELECT 1 AS one\n",
    );
    for (args, offered) in [
        (&["statu"][..], "status"),
        (&["records", "job"], "jobs\njob_status_changes"),
        (&["sinks", "erp", "redr"], "redrive"),
        (&["sinks", "er"], "erp"),
        (&["report", "pay"], "payments\npayroll"),
        (&["log", "--kind", "for"], "forgotten"),
        (&["sinks", "erp", "replay", "--kind", "van"], "vanished"),
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
    assert!(page.contains(".SH EXAMPLES"), "{page}");
    let version = place.run(["--version"]).await.out;
    let number = env!("CARGO_PKG_VERSION");
    assert!(
        version.starts_with(&format!("shopmirror {number} (")),
        "{version}"
    );
    assert_eq!(place.run(["man", "nothing"]).await.code, Some(64));
}
