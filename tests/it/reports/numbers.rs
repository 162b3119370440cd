//! The numbers of every built-in report, for each zone, period, unit and business; and that a report
//! whose query is wrong does not pass.

use std::fmt::Write as _;

use serde_json::{Value, json};
use shopmirror::report::{self, By, Question, Report};
use shopmirror::store::Reader;

use super::expected::{Asked, OVERDUE, expected};
use super::truth::{Shop, shops};

/// What each report is asked for, and what to call it in a failure.
fn cases(shop: &Shop) -> Vec<(&'static str, Asked)> {
    let (first, last) = shop.days();
    let turn = shop.clock_change;
    let asked = |from, to, by, business| Asked { from, to, by, business };
    vec![
        ("everything by day", asked(first, last, By::Day, None)),
        ("everything by week", asked(first, last, By::Week, None)),
        ("everything by month", asked(first, last, By::Month, None)),
        ("business 1 by day", asked(first, last, By::Day, Some("1"))),
        ("business 2 by week", asked(first, last, By::Week, Some("2"))),
        ("an unknown business", asked(first, last, By::Day, Some("9"))),
        ("the day of the clock change", asked(turn, turn, By::Day, None)),
        ("the day of the clock change in business 2", asked(turn, turn, By::Day, Some("2"))),
        ("up to the day of the clock change", asked(first, turn, By::Day, None)),
        ("from the day of the clock change", asked(turn, last, By::Month, None)),
    ]
}

/// The rows of a report as the library makes them, without a process.
fn found(report: &Report, shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut reader = Reader::open(&shop.place.store()).unwrap();
    let set = report.parameters.iter().map(|known| (known.name.clone(), OVERDUE.to_string()));
    let question = Question {
        from: Some(asked.from),
        to: Some(asked.to),
        by: asked.by,
        business: asked.business.map(str::to_owned),
        at: None,
        set: set.collect(),
    };
    let answer = report::answer(&mut reader, report, &question, &shop.zone, shop.now);
    let rows = serde_json::to_value(report::objects(&answer.unwrap())).unwrap();
    rows.as_array().unwrap().clone()
}

