//! Lists that answer: they are sorted and filtered by their address, and say how many rows match.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sandbox::{Options, Shop};

use super::owner::{SHOWN, opened};
use super::{LISTEN, Reply, Site};
use crate::support::Workspace;

/// The texts of a table's cells in one column, without tags.
fn column(page: &str, title: &str) -> Vec<String> {
    let (_, table) = page.split_once("<table").expect("a table");
    let (head, rest) = table.split_once("</thead>").expect("a head");
    let (body, _) = rest.split_once("</tbody>").expect("a body");
    let heads: Vec<String> = head
        .split("<th ")
        .skip(1)
        .map(|th| text(&format!("<{th}")))
        .collect();
    let place = heads.iter().position(|head| head == title);
    let place = place.unwrap_or_else(|| panic!("no column {title} among {heads:?}"));
    let mut texts = Vec::new();
    for row in body.split("<tr").skip(1) {
        let cell = row.split("<td").nth(place + 1).expect("a cell");
        texts.push(text(&format!("<{cell}")));
    }
    texts
}

fn text(html: &str) -> String {
    let mut text = String::new();
    for piece in html.split('<') {
        if let Some((_, words)) = piece.split_once('>') {
            text.push_str(words);
        }
    }
    text.trim().to_owned()
}

fn has_all(reply: &Reply) -> bool {
    reply.code == 200 && reply.body.contains("JOB-6") && reply.body.contains("JOB-8")
}

