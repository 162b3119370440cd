//! What the owner reads: the numbers of Home, what the box finds, and a record with what belongs to
//! it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{LISTEN, Site};
use crate::support::{Daemon, Pages, Place, Workspace};

pub(super) const SHOWN: &str = "show_records = true\n";

fn ago(days: i64) -> String {
    (Timestamp::now() - SignedDuration::from_hours(24 * days)).to_string()
}

/// A repair of Ann with its status changes and a payment, and one of Bo.
fn shop(pages: &Pages) {
    let job = |id: u32, who: &str, status: &str, stage: &str, days: i64| {
        json!({"id": id, "job_number": format!("JOB-{id}"), "customer_name": who,
            "mobile_number": format!("0770000{id}"), "device_model": "Galaxy A54", "status": status,
            "status_stage": stage, "estimated_delivery": &ago(3)[..10], "total_amount": 100.5,
            "assigned_to": "Tim", "created_at": ago(days)})
    };
    let change = |id: u32, number: u32, status: &str, stage: &str, days: i64| {
        json!({"id": id, "job_number": format!("JOB-{number}"), "status": status,
            "status_stage": stage, "customer_name": if number == 7 { "Ann" } else { "Bo" },
            "created_at": ago(days)})
    };
    let jobs = [
        job(8, "Bo", "In repair", "open", 2),
        job(7, "Ann Miller", "Received", "open", 9),
        job(6, "Cy", "In repair", "open", 40),
    ];
    let changes = [
        change(4, 8, "In repair", "open", 1),
        change(3, 7, "Collected", "completed", 2),
        change(2, 7, "Ready for pickup", "open", 4),
        change(1, 6, "Ready for pickup", "open", 20),
    ];
    let payment = json!({"id": 1, "amount": 40.25, "job_number": "JOB-7", "customer_name": "Ann Miller",
        "payment_mode": "Card", "created_at": ago(0)});
    let customer =
        json!({"id": 5, "name": "Ann Miller", "mobile_number": "07700007", "created_at": ago(9)});
    pages.show("jobs", Value::from(jobs.to_vec()).to_string());
    pages.show(
        "job-status-changes",
        Value::from(changes.to_vec()).to_string(),
    );
    pages.show("payments", json!([payment]).to_string());
    pages.show("customers", json!([customer]).to_string());
}

/// The text of a part of a page, without its tags.
fn part(page: &str, id: &str) -> String {
    let (_, after) = page
        .split_once(&format!("id=\"{id}\""))
        .expect("the page has the part");
    let (_, inside) = after.split_once('>').expect("it holds something");
    let part = inside
        .split(" data-part")
        .flat_map(|part| part.split("class=\"card\""))
        .next();
    let part = part.unwrap_or_default();
    let texts = part.split('<').filter_map(|piece| piece.split_once('>'));
    texts
        .flat_map(|(_, text)| text.split_whitespace())
        .collect::<Vec<_>>()
        .join(" ")
}

