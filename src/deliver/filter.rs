//! Which changes a sink asked for: pure.

use std::cmp::Ordering;

use shopmirror_core::record::{Change, Kind, field_text, same_meaning};

use crate::config::{Condition, FieldTest, Side, SinkFilter};

/// Whether the sink asked for this change.
#[must_use]
pub fn wants(filter: &SinkFilter, change: &Change) -> bool {
    let of_business = || {
        let business = change.business.as_deref().unwrap_or_default();
        filter.businesses.is_empty() || filter.businesses.iter().any(|wanted| wanted == business)
    };
    filter.changes.contains(&change.kind)
        && filter.routes.contains(&change.route)
        // A record may have been read from another business before: whoever got it then gets its
        // tombstone.
        && (change.kind == Kind::Forgotten || of_business())
        // A gap belongs to no record, and of a forgotten record no field is left to compare: no
        // condition on a record leaves them out.
        && (matches!(change.kind, Kind::Gap | Kind::Forgotten)
            || filter.conditions.iter().all(|one| holds(one, change)))
}

fn holds(condition: &Condition, change: &Change) -> bool {
    match condition {
        Condition::Changed(fields) => {
            let changed = change.changed();
            fields
                .iter()
                .any(|field| changed.iter().any(|change| change.name == *field))
        }
        Condition::Field { side, name, wanted } => {
            let record = match side {
                Side::After => Some(change.body.as_str()),
                Side::Before => change.before.as_deref(),
            };
            fits(record.and_then(|record| field_text(record, name)), wanted)
        }
    }
}

/// Whether the JSON text of a field is what was asked for. A field that is absent fits nothing but
/// `exists = false`.
fn fits(found: Option<&str>, wanted: &FieldTest) -> bool {
    match (found, wanted) {
        (found, FieldTest::Exists(exists)) => found.is_some() == *exists,
        (None, _) => false,
        (Some(found), FieldTest::In(values)) => values
            .iter()
            .any(|value| same_meaning(found, &value.to_string())),
        (Some(found), FieldTest::Not(value)) => !same_meaning(found, &value.to_string()),
        (Some(found), FieldTest::Ordered(ordering, value)) => {
            order(found, &value.to_string()) == Some(*ordering)
        }
    }
}

