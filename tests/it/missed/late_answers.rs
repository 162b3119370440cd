//! An answer that arrives after a later one was stored brings no older state back.

use serde_json::json;

use crate::support::{Pages, Place};

const ANN: &str = r#"[{"id":1,"name":"Ann"}]"#;
const ANNA: &str = r#"[{"id":1,"name":"Anna"}]"#;
const ANNE: &str = r#"[{"id":1,"name":"Anne"}]"#;

fn versions(place: &Place) -> Vec<serde_json::Value> {
    place.rows("SELECT version, body FROM changes WHERE route = 'customers' ORDER BY seq")
}

#[tokio::test]
async fn a_search_or_a_page_answered_late_brings_no_older_state_back() {
    let pages = Pages::start().await;
    pages.show("customers", ANN);
    let place = pages.place();
    let _daemon = place.started().await;
    pages.polled("customers").await;
    pages.show("search", ANN);
    let release = pages.hold_next("search");
    let search = async { place.run(["search", "Ann", "--store", "--json"]).await };
    let polls = async {
        pages.held("search").await;
        pages.shown("customers", ANNA).await;
        release.notify_one();
    };
    let (search, ()) = tokio::join!(search, polls);
    assert_eq!(
        search.json()[0]["name"],
        "Ann",
        "the answer itself is shown as it came"
    );
    pages.polled("customers").await;
    let ann = json!([1, r#"{"id":1,"name":"Ann"}"#]);
    let anna = json!([2, r#"{"id":1,"name":"Anna"}"#]);
    assert_eq!(versions(&place), [ann, anna]);

    // What a search shows first is stored.
    pages.show("search", ANNE);
    let asked = pages.hold_next("customers");
    pages.held("customers").await;
    place.run(["search", "Ann", "--store"]).await;
    assert_eq!(
        versions(&place).last(),
        Some(&json!([3, r#"{"id":1,"name":"Anne"}"#]))
    );
    // The poll that was asked for before that shows what was there before.
    pages.show("customers", ANNE);
    asked.notify_one();
    pages.polled("customers").await;
    assert_eq!(versions(&place).len(), 3);
}