/// What an address returns as data.
async fn json_of(site: &Site, path: &str) -> Value {
    let body = site.get(path).await.body;
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// The page of a daemon that mirrors the shop.
pub(super) async fn opened(config: &str) -> (Pages, Place, Daemon, Site) {
    let pages = Pages::start().await;
    shop(&pages);
    let place = pages.place();
    place.configure(config);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    (pages, place, daemon, site)
}

#[tokio::test]
async fn home_counts_repairs_by_their_current_state_and_names_nobody() {
    let (_pages, _place, daemon, site) = opened(LISTEN).await;
    let shown = [
        ("now", "Open repairs 2 Ready for pickup 1 Ready"),
        ("now", "Overdue repairs 2"),
        ("statuses", "In repair 1 Ready for pickup 1"),
        ("now", "Open for more than 30 days"),
        ("health", "Complete from the first record on"),
        ("now", "Unpaid, completed in the last 90 days 60.25"),
    ];
    // The lists are read one after the other.
    let is_shown = |reply: &super::Reply| {
        shown
            .iter()
            .all(|(id, said)| part(&reply.body, id).contains(said))
    };
    let home = site.get_when("/", "all is counted", is_shown).await.body;
    assert!(!home.contains("Ann") && !home.contains("JOB-"), "{home}");
    // The payment is of today, unless midnight has passed since; then the week or the month may
    // have passed too.
    let ranges = ["today", "this-week", "this-month", "last-month"];
    let mut has_money = false;
    for range in ranges {
        let shown = site.get(&format!("/?range={range}")).await;
        assert_eq!(shown.code, 200, "{range}: {shown:?}");
        has_money |= part(&shown.body, "money-in").contains("40.25");
    }
    assert!(has_money, "{home}");
    let wrong = site.get("/?range=decade").await;
    assert!(
        wrong.code == 400 && wrong.body.contains("last-month"),
        "{wrong:?}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn no_repair_is_ready_only_if_a_status_is_known_that_means_it() {
    let change = |id: u32, status: &str, stage: &str| {
        json!({"id": id, "job_number": format!("JOB-{id}"), "status": status, "status_stage": stage,
            "created_at": ago(1)})
    };
    for (status, shown, note) in [
        ("Ready for pickup", "Ready for pickup 0 Ready", ""),
        (
            "Closed",
            "Ready for pickup unknown Ready",
            "No status has a name that means ready",
        ),
    ] {
        let pages = Pages::start().await;
        let job = json!({"id": 1, "job_number": "JOB-1", "status": "In repair",
            "status_stage": "open", "created_at": ago(2)});
        pages.show("jobs", json!([job]).to_string());
        let changes = [
            change(2, status, "completed"),
            change(1, "In repair", "open"),
        ];
        pages.show(
            "job-status-changes",
            Value::from(changes.to_vec()).to_string(),
        );
        let place = pages.place();
        place.configure(LISTEN);
        let daemon = place.started().await;
        let site = Site::of(&place).await;
        site.is_ready().await;
        let is_shown = |reply: &super::Reply| {
            part(&reply.body, "now").contains(shown) && reply.body.contains(note)
        };
        site.get_when("/", shown, is_shown).await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_number_of_home_leads_to_the_rows_that_it_counts() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    let is_counted = |reply: &super::Reply| part(&reply.body, "now").contains("60.25");
    let home = site.get_when("/", "all is counted", is_counted).await.body;
    for (number, ids) in [
        ("Overdue repairs", vec!["6", "8"]),
        ("Ready for pickup for more than 14 days", vec!["6"]),
        ("Open for more than 30 days", vec!["6"]),
        ("Unpaid, completed in the last 90 days", vec!["7"]),
    ] {
        let (_, after) = home.split_once(&format!(">{number}</th>")).expect(number);
        let link = after
            .split("href=\"")
            .nth(1)
            .and_then(|link| link.split('"').next())
            .unwrap();
        let rows = site
            .get(&format!("/{}&format=csv", link.replace("&amp;", "&")))
            .await
            .body
            .replace('"', "");
        let mut rows = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let column = rows
            .next()
            .unwrap()
            .iter()
            .position(|name| *name == "job_id")
            .expect("ids");
        let found: Vec<&str> = rows.map(|row| row[column]).collect();
        assert_eq!(found, ids, "{number}");
    }
    // What is open now is not compared with itself.
    let technicians = site
        .get("/report?name=technicians&range=12-months")
        .await
        .body;
    assert!(
        technicians.contains("<dt>Taken in</dt>") && !technicians.contains("<dt>Open</dt>"),
        "{technicians}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn the_box_finds_people_and_repairs_with_what_belongs_to_them() {
    let (_pages, _place, daemon, site) =
        opened(&[LISTEN, SHOWN, "[reports]\ncurrency = \"EUR\"\n"].concat()).await;
    // The lists are read one after the other.
    let is_found = |reply: &super::Reply| {
        let all = ["Customers · 1", "Repairs · 1", "Collected"];
        all.iter().all(|said| reply.body.contains(said))
    };
    let found = site
        .get_when("/find?q=ann", "all is found", is_found)
        .await
        .body;
    assert!(
        found.contains(">JOB-7 · Ann Miller · Galaxy A54</a>"),
        "{found}"
    );
    assert!(
        !found.contains("Payments · "),
        "a payment leads to its repair: {found}"
    );
    let record = site.get("/record?route=jobs&id=7").await.body;
    for said in [
        "<h1 dir=\"auto\">JOB-7 · Ann Miller · Galaxy A54</h1>",
        "<strong dir=\"auto\">Collected</strong>",
        "From its newest status change. Paid: EUR\u{a0}40.25 of EUR\u{a0}100.50.",
        "record?route=payments&amp;id=1",
        "record?route=job_status_changes&amp;id=2",
        "record?route=customers&amp;id=5",
        "<details>",
    ] {
        assert!(record.contains(said), "{said}: {record}");
    }
    // Of who asks in German, numbers and days are German; data are the same for everybody.
    let german = ["Accept-Language: de-DE,de;q=0.9"];
    for (path, said) in [
        (
            "/record?route=jobs&id=7",
            "Paid: 40,25\u{a0}EUR of 100,50\u{a0}EUR.",
        ),
        ("/record?route=jobs&id=7", ".2026 "),
        ("/report?name=payments", ">40,25 EUR<"),
        ("/report?name=payments&format=csv", ",40.25,"),
        ("/report?name=payments&format=csv&for=excel", ";40,25;"),
        ("/report?name=payments&format=csv&notes=1", "\n# "),
    ] {
        let shown = site.ask("GET", path, &german).await.body;
        assert!(shown.contains(said), "{path}: {shown}");
    }
    // The same as data, in the shapes of the commands.
    let found = json_of(&site, "/find?q=ann&format=json").await;
    let all = found.as_array().unwrap();
    let has_ann = all
        .iter()
        .any(|found| found["record"]["name"] == "Ann Miller");
    assert!(has_ann, "{found}");
    let record = json_of(&site, "/record?route=jobs&id=7&format=json").await;
    assert_eq!(record["changes"][0]["record_id"], "7", "{record}");
    let listed = json_of(&site, "/records?route=jobs&format=json").await;
    assert_eq!(listed["next"], Value::Null);
    let listed = listed["records"].clone();
    assert!(listed.as_array().unwrap().len() > 1, "{listed}");
    // A wall display shows numbers, and nobody's name.
    let wall = site.get("/wall").await.body;
    assert!(wall.contains("<dt>Open repairs</dt><dd>2</dd>"), "{wall}");
    assert!(!wall.contains("Ann") && !wall.contains("<nav") && !wall.contains("40.25"));
    let ready = site
        .get("/report?name=repairs&status=Lost|Ready+for+pickup")
        .await
        .body;
    assert!(
        ready.contains("route=jobs&amp;id=6\">JOB-6</a>") && !ready.contains("JOB-8"),
        "{ready}"
    );
    let late = site.get("/report?name=repairs&late=1").await.body;
    assert!(
        late.contains("JOB-6") && late.contains("JOB-8") && !late.contains("JOB-7"),
        "{late}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn an_address_that_asks_for_what_does_not_exist_is_refused_with_a_sentence() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    for (path, said) in [
        ("/record?route=lead&id=7", "job_status_changes"),
        ("/record?route=jobs", "id"),
        ("/report?name=payments&from=yesterday", "from: "),
        ("/report?name=payments&to=2026-02-30", "to: "),
        ("/report?name=payments&by=year", "month"),
        ("/report?name=payments&range=decade", "12-months"),
        ("/report?name=payments&format=xml", "csv"),
        ("/report?name=payments&colour=red", "colour"),
        ("/find?q=a&page=two", "page"),
        ("/find?term=a", "term"),
        ("/find", "Write what to find"),
    ] {
        let refused = site.get(path).await;
        assert!(
            refused.code == 400 && refused.body.contains(said),
            "{path}: {refused:?}"
        );
    }
    daemon.stop().await;
}

/// The text of a page without its tags, with one space between words.
pub(super) fn words(page: &str) -> String {
    let mut words = String::new();
    for piece in page.split('<') {
        if let Some((_, text)) = piece.split_once('>') {
            words += text;
            words.push(' ');
        }
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_person_a_customer_and_a_repair_have_a_page_with_their_money_and_their_time() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    let has_all = |reply: &super::Reply| words(&reply.body).contains("What these came to 100.50");
    let tim = site
        .get_when("/person?name=Tim", "all is read", has_all)
        .await
        .body;
    let text = words(&tim);
    assert!(
        text.contains("Open 2 Completed in the last 30 days 1"),
        "{text}"
    );
    // The oldest first, and each table under a name of its own.
    let (open, completed) = tim.split_once("Table of completed repairs").unwrap();
    let (_, open) = open.split_once("Table of open repairs").unwrap();
    let places = ["JOB-6", "JOB-8"].map(|number| open.find(number).expect(number));
    assert!(places.is_sorted() && !open.contains("JOB-7"), "{open}");
    assert!(completed.contains("JOB-7"), "{completed}");
    // Who has no repair has an empty page.
    let nobody = words(&site.get("/person?name=Nobody").await.body);
    assert!(
        nobody.contains("Open 0 Completed in the last 30 days 0"),
        "{nobody}"
    );

    let ann = words(&site.get("/record?route=customers&id=5").await.body);
    assert!(ann.contains("Money Paid 40.25 , owed 60.25"), "{ann}");
    assert!(ann.contains("40.25 · Ann Miller Card"), "{ann}");

    let job = words(&site.get("/record?route=jobs&id=7").await.body);
    let (_, line) = job.split_once("Time line ").unwrap();
    let order = ["Payment: 40.25", "Collected", "Ready for pickup", "Details"];
    let places = order.map(|said| line.find(said).expect(said));
    assert!(places.is_sorted(), "{line}");
    daemon.stop().await;
}

#[tokio::test]
async fn an_error_of_a_request_for_data_is_data() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    for (path, code) in [
        ("/?range=decade&format=json", 400),
        ("/records?route=jobs&sort=colour&format=json", 400),
        ("/record?route=jobs&id=404&format=json", 404),
        ("/find?format=json", 400),
        ("/report?name=none&format=json", 404),
        ("/api/nothing", 404),
    ] {
        let reply = site.get(path).await;
        assert_eq!(reply.code, code, "{path}: {reply:?}");
        let error: Value = serde_json::from_str(&reply.body).unwrap();
        assert!(error["error"].is_string(), "{path}: {error}");
        assert_eq!(error.as_object().unwrap().len(), 1, "{path}: {error}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_list_as_data_goes_on_after_the_key_of_its_last_record() {
    let workspace = Workspace::start_full().await;
    let place = workspace.place();
    place.configure(&[LISTEN, SHOWN].concat());
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let mut ids = Vec::new();
    let mut path = "/records?route=leads&sort=created&format=json".to_owned();
    loop {
        let page = json_of(&site, &path).await;
        for found in page["records"].as_array().unwrap() {
            ids.push(found["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next"].as_str() else {
            break;
        };
        let after: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        path = format!("/records?route=leads&sort=created&format=json&after={after}");
    }
    let all = place.number("SELECT count(*) FROM leads");
    assert_eq!(ids.len() as i64, all);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len() as i64, all);
    daemon.stop().await;
}
