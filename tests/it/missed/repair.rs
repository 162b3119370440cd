//! Repair, search, backfill and custom fields from outside: the real program against the sandbox.

use std::time::Instant;

use sandbox::{Options, Route, Shop};
use serde_json::{Value, json};

use crate::support::{LIMIT_S, Place, Workspace, look_again, wait_until};

/// A shop that stands still, and the program with a file sink, at its usual pace.
struct Bench {
    workspace: Workspace,
    place: Place,
}

impl Bench {
    async fn start(requests_per_minute: u32, reserve: u32) -> Self {
        let options = Options {
            shop: Shop::Busy,
            requests_per_minute,
            ..Workspace::usual()
        };
        let workspace = Workspace::still(options).await;
        let place = workspace.place();
        let budget =
            format!("[budget]\nrequests_per_minute = {requests_per_minute}\nreserve = {reserve}\n");
        let sink = Place::file_sink("out", "start = \"beginning\"");
        place.configure_all(&format!("{budget}{sink}"));
        Self { workspace, place }
    }

    /// Runs a command, which must succeed.
    async fn command(&self, words: &[&str]) {
        let ended = self.place.run(words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
    }

    /// What a command prints as JSON.
    async fn json(&self, words: &[&str]) -> Value {
        let ended = self.place.run(words.iter().chain(&["--json"])).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.json()
    }

    /// Waits until what a command prints as JSON fulfils the condition.
    async fn json_when(&self, words: &[&str], condition: impl Fn(&Value) -> bool) {
        let begun = Instant::now();
        loop {
            let printed = self.json(words).await;
            if condition(&printed) {
                return;
            }
            let log = self.place.log();
            assert!(
                begun.elapsed().as_secs() < LIMIT_S,
                "{words:?}: {printed}\n{log}"
            );
            look_again(begun, 60).await;
        }
    }

    /// Searches that the sandbox has answered.
    fn searches(&self) -> usize {
        let requests = self.workspace.sandbox.requests();
        requests
            .log
            .iter()
            .filter(|request| request.route == "search")
            .count()
    }
}

/// Ten customers with what names them, the first eight of whom other routes mention.
fn buried(bench: &Bench) -> Vec<String> {
    let names = [
        "Aino", "Bela", "Caius", "Dorte", "Eirik", "Fenna", "Goran", "Hedda", "Ivo", "Jorun",
    ];
    let shop = &bench.workspace;
    let mut ids = Vec::new();
    for (n, first) in names.into_iter().enumerate() {
        let name = format!("{first} Quillfeather");
        let email = format!("{}@quill.example", first.to_lowercase());
        let mobile = format!("0611 70{n}");
        let record = json!({"name": name, "email": email, "mobile_number": mobile});
        ids.push(shop.add(Route::Customers, record));
        let (route, record) = match n {
            0..4 => (
                Route::Jobs,
                json!({"customer_name": name, "email": email, "mobile_number": mobile}),
            ),
            4..6 => (
                Route::Leads,
                json!({"name": name, "email": null, "mobile_number": mobile}),
            ),
            6..8 => (Route::Payments, json!({"customer_name": name})),
            _ => continue,
        };
        shop.add(route, record);
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn customers_buried_by_a_burst_are_found_by_what_other_routes_say_of_them() {
    let bench = Bench::start(600, 150).await;
    bench.command(&["once"]).await;
    let ids = buried(&bench);
    bench.workspace.sandbox.burst(Route::Customers, 100);
    let before = bench.searches();

    let daemon = bench.place.started().await;
    bench
        .json_when(&["gaps"], |gaps| gaps[0]["repaired"] == 8)
        .await;

    let gap = &bench.json(&["gaps"]).await[0];
    assert_eq!(
        (&gap["route"], &gap["estimate"]),
        (&json!("customers"), &json!(10))
    );
    assert_eq!(gap["state"], "partly_repaired");
    let found = bench
        .json(&[
            "records",
            "customers",
            "--where",
            "_via=search",
            "--limit",
            "500",
        ])
        .await;
    let found: Vec<String> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["record"]["id"].to_string())
        .collect();
    assert_eq!(found.len(), 8, "{found:?}");
    assert!(ids[..8].iter().all(|id| found.contains(id)));
    wait_until("they are forwarded as created", || {
        let lines = bench.place.lines("out.ndjson");
        ids[..8].iter().all(|id| {
            lines.iter().any(|l| {
                l["route"] == "customers" && l["kind"] == "created" && l["record_id"] == **id
            })
        })
    })
    .await;
    // One search a person: the others of the burst and of the first pages cost none.
    assert!(
        bench.searches() - before <= 10,
        "{}",
        bench.searches() - before
    );
    let most = bench
        .workspace
        .sandbox
        .requests()
        .max_in_60s
        .values()
        .copied()
        .max()
        .unwrap();
    assert!(most <= 450, "{most}");

    bench
        .command(&["gaps", "accept", "--all", "--note", "two walked away"])
        .await;
    let gap = &bench.json(&["gaps"]).await[0];
    assert_eq!(
        (&gap["state"], &gap["note"]),
        (&json!("accepted"), &json!("two walked away"))
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_found_by_search_is_stored_through_the_daemon_and_proves_nothing() {
    let bench = Bench::start(600, 150).await;
    bench.command(&["once"]).await;
    buried(&bench);
    let daemon = bench.place.started().await;
    let ivo = ["records", "customers", "--where", "name=Ivo Quillfeather"];
    bench
        .json_when(&ivo, |records| !records[0]["seq"].is_null())
        .await;
    let known = bench
        .json(&["records", "customers", "--limit", "1000"])
        .await
        .as_array()
        .unwrap()
        .len();

    // A customer older than the newest hundred.
    let truth = bench.workspace.sandbox.truth(Route::Customers);
    let old: Value = serde_json::from_str(truth[0].record.get()).unwrap();
    let term = old["mobile_number"].as_str().unwrap();
    let shown = bench.json(&["search", term]).await;
    assert!(
        shown
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["id"] == old["id"])
    );
    let all = ["records", "customers", "--limit", "1000"];
    let count = async || bench.json(&all).await.as_array().unwrap().len();
    assert_eq!(count().await, known, "a search alone stores nothing");

    let stored = bench
        .json(&["search", term, "--store"])
        .await
        .as_array()
        .unwrap()
        .len();
    assert_eq!(count().await, known + stored);
    let via = format!("SELECT _via FROM customers WHERE id = '{}'", old["id"]);
    assert_eq!(bench.place.rows(&via), [json!(["search"])]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_collects_what_is_older_than_a_page_and_forwards_none_of_it() {
    let bench = Bench::start(60_000, 1_000).await;
    bench.command(&["once"]).await;
    let all = bench.workspace.sandbox.truth(Route::Customers).len();
    assert!(all > 150, "{all}");

    // Stopped early, and gone on with.
    let daemon = bench.place.started().await;
    let first = bench.json(&["backfill", "--most", "10"]).await;
    assert_eq!(first[0]["asked"], 10);
    let second = bench.json(&["backfill", "--most", "200"]).await;
    assert_eq!(
        second[0]["asked"].as_u64().unwrap() + 10,
        bench.searches() as u64,
        "{second}"
    );
    daemon.stop().await;

    let found = bench
        .place
        .number("SELECT count(*) FROM customers WHERE _via = 'search'");
    let known = bench.place.number("SELECT count(*) FROM customers");
    assert_eq!(found + 100, known);
    assert!(
        known as usize * 100 >= all * 90,
        "{known} of {all}: {second}"
    );
    let changes = bench
        .json(&["log", "--route", "customers", "--limit", "5000"])
        .await;
    assert!(
        changes
            .as_array()
            .unwrap()
            .iter()
            .all(|change| change["kind"] == "baseline")
    );
    assert_eq!(
        bench.json(&["gaps"]).await,
        json!([]),
        "what a search found proves nothing either way"
    );
}

#[tokio::test]
async fn a_search_that_may_have_left_some_out_says_so() {
    let workspace = Workspace::start_full().await;
    let place = workspace.place();
    let daemon = place.started().await;
    place
        .status_when("the daemon answers", |status| status["running"] == true)
        .await;
    let many = place.run(["search", "e", "--json"]).await;
    assert_eq!(many.json().as_array().unwrap().len(), 25);
    let many = place.run(["search", "e"]).await;
    assert!(many.err.contains("a search returns at most 25"), "{many:?}");
    let few = place.run(["search", "no such name"]).await;
    assert!(
        few.code == Some(0) && !few.err.contains("at most 25"),
        "{few:?}"
    );
    drop(daemon);
}