#[tokio::test]
async fn a_table_of_a_report_is_sorted_and_filtered_by_its_address() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    let page = site
        .get_when(
            "/report?name=repairs&sort=-job_number",
            "all is read",
            has_all,
        )
        .await
        .body;
    assert_eq!(column(&page, "job number"), ["JOB-8", "JOB-6"]);
    assert!(page.contains("aria-sort=\"descending\""), "{page}");
    assert!(
        page.contains("<dt>Rows</dt><dd><strong>2</strong>"),
        "{page}"
    );
    // The number of the repair is the link, and its id has no column.
    assert!(page.contains("route=jobs&amp;id=8\">JOB-8</a>"), "{page}");
    assert!(!page.contains("job id</a>"), "{page}");
    let page = site
        .get("/report?name=repairs&customer_name.has=CY")
        .await
        .body;
    assert_eq!(column(&page, "job number"), ["JOB-6"]);
    assert!(
        page.contains("<dt>Rows</dt><dd><strong>1</strong>"),
        "{page}"
    );
    // What is chosen stays in the addresses of the order and of the files.
    assert!(page.contains("sort=due&amp;customer_name.has=CY"), "{page}");
    let csv = site
        .get("/report?name=repairs&customer_name.has=CY&format=csv")
        .await
        .body;
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let outstanding = site
        .get("/report?name=outstanding&total.from=100&outstanding.to=70")
        .await
        .body;
    assert_eq!(column(&outstanding, "job number"), ["JOB-7"]);
    // Of the other two nothing says what was paid: they may owe as little.
    assert!(
        outstanding.contains("<dt>Outstanding</dt><dd><strong>≥ 60.25"),
        "{outstanding}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_list_of_records_is_sorted_filtered_counted_and_added_up() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    let sorted = site
        .get_when("/records?route=jobs&sort=created", "all is read", has_all)
        .await
        .body;
    assert_eq!(column(&sorted, "Job number"), ["JOB-6", "JOB-7", "JOB-8"]);
    assert!(
        sorted.contains("Sorted by “Created”, the oldest first."),
        "{sorted}"
    );
    assert!(
        sorted.contains("<dt>Records</dt><dd><strong>3</strong>"),
        "{sorted}"
    );
    assert!(
        sorted.contains("<dt>Total amount</dt><dd><strong>301.50</strong>"),
        "{sorted}"
    );
    // The current status, which the repair itself did not show.
    let collected = site
        .get("/records?route=jobs&status.is=Collected")
        .await
        .body;
    assert_eq!(column(&collected, "Job number"), ["JOB-7"]);
    let two = [
        "/records?route=jobs&customer_name.has=ann&total_amount.from=100",
        "/records?route=jobs&created.from=2000-01-01&created.to=2099-12-31&job_number.is=JOB-7",
    ];
    for path in two {
        assert_eq!(
            column(&site.get(path).await.body, "Job number"),
            ["JOB-7"],
            "{path}"
        );
    }
    let csv = site
        .get("/records.csv?route=jobs&sort=-created&status.not=Collected")
        .await;
    assert_eq!(csv.body.lines().count(), 3, "{csv:?}");
    let payments = site.get("/records?route=payments").await.body;
    assert!(
        payments.contains("route=jobs&amp;id=7\">JOB-7</a>"),
        "{payments}"
    );
    assert!(
        payments.contains("record?route=payments&amp;id=1"),
        "{payments}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_wrong_query_of_a_list_gets_a_page_that_says_what_is_allowed() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    site.get_when("/records?route=jobs", "all is read", has_all)
        .await;
    for (path, said) in [
        ("/records?route=lead", "job_status_changes"),
        ("/records?route=jobs&sort=colour", "job_number"),
        ("/records?route=jobs&colour.is=red", "job_number"),
        ("/records?route=jobs&page=2", "route, business, sort"),
        ("/records?route=jobs&status.like=x", ".is, .not, .has"),
        ("/records?route=jobs&total_amount.from=much", "1250.50"),
        ("/records?route=jobs&created.to=yesterday", "2026-11-28"),
        ("/records?route=jobs&after=7", "first page"),
        ("/records?route=jobs&business=9", "no business"),
        ("/report?name=repairs&sort=colour", "days_open"),
        ("/report?name=repairs&days_open.from=many", "1250.50"),
        ("/?range=decade", "last-month"),
    ] {
        let reply = site.get(path).await;
        assert_eq!(reply.code, 400, "{path}: {reply:?}");
        let is_own = reply.body.contains("<h1>Not shown</h1>") && reply.body.contains(said);
        assert!(is_own, "{path}: {reply:?}");
    }
    daemon.stop().await;
}

/// A number without its separators and its mark.
fn plain(number: &str) -> String {
    let mut number = number.replace(',', "");
    for mark in ["≥ ", "≤ ", "about ", "at least ", "at most "] {
        number = number.replace(mark, "");
    }
    number
}

/// Each link of a page to a list of records, with the number that it stands under.
fn links_to_rows(page: &str) -> Vec<(String, String)> {
    let mut links = Vec::new();
    for piece in page.split("<a href=\"").skip(1) {
        let (address, rest) = piece.split_once('"').expect("an address");
        let (inside, _) = rest.split_once("</a>").expect("the end of a link");
        let inside = match inside.split_once("class=\"n\">") {
            Some((_, number)) => number.split("<span").next().unwrap_or_default(),
            None => inside.trim_start_matches('>'),
        };
        let number = plain(&text(&format!("<a>{inside}")));
        let leads_to_rows = address.starts_with("records?") && address.contains('.')
            || ["repairs", "follow-ups", "outstanding"]
                .iter()
                .any(|name| address.starts_with(&format!("report?name={name}")));
        if leads_to_rows && number.parse::<f64>().is_ok() {
            links.push((format!("/{}", address.replace("&amp;", "&")), number));
        }
    }
    links
}

/// Follows each number of a page to its rows, which are as many or add up to it; how many it
/// followed that no other page had.
async fn follow_numbers(site: &Site, path: &str, known: &mut BTreeSet<String>) {
    let page = site.get(path).await;
    // A report that the shop has no data for has no numbers.
    if page.code == 422 {
        return;
    }
    assert_eq!(page.code, 200, "{path}: {page:?}");
    for (link, number) in links_to_rows(&page.body) {
        if !known.insert(link.clone()) {
            continue;
        }
        let list = site.get(&link).await.body;
        let sums: Vec<String> = list
            .split("<dd><strong>")
            .skip(1)
            .filter_map(|sum| sum.split('<').next())
            .map(plain)
            .collect();
        let is_said = if number.contains('.') {
            sums.contains(&number)
        } else {
            sums.first() == Some(&number)
        };
        assert!(
            is_said,
            "{path}: {link} is not {number} but {sums:?}: {list}"
        );
    }
}

/// The addresses of all reports.
async fn reports_of(site: &Site) -> Vec<String> {
    let page = site.get("/reports").await.body;
    let mut paths = Vec::new();
    for piece in page.split("href=\"report?").skip(1) {
        let query = piece.split('"').next().expect("the end of the address");
        paths.push(format!("/report?{query}"));
    }
    paths
}

#[tokio::test]
async fn each_number_of_a_whole_shop_leads_to_as_many_rows_or_to_rows_that_add_up_to_it() {
    let workspace = Workspace::still(Options {
        shop: Shop::Busy,
        past_in: Some(TimeZone::UTC),
        start: Some(Timestamp::now()),
        requests_per_minute: 60_000,
        ..Options::default()
    })
    .await;
    let place = workspace.place();
    place.configure(&[LISTEN, SHOWN].concat());
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let mut paths = vec![
        "/?range=this-week".to_owned(),
        "/?range=last-month".to_owned(),
    ];
    for report in reports_of(&site).await {
        paths.push(format!("{report}&range=12-months&by=month"));
        paths.push(format!("{report}&range=last-7-days"));
    }
    let mut followed = BTreeSet::new();
    for path in paths {
        follow_numbers(&site, &path, &mut followed).await;
    }
    for report in [
        "till-by-method",
        "money-by-person",
        "time-to-repair",
        "average-repair",
    ] {
        let path = format!("/report?name={report}&range=12-months");
        let page = site.get(&path).await.body;
        let table = page.split("<tbody").nth(1).unwrap_or_default();
        assert!(!links_to_rows(&page).is_empty(), "{report}: {table}");
    }
    // The bars of a chart lead to the same rows.
    let page = site
        .get("/report?name=till-by-method&range=12-months")
        .await
        .body;
    let (chart, _) = page.split_once("<table").expect("a table");
    assert!(chart.contains("amount.from=0"), "{chart}");
    assert!(followed.len() > 100, "only {} links", followed.len());
    daemon.stop().await;
}

#[tokio::test]
async fn a_number_leads_to_as_many_rows_and_an_amount_to_rows_that_add_up_to_it() {
    let (_pages, _place, daemon, site) = opened(&[LISTEN, SHOWN].concat()).await;
    site.get_when("/records?route=jobs", "all is read", has_all)
        .await;
    let is_counted = |reply: &Reply| reply.body.contains(">60.25</a>");
    site.get_when("/", "Home is counted", is_counted).await;
    let mut paths = vec![
        "/?range=this-month".to_owned(),
        "/?range=last-month".to_owned(),
    ];
    for report in reports_of(&site).await {
        paths.push(format!("{report}&range=last-30-days"));
        paths.push(format!("{report}&range=12-months&by=month"));
    }
    let mut followed = BTreeSet::new();
    for path in paths {
        follow_numbers(&site, &path, &mut followed).await;
    }
    assert!(followed.len() > 25, "only {followed:?}");
    let refused = site.get("/report?name=repairs&state=closed").await;
    assert!(
        refused
            .body
            .contains("must be one of open, taken_in, completed"),
        "{refused:?}"
    );
    for (asked, wanted) in [
        (
            "state=taken_in&range=12-months&person=Tim",
            vec!["JOB-6", "JOB-7", "JOB-8"],
        ),
        (
            "state=completed&range=last-30-days&model=galaxy",
            vec!["JOB-7"],
        ),
        (
            "person=Tim&amount_from=100&amount_to=101",
            vec!["JOB-6", "JOB-8"],
        ),
        ("person=(not+assigned)", vec![]),
    ] {
        let page = site
            .get(&format!("/report?name=repairs&{asked}"))
            .await
            .body;
        let mut found = Vec::new();
        if page.contains("<table") {
            found = column(&page, "job number");
            found.sort();
        }
        assert_eq!(found, wanted, "{asked}");
    }
    daemon.stop().await;
}
