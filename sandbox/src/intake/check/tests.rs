//! Validation alone: what each kind of field accepts, strictly and leniently.

use serde_json::json;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(map) = value else {
        unreachable!("an object literal")
    };
    map
}

fn lead(value: Value) -> Result<Clean, Vec<String>> {
    let found = strict(Destination::Lead, object(value), &[]);
    found.map_err(|problems| problems.into_iter().map(|(field, _)| field).collect())
}

#[test]
fn a_valid_address_of_mail_is_told_from_an_invalid_one() {
    for good in ["a@b.example", "o'brien+x@mail.example", "ü@münchen.example"] {
        assert!(is_email(good), "{good}");
    }
    for bad in [
        "a",
        "@b.example",
        "a@",
        "a b@c.example",
        "a@b@c",
        "a..b@c.example",
        "a@.example",
    ] {
        assert!(!is_email(bad), "{bad}");
    }
}

#[test]
fn dates_and_date_times_are_told_from_other_text() {
    for good in [
        "2026-03-03",
        "2026-03-03T10:30",
        "2026-03-03 10:30:00",
        "2026-03-03T10:30:00Z",
    ] {
        assert!(is_when(good), "{good}");
    }
    for bad in ["tomorrow", "03/03/2026", "2026-02-30", "10:30"] {
        assert!(!is_when(bad), "{bad}");
    }
}

#[test]
fn strict_names_every_field_that_is_wrong_at_once() {
    let fields = lead(json!({
        "name": 5, "email": "nope", "address": {"city": "c".repeat(101)},
        "custom_fields": {"a": "x".repeat(1001), "b": []}, "business_id": "1",
    }));
    let expected = [
        "name",
        "email",
        "address.city",
        "custom_fields.a",
        "custom_fields.b",
        "business_id",
    ];
    assert_eq!(fields.unwrap_err(), expected);
}

#[test]
fn lenient_never_fails_for_an_optional_field() {
    let sent = json!({
        "name": "  Ada  ", "email": "a@b.example", "comment": {"a": 1}, "source": "",
        "is_recovery": "Yes", "is_pickup_booked": "perhaps", "scheduled_on": "soon",
        "serial_number_2": "s".repeat(500), "accessories": 4, "address": "Mill Lane",
    });
    let clean = lenient(Destination::SelfCheckin, object(sent), &[]).unwrap();
    assert_eq!(clean.text("name"), Some("Ada"));
    assert_eq!(clean.values["is_recovery"], json!(true));
    assert_eq!(clean.text("serial_number_2").unwrap().len(), 191);
    let custom = json!({
        "comment": "{\"a\":1}", "is_pickup_booked": "perhaps", "scheduled_on": "soon",
        "accessories": 4, "address": "Mill Lane",
    });
    assert_eq!(Value::Object(clean.custom), custom);
}

#[test]
fn a_defined_field_takes_none_of_the_twenty_places() {
    let mut sent = object(json!({"name": "Ada", "email": "a@b.example", "zz": "kept"}));
    sent.extend((0..25).map(|nth| (format!("x{nth:02}"), json!("v".repeat(1200)))));
    let clean = strict(Destination::Lead, sent, &["zz"]).unwrap();
    assert_eq!(clean.custom.len(), 21);
    assert_eq!(clean.custom["zz"], "kept");
    assert_eq!(clean.custom["x00"].as_str().unwrap().len(), MAX_EXTRA);
}
