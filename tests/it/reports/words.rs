//! What the shop's words mean in reports: who is one person, what is cancelled, who finished.

use serde_json::{Value, json};
use shopmirror::api::decode;
use shopmirror::store::{JobWords, Store};
use shopmirror_core::record::{PollerId, Route};

use super::store_page;
use super::unknown::place;
use crate::support::{Pages, Place};

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

/// A place that has read these payments and, with `words`, what their words mean.
async fn place_with_payments(payments: &Value, words: &str) -> Place {
    let pages = Pages::start().await;
    let place = pages.place();
    place.configure(&format!("[reports]\n{words}"));
    pages.show("payments", payments.to_string());
    let once = place.run(["once"]).await;
    assert_eq!(once.code, Some(0), "{}", once.err);
    place
}

#[tokio::test]
async fn refunds_by_type_are_paid_back_and_void_payments_count_nowhere() {
    let payment = |id: u8, amount: Value, art: &str, status: &str| {
        json!({"id": id, "amount": amount, "art": art, "status": status,
            "created_at": format!("2026-03-0{id}T10:00:00Z")})
    };
    let payments = json!([
        payment(6, Value::Null, "Sale", "Paid"),
        payment(5, Value::Null, "Storno", "Paid"),
        payment(4, json!(1000), "Sale", "VOID "),
        payment(3, json!(-5), "Sale", "Paid"),
        payment(2, json!(30), "storno", "Paid"),
        payment(1, json!(100), "Sale", "Paid"),
    ]);
    let words = "refund_types = [\"Storno\"]\nvoid_statuses = [\"Void\"]\n\
                 fields.payments.type = \"art\"\n";
    let place = place_with_payments(&payments, words).await;
    let told = report(&place, "payments").await;
    let sums = &told["totals"].as_array().unwrap()[1..];
    assert_eq!(
        sums,
        [json!(1), json!(100.0), json!(3), json!(35.0), json!(65.0)],
        "{told}"
    );
    assert_eq!(told["totals_between"], json!([[1, 2], [3, 4]]), "{told}");
    let notes = told["notes"].to_string();
    assert!(notes.contains("1 void payment is left out"), "{notes}");
    let unread = "2 of these payments have no amount that can be read and are in no sum; 1 of them \
                  may be a refund: payment 6";
    assert!(notes.contains(unread), "{notes}");
    assert!(!notes.contains("[reports]"), "{notes}");
    let status = place.run(["status"]).await.out;
    assert!(
        status.contains("payments.type: the field art of payments (configured)"),
        "{status}"
    );
    assert!(
        status.contains("payments.status: the field status of payments (found by its name)"),
        "{status}"
    );

    let place = place_with_payments(&payments, "").await;
    let told = report(&place, "payments").await;
    let sums = &told["totals"].as_array().unwrap()[1..];
    assert_eq!(
        sums,
        [json!(3), json!(1130.0), json!(1), json!(5.0), json!(1125.0)],
        "{told}"
    );
    let notes = told["notes"].to_string();
    let assumed = "a payment counts whatever its status: if its field status can say otherwise, set \
                   void_statuses in [reports]";
    assert!(
        notes.contains(assumed) && !notes.contains("refund_types"),
        "{notes}"
    );

    let place = place_with_payments(&payments, "refund_types = [\"Storno\"]\n").await;
    let notes = report(&place, "payments").await["notes"].to_string();
    let lacking = "no field of payments is known to say its type, so a payment is a refund only if \
                   its amount is negative: set payments.type in [reports.fields]";
    assert!(notes.contains(lacking), "{notes}");
}

#[tokio::test]
async fn the_field_that_says_who_changed_a_status_can_be_named_and_a_report_says_if_it_lacks_one() {
    let [(_, jobs), (_, changes)] = repairs();
    let mut renamed = Vec::new();
    for mut change in changes {
        change["worker"] = change["changed_by"].take();
        change.as_object_mut().unwrap().remove("changed_by");
        renamed.push(change);
    }
    let pages = Pages::start().await;
    pages.show("jobs", json!(jobs).to_string());
    pages.show("job-status-changes", json!(renamed).to_string());
    let place = pages.place();
    let lacking = "no field of job_status_changes is known to say who changed a status";
    for (fields, completed, is_lacking) in [
        ("", Value::Null, true),
        (
            "fields.job_status_changes.changed_by = \"worker\"\n",
            json!(2),
            false,
        ),
        (
            "fields.job_status_changes.changed_by = \"\"\n",
            Value::Null,
            true,
        ),
    ] {
        place.configure(&format!("[reports]\n{fields}"));
        let once = place.run(["once"]).await;
        assert_eq!(once.code, Some(0), "{}", once.err);
        let told = told(&place).await;
        assert_eq!(
            (&told.0, told.2.contains(lacking)),
            (&completed, is_lacking),
            "{told:?}"
        );
    }
}

/// The words in the first column of a report.
async fn groups(place: &Place, name: &str) -> Vec<String> {
    let told = report(place, name).await;
    let rows = told["rows"].as_array().expect("rows");
    let mut words: Vec<String> = rows
        .iter()
        .map(|row| row[0].as_str().expect("a text").to_owned())
        .collect();
    words.sort();
    words
}

#[tokio::test]
async fn the_field_that_has_the_words_counts_also_beside_one_of_the_name_of_reports() {
    let payment = |id: u8, method: &str, mode: &str| {
        json!({"id": id, "amount": 10, "method": method, "channel": format!("chan {id}"),
            "payment_mode": mode, "created_at": format!("2026-03-0{id}T10:00:00Z")})
    };
    let payments = json!([
        payment(3, "", ""),
        payment(2, "raw", ""),
        payment(1, "raw", "Cash"),
    ]);
    let place = place_with_payments(&payments, "").await;
    let wanted = ["(none)", "Cash", "raw"];
    assert_eq!(groups(&place, "till-by-method").await, wanted);
    let words = "fields.payments.method = \"channel\"\n";
    let place = place_with_payments(&payments, words).await;
    let wanted = ["chan 1", "chan 2", "chan 3"];
    assert_eq!(groups(&place, "till-by-method").await, wanted);

    let [(_, mut jobs), changes] = repairs();
    for (place, job) in jobs.iter_mut().enumerate() {
        job["device"] = json!("phone");
        job["device_model"] = json!(if place == 2 { "" } else { "S7" });
    }
    let (place, store) = place_with(&[(Route::Jobs, jobs), changes]).await;
    store.close().await.unwrap();
    assert_eq!(groups(&place, "money-by-device").await, ["S7", "phone"]);
}
