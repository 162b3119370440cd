//! The number and the sums above a list say what is not known of them, however its rows are chosen.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::owner::SHOWN;
use super::{LISTEN, Reply, Site};
use crate::support::{Daemon, Pages, Place};

fn ago(days: i64) -> String {
    (Timestamp::now() - SignedDuration::from_hours(24 * days)).to_string()
}

fn day(days: i64) -> String {
    ago(days)[..10].to_owned()
}

/// The page of a daemon that polls these lists.
async fn opened(pages: &Pages, config: &str) -> (Place, Daemon, Site) {
    let place = pages.place();
    place.configure(&[config, LISTEN, SHOWN].concat());
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    (place, daemon, site)
}

/// What stands above a list under this title.
fn figure(page: &Reply, title: &str) -> String {
    let (_, after) = page
        .body
        .split_once(&format!("<dt>{title}</dt><dd><strong>"))
        .unwrap_or_else(|| panic!("no figure {title}: {page:?}"));
    let (figure, _) = after.split_once("</strong>").expect("the end of a figure");
    let mut text = String::new();
    for piece in figure.split('<') {
        text.push_str(piece.rsplit('>').next().unwrap_or_default());
    }
    text
}

#[tokio::test]
async fn a_list_of_days_up_to_now_and_of_one_state_knows_what_was_missed() {
    let pages = Pages::start().await;
    let lead = |id: u32, days: i64| {
        json!({"id": id, "name": "N", "status": "New", "status_stage": "open",
            "created_at": ago(days)})
    };
    let change = |id: u32, status: &str, stage: &str, days: i64| {
        json!({"id": id, "job_number": "J-1", "status": status, "status_stage": stage,
            "changed_by": "Tim", "created_at": ago(days)})
    };
    let job = json!([{"id": 1, "job_number": "J-1", "customer_name": "Ann", "status": "Received",
        "status_stage": "open", "assigned_to": "Tim", "total_amount": 100,
        "estimated_delivery": day(1), "created_at": ago(6)}]);
    pages.show("jobs", job.to_string());
    pages.show("leads", json!([lead(1, 3)]).to_string());
    let first = change(1, "Received", "open", 5);
    pages.show("job-status-changes", json!([first]).to_string());
    let (_place, daemon, site) = opened(&pages, "limit = 2\n").await;
    let from = day(4);
    let leads = format!("/records?route=leads&created.from={from}");
    let has = |reply: &Reply| reply.body.contains("There are no such records") || reply.code == 200;
    site.get_when(&leads, "the list", has).await;
    pages.polled("leads").await;
    pages.polled("job-status-changes").await;
    let next = [
        change(9, "Collected", "completed", 0),
        change(8, "Ready", "open", 1),
    ];
    pages
        .shown("leads", json!([lead(9, 0), lead(8, 0)]).to_string())
        .await;
    pages
        .shown("job-status-changes", json!(next).to_string())
        .await;

    // Whether the days end today is said by the address, or goes without saying.
    for (address, wanted) in [
        (format!("{leads}&created.to={}", day(0)), "≥ 3"),
        (leads.clone(), "≥ 3"),
        (format!("{leads}&created.to={from}"), "0"),
    ] {
        assert_eq!(
            figure(&site.get(&address).await, "Records"),
            wanted,
            "{address}"
        );
    }
    // The status is the newest one that is known, and those leads left their page.
    let days = format!("created.from={}&created.to={}", day(7), day(5));
    let of_day = format!("created.from={}&created.to={}", day(3), day(3));
    for (address, wanted) in [
        (format!("route=jobs&{days}"), "1"),
        (format!("route=jobs&{days}&status.is=Collected"), "about 1"),
        (format!("route=jobs&{days}&status.not=Received"), "about 1"),
        (format!("route=leads&{of_day}"), "1"),
        (format!("route=leads&{of_day}&status.is=New"), "about 1"),
        (
            format!("route=leads&{of_day}&status_stage.is=open"),
            "about 1",
        ),
    ] {
        let list = site.get(&format!("/records?{address}")).await;
        assert_eq!(figure(&list, "Records"), wanted, "{address}");
    }
    // What a person completed came to as much as is known of what was completed.
    let person = site.get("/person?name=Tim").await;
    let completed = figure(&person, "Completed in the last 30 days");
    assert_eq!(completed, "about 1");
    assert_eq!(figure(&person, "What these came to"), "about 100.00");
    daemon.stop().await;
}

