//! Several branches under one key: each has its own name in what is said of it.

use sandbox::{Options, Route, Shop};
use serde_json::{Value, json};

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
    let refused = |status: &Value| status["reasons"].to_string().contains("leads@99");
    let status = place.status_when("the branch is refused", refused).await;
    assert!(!status["reasons"].to_string().contains("leads@1"), "{status}");
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

#[tokio::test]
async fn searches_and_custom_fields_are_of_the_business_that_is_named() {
    let (workspace, place) = chain("[]").await;
    let Value::Object(customer) = json!({"name": "Aino Quillfeather"}) else { unreachable!() };
    workspace.sandbox.add_record(Route::Customers, Some(2), customer).unwrap();
    let answered = |route: &str| -> Vec<i64> {
        let requests = workspace.sandbox.requests();
        requests.log.iter().filter(|r| r.route == route).map(|r| r.business).collect()
    };
    let mut daemon = None;
    for runs in [false, true] {
        if runs {
            daemon = Some(place.started().await);
            // At its start the daemon reads the fields of the default business.
            place.status_when("every route is read", |s| s["records"]["jobs"] == 100).await;
        }
        for (business, found) in [("2", 1), ("1", 0)] {
            let before = answered("search").len();
            let words = ["search", "Quillfeather", "--business", business, "--json"];
            let ended = place.run(words).await;
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.json().as_array().unwrap().len(), found, "{business}: {ended:?}");
            let asked = answered("search").split_off(before);
            let asked: Vec<String> = asked.iter().map(i64::to_string).collect();
            assert!(asked.contains(&business.to_owned()), "{runs} {business}: {asked:?}");
        }
        let words = ["custom-fields", "--refresh", "--business", "2", "--json"];
        let ended = place.run(words).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let forms = ended.json();
        assert!(!forms.as_array().unwrap().is_empty());
        assert!(forms.as_array().unwrap().iter().all(|form| form["business"] == "2"), "{forms}");
        assert!(answered("custom-fields").contains(&2));
        let none = place.run(["custom-fields", "--business", "3", "--json"]).await;
        assert_eq!(none.json(), json!([]), "a business that was never asked for");
    }
    drop(daemon);
}
