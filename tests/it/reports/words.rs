//! What the shop's words mean in reports: who is one person, what is cancelled, who finished.

use serde_json::{Value, json};
use shopmirror::api::decode;
use shopmirror::store::{JobWords, Store};
use shopmirror_core::record::{PollerId, Route};

use super::store_page;
use super::unknown::place;
use crate::support::Place;

/// A place whose store has these records; each list was read an hour after the one before.
async fn place_with(lists: &[(Route, Vec<Value>)]) -> (Place, Store) {
    let (place, store) = place("");
    for (hour, (route, records)) in (12..).zip(lists) {
        let page = decode(serde_json::to_vec(records).unwrap()).unwrap();
        let poller = PollerId {
            route: *route,
            business: None,
        };
        let at = format!("2026-03-10T{hour}:00:00Z").parse().unwrap();
        store_page(&store, poller, page, at, 100, None).await;
    }
    (place, store)
}

/// A report of the first nine days of the month.
async fn report(place: &Place, name: &str) -> Value {
    let days = ["--from", "2026-03-01", "--to", "2026-03-09"];
    let asked = ["report", name, "--format", "json"];
    let args = match name {
        "outstanding" => asked.to_vec(),
        _ => [&asked[..], &days].concat(),
    };
    place.run(args).await.json()
}

#[tokio::test]
async fn a_lead_became_a_customer_however_its_number_and_address_are_spelled() {
    let person = |id: u8, code: Value, number: &str, email: &str| {
        json!({"id": id, "name": "N", "mobile_country_code": code, "mobile_number": number,
            "email": email, "created_at": format!("2026-03-0{id}T10:00:00Z")})
    };
    let german = json!("+49");
    let leads = [
        person(5, german.clone(), "1511 234-567", ""),
        person(4, german.clone(), "", "ANNA@example.com "),
        person(3, json!("+43"), "1511234567", ""),
        person(2, Value::Null, "1511-234567", ""),
        person(1, json!("0049"), "15112 34567", "other@example.com"),
    ];
    let customers = [person(6, german, "1511234567", "anna@example.com")];
    let lists = [
        (Route::Leads, leads.to_vec()),
        (Route::Customers, customers.to_vec()),
    ];
    let (place, store) = place_with(&lists).await;
    store.close().await.unwrap();
    let json = report(&place, "leads").await;
    let converted: Vec<i64> = json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[2].as_i64().unwrap_or_default())
        .collect();
    // The number of the third one is in another country.
    assert_eq!(converted, [1, 1, 0, 1, 1, 0, 0, 0, 0], "{json}");
}

/// Three repairs of Anna: one that Ben completed, and two that are cancelled.
fn repairs() -> [(Route, Vec<Value>); 2] {
    let job = |id: u8| {
        json!({"id": id, "job_number": format!("R-{id}"), "customer_name": "N", "status": "New",
            "status_stage": "open", "assigned_to": "Anna", "total_amount": 100, "paid_amount": 40,
            "created_at": format!("2026-03-0{id}T10:00:00Z")})
    };
    let change = |id: u8, job: u8, status: &str, by: Value| {
        json!({"id": id, "job_number": format!("R-{job}"), "status": status,
            "status_stage": "completed", "changed_by": by,
            "created_at": format!("2026-03-0{id}T12:00:00Z")})
    };
    let changes = vec![
        change(7, 3, "Storniert", json!("Ben")),
        change(6, 2, "Cancelled by customer", json!("Ben")),
        change(5, 1, "Delivered", json!("Ben")),
    ];
    [
        (Route::Jobs, vec![job(3), job(2), job(1)]),
        (Route::JobStatusChanges, changes),
    ]
}

/// How many repairs Ben completed, how many are owed, and the notes of both reports.
async fn told(place: &Place) -> (Value, usize, String) {
    let technicians = report(place, "technicians").await;
    let outstanding = report(place, "outstanding").await;
    let rows = technicians["rows"].as_array().unwrap();
    let ben = rows.iter().find(|row| row[0] == "Ben");
    let completed = ben.map_or(Value::Null, |row| row[3].clone());
    let owed = outstanding["rows"].as_array().unwrap().len();
    let notes = format!("{} {}", technicians["notes"], outstanding["notes"]);
    (completed, owed, notes)
}

#[tokio::test]
async fn a_cancelled_repair_is_neither_completed_nor_owed_and_who_finished_counts() {
    let (place, store) = place_with(&repairs()).await;
    let by_name = told(&place).await;
    assert_eq!((&by_name.0, by_name.1), (&json!(2), 2), "{by_name:?}");
    let left_out = "1 cancelled repair is left out, of which 60.00 is not paid";
    assert!(by_name.2.contains(left_out), "{by_name:?}");
    assert!(!by_name.2.contains("cancelled_status"), "{by_name:?}");

    let words = JobWords {
        cancelled_status: vec!["storniert".to_owned(), "Cancelled by customer".to_owned()],
        changed_by: None,
    };
    store.set_job_words(words).await.unwrap();
    let configured = told(&place).await;
    assert_eq!(
        (&configured.0, configured.1),
        (&json!(1), 1),
        "{configured:?}"
    );
    let left_out = "2 cancelled repairs are left out, of which 120.00 is not paid";
    assert!(configured.2.contains(left_out), "{configured:?}");
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_report_says_that_it_knows_no_cancelled_repair() {
    let [jobs, _] = repairs();
    let (place, store) = place_with(&[jobs]).await;
    store.close().await.unwrap();
    let notes = report(&place, "outstanding").await["notes"].to_string();
    assert!(
        notes.contains("set cancelled_status in [reports]"),
        "{notes}"
    );
}