/// Where the rows differ. Hours, shares and ages may differ by what rounding does, money by nothing.
fn difference(name: &str, found: &[Value], wanted: &[Value]) -> Option<String> {
    let most = if matches!(name, "payments" | "outstanding") { 0.0 } else { 0.0051 };
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= most,
        _ => a == b,
    };
    let mut text = String::new();
    if found.len() != wanted.len() {
        write!(text, "{} rows instead of {}; ", found.len(), wanted.len()).unwrap();
    }
    for (found, wanted) in found.iter().zip(wanted) {
        let (a, b) = (found.as_object().unwrap(), wanted.as_object().unwrap());
        if a.len() != b.len() || b.iter().any(|(column, b)| !same(&found[column], b)) {
            write!(text, "{found} instead of {wanted}").unwrap();
            break;
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Compares a report with what is computed from the records, in every zone and case.
async fn agrees(name: &str) {
    let report = report::find(name, None).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for shop in shops().await.iter() {
        for (case, asked) in cases(shop) {
            let wanted = expected(name, shop, &asked);
            compared += wanted.len();
            if let Some(why) = difference(name, &found(&report, shop, &asked), &wanted) {
                wrong.push(format!("{name}, {}, {case}: {why}", shop.zone_name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 20, "{name}: only {compared} rows were compared");
}

#[tokio::test]
async fn intake_counts_each_record_on_its_local_day() {
    agrees("intake").await;
}

#[tokio::test]
async fn leads_are_counted_by_source() {
    agrees("sources").await;
}

#[tokio::test]
async fn a_lead_is_converted_once_its_customer_exists() {
    agrees("leads").await;
}

#[tokio::test]
async fn follow_ups_are_the_open_leads_that_are_due() {
    agrees("follow-ups").await;
}

#[tokio::test]
async fn open_repairs_are_grouped_by_status_and_age() {
    agrees("open-repairs").await;
}

#[tokio::test]
async fn turnaround_is_the_time_between_the_first_and_the_last_status_by_brand() {
    agrees("turnaround-by-brand").await;
}

#[tokio::test]
async fn turnaround_is_known_for_each_person() {
    agrees("turnaround-by-person").await;
}

#[tokio::test]
async fn the_load_of_each_person_is_open_taken_in_and_completed_work() {
    agrees("technicians").await;
}

#[tokio::test]
async fn payments_add_up_to_the_cent_with_refunds_apart() {
    agrees("payments").await;
    let shop = &shops().await[0];
    let table = shop.run("payments", &["--format", "csv"]).await.out;
    for cell in table.lines().skip(1).flat_map(|line| line.split(',').skip(2)) {
        assert!(cell.len() < 12, "{cell} in {table}");
    }
}

#[tokio::test]
async fn outstanding_amounts_are_what_is_billed_and_not_paid() {
    agrees("outstanding").await;
}

#[tokio::test]
async fn outsourced_work_is_counted_by_firm_with_what_is_overdue() {
    agrees("outsourced").await;
}

#[tokio::test]
async fn the_busiest_hours_are_those_of_the_wall_clock() {
    agrees("busiest-hours").await;
}

#[tokio::test]
async fn customers_are_new_or_return_with_another_repair() {
    agrees("customers").await;
}

#[tokio::test]
async fn the_mirror_reports_its_own_freshness_and_loss() {
    agrees("mirror").await;
}

/// The command takes the same choices as the library, and the log knows the same numbers.
#[tokio::test]
async fn the_command_answers_for_a_period_a_unit_and_a_business_also_at_an_earlier_moment() {
    let shops = shops().await;
    let (shop, reports) = (&shops[0], report::built_in());
    let (_, asked) = cases(shop)[4];
    let at = shop.now.to_string();
    // The log does not keep when a route was polled.
    for name in reports.iter().map(|report| report.name.as_str()).filter(|name| *name != "mirror") {
        let mut args = vec!["--by", "week", "--business", "2", "--format", "json", "--at", &at];
        let set = format!("overdue={OVERDUE}");
        if name == "outsourced" {
            args.extend(["--set", &set]);
        }
        let ended = shop.run(name, &args).await;
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        let found = ended.json().as_array().unwrap().clone();
        let wanted = expected(name, shop, &asked);
        assert_eq!(difference(name, &found, &wanted), None, "{name}");
    }
}

#[tokio::test]
async fn the_present_and_the_same_moment_of_the_past_give_the_same_numbers() {
    let shops = shops().await;
    let shop = &shops[1];
    let at = shop.now.to_string();
    for name in [
        "intake",
        "sources",
        "payments",
        "busiest-hours",
        "customers",
        "leads",
        "turnaround-by-brand",
    ] {
        let now = shop.run(name, &["--format", "json"]).await.json();
        let then = shop.run(name, &["--format", "json", "--at", &at]).await.json();
        assert_eq!(now, then, "{name}");
        assert!(now != json!([]), "{name}: nothing is compared");
    }
}

/// Every built-in report with one thing wrong: the report, what is wrong, the text and what replaces it.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "intake",
        "UTC days",
        "r.created_at >= d.from_at AND r.created_at < d.to_at",
        "r.created_at >= d.day AND r.created_at < d.day || 'U'",
    ),
    (
        "intake",
        "the last instant belongs to the next day",
        "r.created_at < d.to_at",
        "r.created_at < datetime(d.to_at, '-1 second')",
    ),
    ("intake", "no business", "(:business IS NULL OR r._business = :business)", "1"),
    ("sources", "UTC days", "(SELECT min(from_at) FROM days)", "(SELECT min(day) FROM days)"),
    (
        "sources",
        "the first day of the period only",
        "(SELECT max(to_at) FROM days)",
        "(SELECT min(to_at) FROM days)",
    ),
    ("sources", "no business", "(:business IS NULL OR l._business = :business)", "1"),
    ("sources", "open leads counted as closed", "'completed'", "'open'"),
    (
        "leads",
        "UTC days",
        "l.created_at >= d.from_at AND l.created_at < d.to_at",
        "l.created_at >= d.day AND l.created_at < d.day || 'U'",
    ),
    ("leads", "customers of before count", "AND c.created_at >= l.created_at", ""),
    ("leads", "the e-mail address is not looked at", "c.email = l.email", "0"),
    ("leads", "no business", "WHERE :business IS NULL OR l._business = :business", ""),
    ("follow-ups", "what is due today is left out", "date(:today, '+1 day')", "date(:today)"),
    ("follow-ups", "closed leads too", "l.status_stage = 'open' AND", ""),
    ("follow-ups", "no business", "AND (:business IS NULL OR l._business = :business)", ""),
    ("open-repairs", "ages from the day of the report", "julianday(:now)", "julianday(:today)"),
    ("open-repairs", "completed repairs too", "status_stage <> 'completed' AND", ""),
    ("open-repairs", "no business", "(:business IS NULL OR _business = :business)", "1"),
    ("turnaround-by-brand", "the latest completion only", "max(s.created_at)", "min(s.created_at)"),
    (
        "turnaround-by-brand",
        "UTC days",
        "s.created_at >= d.from_at AND s.created_at < d.to_at",
        "s.created_at >= d.day AND s.created_at < d.day || 'U'",
    ),
    (
        "turnaround-by-brand",
        "the lower of the two in the middle",
        "IN ((repairs + 1) / 2, (repairs + 2) / 2)",
        "= (repairs + 1) / 2",
    ),
    (
        "turnaround-by-brand",
        "no business",
        "AND (:business IS NULL OR s._business = :business)",
        "",
    ),
    ("turnaround-by-person", "days for hours", "24 * (julianday", "(julianday"),
    ("turnaround-by-person", "p90 one place too low", "(9 * repairs + 9) / 10", "9 * repairs / 10"),
    (
        "turnaround-by-person",
        "repairs that are not completed too",
        "+s.status_stage = 'completed' AND",
        "",
    ),
    (
        "turnaround-by-person",
        "no business",
        "AND (:business IS NULL OR s._business = :business)",
        "",
    ),
    (
        "technicians",
        "every change counts as a repair",
        "SELECT DISTINCT s.job_number",
        "SELECT s.job_number",
    ),
    (
        "technicians",
        "UTC days",
        "j.created_at >= d.from_at AND j.created_at < d.to_at",
        "j.created_at >= d.day AND j.created_at < d.day || 'U'",
    ),
    (
        "technicians",
        "open work of every business",
        "status_stage <> 'completed' AND (:business IS NULL OR _business = :business)",
        "status_stage <> 'completed'",
    ),
    (
        "technicians",
        "completed work of every business",
        "AND (:business IS NULL OR s._business = :business)",
        "",
    ),
    (
        "payments",
        "refunds are added",
        "sum(net) / 10000.0 AS net",
        "sum(net + 2 * refunded) / 10000.0 AS net",
    ),
    ("payments", "refunds have the wrong sign", "0 - total(CASE", "0 + total(CASE"),
    (
        "payments",
        "UTC days",
        "p.created_at >= d.from_at AND p.created_at < d.to_at",
        "p.created_at >= d.day AND p.created_at < d.day || 'U'",
    ),
    (
        "payments",
        "sums of fractions",
        "total(round(amount * 10000)) AS net",
        "total(round(amount)) * 10000 AS net",
    ),
    ("payments", "no business", "AND (:business IS NULL OR p._business = :business)", ""),
    (
        "outstanding",
        "what is paid in advance too",
        "total_amount > paid_amount",
        "total_amount >= paid_amount",
    ),
    ("outstanding", "the lowest first", "ORDER BY outstanding DESC", "ORDER BY outstanding"),
    ("outstanding", "the age of the newest", "min(julianday", "max(julianday"),
    ("outstanding", "no business", "AND (:business IS NULL OR _business = :business)", ""),
    ("outsourced", "overdue a day too early", "age > :overdue", "age > :overdue - 1"),
    ("outsourced", "what came back too", "status_stage <> 'completed' AND", ""),
    ("outsourced", "no business", "(:business IS NULL OR _business = :business)", "1"),
    ("busiest-hours", "UTC hours", "(h.from_s + h.seconds) / 3600 % 24", "h.from_s / 3600 % 24"),
    (
        "busiest-hours",
        "the weekday of UTC",
        "(h.from_s + h.seconds) / 86400 % 7",
        "h.from_s / 86400 % 7",
    ),
    (
        "busiest-hours",
        "the offset before the clock change",
        "z.to_s > unixepoch(d.from_at)",
        "z.to_s > unixepoch(d.from_at) AND z.from_s <= unixepoch(d.from_at)",
    ),
    ("busiest-hours", "no business", "AND (:business IS NULL OR j._business = :business)", ""),
    (
        "customers",
        "the same repair counts as an earlier one",
        "e.created_at < j.created_at",
        "e.created_at <= j.created_at",
    ),
    (
        "customers",
        "UTC days",
        "min(from_at) AS from_at, max(to_at) AS to_at",
        "min(day) AS from_at, max(day) || 'U' AS to_at",
    ),
    (
        "customers",
        "customers of every business",
        "AND (:business IS NULL OR c._business = :business)",
        "",
    ),
    (
        "customers",
        "repairs of every business",
        "AND (:business IS NULL OR j._business = :business)",
        "",
    ),
    ("mirror", "the gaps of other businesses", "AND g.business = p.business", ""),
    (
        "mirror",
        "polls of all time",
        "l.to_at >= (SELECT min(from_at) FROM days) AND l.to_at < (SELECT max(to_at) FROM days)",
        "1",
    ),
    ("mirror", "no business", "WHERE :business IS NULL OR p.business = :business", ""),
];

/// A wrong query must not pass, or the comparison proves nothing.
#[tokio::test]
async fn a_report_with_a_wrong_query_does_not_agree() {
    let shops = shops().await;
    let built_in = report::built_in();
    let mut unseen = Vec::new();
    for (name, wrong, text, instead) in WRONG {
        let whole = built_in.iter().find(|report| report.name == *name).unwrap();
        assert!(whole.sql.contains(text), "{name}, {wrong}: the query has no {text:?} any more");
        let broken = Report::parse(name, &whole.sql.replace(text, instead)).unwrap();
        let is_seen = shops.iter().any(|shop| {
            cases(shop).iter().any(|(_, asked)| {
                let wanted = expected(name, shop, asked);
                difference(name, &found(&broken, shop, asked), &wanted).is_some()
            })
        });
        if !is_seen {
            unseen.push(format!("{name}: {wrong}"));
        }
    }
    assert!(unseen.is_empty(), "these agree although they are wrong: {unseen:#?}");
    for report in &built_in {
        assert!(
            WRONG.iter().any(|(name, ..)| *name == report.name),
            "{} has no break",
            report.name
        );
    }
}