#[tokio::test]
async fn a_sum_of_a_list_says_whether_an_amount_is_absent_or_cannot_be_read() {
    let job = |id: u32, total: Value, due: &str| {
        let mut job = json!({"id": id, "job_number": format!("J-{id}"), "customer_name": "N",
            "status": "Received", "status_stage": "open", "estimated_delivery": due,
            "created_at": ago(2)});
        if !total.is_null() {
            job["total_amount"] = total;
        }
        job
    };
    let payment =
        |id: u32, amount: Value| json!({"id": id, "amount": amount, "created_at": ago(2)});
    let (soon, odd) = ("2026-03-05", "next week or so");
    let jobs = [
        json!([job(1, json!(10), odd)]),
        // One without a total may cost something, whatever else cannot be read.
        json!([job(1, json!(10), odd), job(2, Value::Null, odd)]),
        json!([job(1, json!(10), odd), job(2, Value::Null, soon)]),
        json!([job(1, json!(10), odd), job(2, json!("1.234"), soon)]),
        json!([job(1, json!(10), odd), job(2, json!("much"), soon)]),
    ];
    for (shown, wanted) in
        jobs.into_iter()
            .zip(["10.00", "≥ 10.00", "≥ 10.00", "≥ 10.00", "about 10.00"])
    {
        let pages = Pages::start().await;
        pages.show("jobs", shown.to_string());
        let payments = json!([payment(2, Value::Null), payment(1, json!(5))]);
        pages.show("payments", payments.to_string());
        let (_place, daemon, site) = opened(&pages, "").await;
        let is_read = |reply: &Reply| reply.body.contains("<td") && !reply.body.contains("unknown");
        let path = "/records?route=jobs&sort=created";
        let list = site.get_when(path, "the jobs", is_read).await;
        assert_eq!(figure(&list, "Total amount"), wanted, "{shown}");
        let path = "/records?route=payments&sort=created";
        let list = site.get_when(path, "the payments", is_read).await;
        // It may be a refund.
        assert_eq!(figure(&list, "Amount"), "about 5.00");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_list_of_repairs_counts_what_its_conditions_cannot_be_compared_with() {
    let pages = Pages::start().await;
    let job = |id: u32, total: Value, made: &str| {
        json!({"id": id, "job_number": format!("J-{id}"), "customer_name": "N", "assigned_to": "Tim",
            "status": "Received", "status_stage": "open", "estimated_delivery": day(1),
            "total_amount": total, "created_at": made})
    };
    let jobs = [
        job(4, json!(10), "some day"),
        job(3, Value::Null, &ago(3)),
        job(2, json!("much"), &ago(3)),
        job(1, json!(150), &ago(3)),
    ];
    let change = |id: u32, job: u32, made: &str| {
        json!({"id": id, "job_number": format!("J-{job}"), "status": "Collected",
            "status_stage": "completed", "changed_by": "Tim", "created_at": made})
    };
    pages.show("jobs", json!(jobs).to_string());
    pages.show(
        "job-status-changes",
        json!([change(1, 1, &ago(1))]).to_string(),
    );
    let (_place, daemon, site) = opened(&pages, "").await;
    let days = format!("&from={}&to={}", day(9), day(0));
    let completed = format!("/report?name=repairs&state=completed{days}");
    let is_read = |reply: &Reply| reply.body.contains("J-1</a>");
    site.get_when(&completed, "all is read", is_read).await;
    for (asked, wanted, said) in [
        ("state=completed", "1", ""),
        ("state=open", "3", ""),
        (
            "amount_from=100",
            "≥ 0",
            "2 repairs have no total that can be compared",
        ),
        (
            "amount_to=100",
            "≥ 1",
            "2 repairs have no total that can be compared",
        ),
        (
            "open_days=1",
            "≥ 2",
            "1 open repair has no time of creation that can be read",
        ),
        (
            "state=taken_in",
            "≥ 3",
            "1 more repair has no time of creation that can be read",
        ),
        ("person=Tim", "3", ""),
    ] {
        let list = site
            .get(&format!("/report?name=repairs&{asked}{days}"))
            .await;
        assert_eq!(figure(&list, "Rows"), wanted, "{asked}: {list:?}");
        assert!(list.body.contains(said), "{asked}: {list:?}");
    }
    // Of one of them nothing says when it was completed.
    let changes = [change(2, 2, "some day"), change(1, 1, &ago(1))];
    pages.show("job-status-changes", json!(changes).to_string());
    let said = "1 status change has no time that can be read and may have completed a repair";
    let is_said = |reply: &Reply| reply.body.contains(said);
    let list = site.get_when(&completed, said, is_said).await;
    assert_eq!(figure(&list, "Rows"), "≥ 1", "{list:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn an_empty_text_is_no_value_and_a_number_is_found_by_its_text() {
    let pages = Pages::start().await;
    let lead = |id: u32, source: Value| {
        json!({"id": id, "name": "N", "source": source, "status": "New", "status_stage": "open",
            "created_at": ago(2)})
    };
    let leads = [
        lead(6, json!("Web")),
        lead(5, Value::Null),
        lead(4, json!("Web")),
        lead(3, json!("")),
        lead(2, json!("")),
        lead(1, json!(3)),
    ];
    let job = |id: u32, person: Value| {
        json!({"id": id, "job_number": 1040 + id, "customer_name": "N", "assigned_to": person,
            "device_brand": "", "status": "Received", "status_stage": "open",
            "estimated_delivery": day(1), "created_at": ago(2)})
    };
    let jobs = [job(3, json!("Tim")), job(2, json!(5)), job(1, json!(""))];
    pages.show("leads", json!(leads).to_string());
    pages.show("jobs", json!(jobs).to_string());
    let (_place, daemon, site) = opened(&pages, "").await;
    let days = format!("from={}&to={}", day(9), day(0));
    let is_read = |reply: &Reply| reply.body.contains(">(none)<");
    let path = format!("/report?name=sources&{days}");
    let sources = site.get_when(&path, "the leads", is_read).await;
    assert!(sources.body.contains(">3</a>"), "{sources:?}");
    for (asked, wanted) in [
        ("route=leads&source.is=(none)", "3"),
        ("route=leads&source.not=(none)", "3"),
        ("route=leads&source.is=3", "1"),
        ("route=leads&source.not=3", "5"),
        ("route=jobs&assigned_to.is=5", "1"),
        ("route=jobs&assigned_to.not=5", "2"),
        ("route=jobs&assigned_to.is=(none)", "1"),
        ("route=jobs&job_number.is=1042", "1"),
        ("route=jobs&device_brand.is=(none)", "3"),
    ] {
        let has = |reply: &Reply| reply.body.contains("<td");
        let list = site
            .get_when(&format!("/records?{asked}"), asked, has)
            .await;
        assert_eq!(figure(&list, "Records"), wanted, "{asked}");
    }
    for (asked, wanted) in [
        ("person=(not+assigned)", "1"),
        ("person=5", "1"),
        ("brand=(none)", "3"),
    ] {
        let list = site.get(&format!("/report?name=repairs&{asked}")).await;
        assert_eq!(figure(&list, "Rows"), wanted, "{asked}");
    }
    let technicians = site.get(&format!("/report?name=technicians&{days}")).await;
    assert!(
        technicians.body.contains("(not assigned)"),
        "{technicians:?}"
    );
    // An empty choice would ask for all of them.
    let all = site.get("/records?route=leads").await;
    let choices = all.body.matches("<select").count();
    let empty = all.body.matches("<option value=\"\"").count();
    assert_eq!(empty, choices, "{all:?}");
    let nobody = site.get("/person?name=").await;
    assert_eq!(nobody.code, 400, "{nobody:?}");
    let no_range = site.get("/records?route=jobs&job_number.from=5").await;
    assert!(no_range.body.contains(".is, .not or .has"), "{no_range:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_form_keeps_every_filter_that_no_box_of_it_shows() {
    let pages = Pages::start().await;
    let payment = json!([{"id": 1, "amount": 5, "job_number": "J-1", "created_at": ago(0)}]);
    let lead = json!([{"id": 1, "name": "N", "source": "Web", "status": "New",
        "status_stage": "open", "created_at": ago(2)}]);
    pages.show("payments", payment.to_string());
    pages.show("leads", lead.to_string());
    let (_place, daemon, site) = opened(&pages, "").await;
    let hidden = |name: &str, value: &str| {
        format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">")
    };
    for (asked, name, value) in [
        ("records?route=payments", "kind.not", "void"),
        ("records?route=leads", "name.is", "N"),
        ("records?route=leads", "source.has", "W"),
    ] {
        let read = |reply: &Reply| reply.body.contains("</option>");
        let page = site
            .get_when(&format!("/{asked}&{name}={value}"), asked, read)
            .await;
        assert!(
            page.body.contains(&hidden(name, value)),
            "{asked}: {page:?}"
        );
    }
    // What is no choice of the list is one of the form.
    let page = site.get("/records?route=leads&source.is=(none)").await.body;
    assert!(
        page.contains("<option value=\"(none)\" dir=\"auto\" selected>"),
        "{page}"
    );
    // A box shows it, and sends it once.
    let page = site
        .get("/records?route=leads&source.is=Web&name.has=N")
        .await
        .body;
    for name in ["source.is", "name.has"] {
        assert_eq!(
            page.matches(&format!("name=\"{name}\"")).count(),
            1,
            "{name}: {page}"
        );
    }
    // The form of the days of a report keeps the order and the filters too.
    let page = site
        .get("/report?name=payments&sort=-net&net.from=1")
        .await
        .body;
    let form = page
        .split("<form")
        .find(|form| form.contains(">Show<"))
        .expect(&page);
    for (name, value) in [("sort", "-net"), ("net.from", "1")] {
        assert!(form.contains(&hidden(name, value)), "{name}: {form}");
    }
    daemon.stop().await;
}