/// How two numbers or two texts are ordered; times in the form of the API sort as text. `None` if
/// the values have no order.
fn order(a: &str, b: &str) -> Option<Ordering> {
    use serde_json::Value::{Number, String};
    match (serde_json::from_str(a).ok()?, serde_json::from_str(b).ok()?) {
        (Number(a), Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (String(a), String(b)) => match (a.parse::<jiff::Timestamp>(), b.parse()) {
            (Ok(a), Ok(b)) => Some(a.cmp(&b)),
            _ => Some(a.cmp(&b)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use shopmirror_core::record::{Route, fixtures};

    fn change(before: Option<&str>, after: &str) -> Change {
        Change {
            route: Route::Jobs,
            kind: if before.is_some() {
                Kind::Updated
            } else {
                Kind::Created
            },
            business: Some("7".into()),
            before: before.map(str::to_owned),
            ..fixtures::change(after)
        }
    }

    fn filter(conditions: Vec<Condition>) -> SinkFilter {
        SinkFilter {
            routes: vec![Route::Jobs],
            changes: vec![Kind::Created, Kind::Updated, Kind::Gap],
            businesses: Vec::new(),
            conditions,
        }
    }

    #[test]
    fn a_field_is_compared_by_meaning() {
        let equal = |value| FieldTest::In(vec![value]);
        let less = |value| FieldTest::Ordered(Ordering::Less, value);
        let greater = |value| FieldTest::Ordered(Ordering::Greater, value);
        let yes = |found: Option<&str>, wanted: FieldTest| {
            assert!(fits(found, &wanted), "{found:?} {wanted:?}")
        };
        let no = |found: Option<&str>, wanted: FieldTest| {
            assert!(!fits(found, &wanted), "{found:?} {wanted:?}")
        };
        for (found, wanted) in [
            ("10.10", equal(json!(10.1))),
            ("\"a\"", equal(json!("a"))),
            ("\"a\"", FieldTest::Not(json!("b"))),
            ("1", FieldTest::Not(json!("1"))),
            ("null", FieldTest::Not(json!("1"))),
            ("9", less(json!(10))),
            (
                "9007199254740993",
                greater(json!(9_007_199_254_740_992_i64)),
            ),
            ("-0.5", less(json!(0))),
            (
                "\"2026-01-01T00:30:00+01:00\"",
                less(json!("2026-01-01T00:00:00Z")),
            ),
            ("\"b\"", greater(json!("a"))),
        ] {
            yes(Some(found), wanted.clone());
            no(None, wanted);
        }
        for (found, wanted) in [
            ("\"9\"", less(json!(10))),
            ("null", less(json!(10))),
            ("[1]", greater(json!(0))),
            ("true", greater(json!(false))),
            ("10", less(json!(10))),
            ("10", greater(json!(10))),
            ("10", FieldTest::Not(json!(10.0))),
        ] {
            no(Some(found), wanted);
        }
        yes(Some("null"), FieldTest::Exists(true));
        no(None, FieldTest::Exists(true));
        yes(None, FieldTest::Exists(false));
        no(Some("null"), FieldTest::Exists(false));
        yes(Some("\"b\""), FieldTest::In(vec![json!("a"), json!("b")]));
        no(Some("\"c\""), FieldTest::In(vec![json!("a"), json!("b")]));
        no(Some("1"), FieldTest::In(Vec::new()));
    }

    #[test]
    fn a_condition_looks_at_the_record_before_or_after_the_change() {
        let completed = |side| Condition::Field {
            side,
            name: "stage".into(),
            wanted: FieldTest::In(vec![json!("completed")]),
        };
        let begins = change(
            Some(r#"{"id":1,"stage":"open"}"#),
            r#"{"id":1,"stage":"completed"}"#,
        );
        let ends = change(
            Some(r#"{"id":1,"stage":"completed"}"#),
            r#"{"id":1,"stage":"open"}"#,
        );
        let first = change(None, r#"{"id":1,"stage":"completed"}"#);
        let wanted = |conditions: Vec<Condition>| {
            [&begins, &ends, &first].map(|change| wants(&filter(conditions.clone()), change))
        };
        assert_eq!(wanted(vec![completed(Side::After)]), [true, false, true]);
        assert_eq!(wanted(vec![completed(Side::Before)]), [false, true, false]);
        assert_eq!(
            wanted(vec![completed(Side::Before), completed(Side::After)]),
            [false; 3]
        );
        assert_eq!(
            wanted(vec![Condition::Changed(vec!["stage".into()])]),
            [true, true, false]
        );
        assert_eq!(
            wanted(vec![Condition::Changed(vec!["note".into()])]),
            [false; 3]
        );
        assert_eq!(wanted(Vec::new()), [true; 3]);
    }

    #[test]
    fn routes_kinds_and_businesses_decide_before_any_condition() {
        let never = Condition::Changed(Vec::new());
        let of = |businesses: &[&str]| SinkFilter {
            businesses: businesses.iter().map(|&text| text.to_owned()).collect(),
            ..filter(Vec::new())
        };
        let job = change(None, "{}");
        assert!(wants(&of(&["7", "8"]), &job) && !wants(&of(&["8"]), &job));
        let of_default = Change {
            business: None,
            ..job.clone()
        };
        assert!(wants(&of(&[]), &of_default) && !wants(&of(&["7"]), &of_default));
        let lead = Change {
            route: Route::Leads,
            ..job.clone()
        };
        assert!(!wants(&of(&[]), &lead));
        let baseline = Change {
            kind: Kind::Baseline,
            ..job.clone()
        };
        assert!(!wants(&of(&[]), &baseline));
        let gap = Change {
            kind: Kind::Gap,
            record_id: None,
            ..job
        };
        assert!(
            wants(&filter(vec![never]), &gap),
            "a gap has no record to look at"
        );
    }
}
