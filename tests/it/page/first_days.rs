//! What Home and the reports say before there is a record, and what is left to set up then.

use super::owner::{SHOWN, words};
use super::{LISTEN, Site};
use crate::support::{Pages, Place};

const STEPS: [(&str, &str); 5] = [
    ("time_zone = ", "time_zone = \"Europe/Berlin\"\n"),
    ("currency = ", "[reports]\ncurrency = \"EUR\"\n"),
    ("ready_status = ", "ready_status = [\"Ready\"]\n"),
    (
        "/mnt/other-disk",
        "[backup]\npath = \"elsewhere/backups\"\n",
    ),
    ("sink = [", "[alerts]\nsink = [\"audit\"]\n"),
];

/// The page of a shop without a record.
async fn opened(place: &Place, rest: &str) -> Site {
    place.configure(&format!("{LISTEN}{SHOWN}{rest}"));
    Site::of(place).await
}

#[tokio::test]
async fn a_shop_without_a_record_has_zeros_and_the_steps_that_are_left() {
    let pages = Pages::start().await;
    for route in [
        "jobs",
        "customers",
        "leads",
        "payments",
        "job-status-changes",
        "outsourced-jobs",
    ] {
        pages.show(route, "[]");
    }
    let place = pages.place();
    place.configure(&[LISTEN, SHOWN].concat());
    let daemon = place.started().await;
    let site = opened(&place, "").await;
    site.is_ready().await;
    let home = site.get("/").await.body;
    let text = words(&home);
    for said in [
        "Taken in 0",
        "Completed 0",
        "Money in 0",
        "New leads 0",
        "Open repairs 0",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.contains("is counted here soon"), "{text}");
    for (left, _) in STEPS {
        assert!(home.contains(left), "{left}: {home}");
    }
    let reports = site.get("/reports").await.body;
    let mut asked = 0;
    for piece in reports.split("href=\"report?").skip(1) {
        let query = piece.split('"').next().unwrap();
        let reply = site.get(&format!("/report?{query}")).await;
        assert_eq!(reply.code, 200, "{query}: {reply:?}");
        asked += 1;
    }
    assert!(asked > 20, "{asked}");

    // Each step that is done is not shown any more.
    let [zone, currency, ready, backup, alerts] = STEPS.map(|(_, done)| done);
    let sink = Place::file_sink("audit", "");
    let rest = [currency, ready, backup, alerts, &sink].concat();
    place.configure_all(&format!("{zone}{LISTEN}{SHOWN}{rest}"));
    assert_eq!(place.run(["reload"]).await.code, Some(0));
    let site = Site::of(&place).await;
    let is_done = |reply: &super::Reply| STEPS.iter().all(|(left, _)| !reply.body.contains(left));
    site.get_when("/", "all steps are done", is_done).await;
    daemon.stop().await;
}
