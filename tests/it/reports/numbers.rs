//! The numbers of every built-in report, for each zone, period, unit and business.

use std::fmt::Write as _;

use serde_json::Value;
use shopmirror::config::CountedBy;
use shopmirror::report::{self, Question, Report};
use shopmirror::store::Reader;

use super::expected::{Asked, OVERDUE, expected};
use super::truth::{Shop, shops};

/// What each report is asked for, and what to call it in a failure.
fn cases(shop: &Shop) -> Vec<(&'static str, Asked)> {
    let (first, last) = shop.days();
    let turn = shop.clock_change;
    let asked = |from, to, by, business| Asked {
        from,
        to,
        by,
        business,
    };
    vec![
        (
            "everything by day",
            asked(first, last, CountedBy::Day, None),
        ),
        (
            "business 2 by week",
            asked(first, last, CountedBy::Week, Some("2")),
        ),
        (
            "the day of the clock change",
            asked(turn, turn, CountedBy::Day, Some("1")),
        ),
        (
            "by month up to the day of the clock change",
            asked(first, turn, CountedBy::Month, None),
        ),
    ]
}

/// The rows of a report as the library makes them, without a process.
fn found(report: &Report, shop: &Shop, asked: &Asked) -> Vec<Value> {
    let mut reader = Reader::open(&shop.place.store()).unwrap();
    let set = report.parameters.get_key_value("overdue");
    let question = Question {
        from: Some(asked.from),
        to: Some(asked.to),
        by: asked.by,
        business: asked.business.map(str::to_owned),
        set: set
            .map(|(name, _)| (name.clone(), OVERDUE.to_string()))
            .into_iter()
            .collect(),
        ..Question::default()
    };
    let answer = report::answer(&mut reader, report, &question, &shop.zone, shop.now).unwrap();
    assert_eq!(
        answer.totals.is_some(),
        !report.totals.is_empty() && !answer.rows.is_empty()
    );
    super::rows_of(&answer)
}

/// Where the rows differ. Hours, shares and ages may differ by what rounding does, money by
/// nothing.
fn difference(name: &str, found: &[Value], wanted: &[Value]) -> Option<String> {
    let most = if matches!(name, "payments" | "outstanding") {
        0.0
    } else {
        0.0051
    };
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

#[tokio::test]
async fn every_report_agrees_with_the_records_in_every_zone_period_unit_and_business() {
    let (shops, mut wrong) = (shops().await, Vec::new());
    for report in report::built_in() {
        let (name, mut compared) = (report.name.as_str(), 0);
        for shop in &shops {
            for (case, asked) in cases(shop) {
                let wanted = expected(name, shop, &asked);
                compared += wanted.len();
                if let Some(why) = difference(name, &found(&report, shop, &asked), &wanted) {
                    wrong.push(format!("{name}, {}, {case}: {why}", shop.zone_name));
                }
            }
        }
        assert!(compared > 6, "{name}: only {compared} rows were compared");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let shop = &shops[0];
    let refused = shop
        .place
        .run(["report", "intake", "--business", "nonsense"])
        .await;
    assert!(
        refused.code == Some(64) && refused.err.contains("known are: 1, 2"),
        "{refused:?}"
    );
}
