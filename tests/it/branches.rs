//! Several branches under one key: each has its own name in what is said of it.

use sandbox::{Options, Shop};
use serde_json::Value;

use crate::support::{BUDGET, EAGER, Place, Workspace};

async fn chain(businesses: &str) -> (Workspace, Place) {
    let options = Options { shop: Shop::Chain, requests_per_minute: 60_000, ..Workspace::usual() };
    let workspace = Workspace::of(options).await;
    workspace.sandbox.pause_growth(true);
    let place = workspace.place();
    place.configure_all(&format!("businesses = {businesses}\n{BUDGET}{EAGER}"));
    (workspace, place)
}

#[tokio::test]
async fn a_branch_the_workspace_does_not_know_is_named_by_check_and_status() {
    let (_workspace, place) = chain("[\"1\", \"99\"]").await;
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(checked.out.contains("ok    business 1"), "{checked:?}");
    assert!(checked.out.contains("WRONG business 99 correct `businesses`"), "{checked:?}");

    let _daemon = place.started().await;
    let refused = |status: &Value| status["reasons"].to_string().contains("leads@99: ");
    let status = place.status_when("the branch is refused", refused).await;
    assert!(!status["reasons"].to_string().contains("leads: "), "{status}");
}

#[tokio::test]
async fn why_wants_to_know_which_of_several_branches() {
    let (_workspace, place) = chain("[\"1\", \"2\"]").await;
    let one = place.run(["why", "leads", "--business", "2"]).await;
    assert!(one.out.starts_with("poller      leads@2\n"), "{one:?}");
    assert!(
        one.out.contains("next poll   after the daemon is started; it is not running"),
        "{one:?}"
    );
    let either = place.run(["why", "leads"]).await;
    assert_eq!(either.code, Some(64), "{either:?}");
    assert!(either.err.contains("name one with --business: leads@1, leads@2"), "{either:?}");
}
