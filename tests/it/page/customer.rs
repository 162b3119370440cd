//! What a customer paid and owes, and what happened to a repair.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::owner::SHOWN;
use super::{LISTEN, Reply, Site};
use crate::support::Pages;

fn repair(id: u32, total: u32, paid: u32, status: &str) -> Value {
    let made = Timestamp::now() - SignedDuration::from_hours(24);
    json!({"id": id, "job_number": format!("J-{id}"), "customer_name": "Ann", "status": status,
        "status_stage": "completed", "mobile_number": "0770", "total_amount": total, "paid_amount": paid,
        "created_at": made.to_string()})
}

#[tokio::test]
async fn a_customer_owes_what_all_repairs_but_the_cancelled_ones_say_and_a_doubt_is_a_range() {
    let pages = Pages::start().await;
    let customer = json!([{"id": 1, "name": "Ann", "mobile_number": "0770",
        "created_at": "2026-01-02T10:00:00Z"}]);
    pages.show("customers", customer.to_string());
    // The repair of this payment is not shown yet. When it is, it says that nothing was paid.
    let payment = |id: u32, job: &str, amount: u32| json!({"id": id, "job_number": job, "amount": amount, "created_at": "2026-01-02T10:00:00Z"});
    let payments = json!([payment(2, "J-900", 100), payment(1, "J-61", 4)]);
    pages.show("payments", payments.to_string());
    let mut repairs = vec![repair(800, 900, 0, "Cancelled by customer")];
    // More than the page lists, of which it adds up all.
    for id in (1..=61).rev() {
        repairs.push(repair(id, 10, 4, "Delivered"));
    }
    pages.show("jobs", json!(repairs).to_string());
    let place = pages.place();
    place.configure(&[LISTEN, SHOWN].concat());
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let path = "/record?route=customers&id=1";
    let says = |said: &'static str| move |reply: &Reply| reply.body.contains(said);
    let exact = "Paid <strong>244.00</strong>, owed <strong>366.00</strong>";
    site.get_when(path, "what is paid and owed", says(exact))
        .await;

    pages.polled("payments").await;
    repairs.insert(0, repair(900, 100, 0, "Delivered"));
    pages.show("jobs", json!(repairs).to_string());
    let range = "Paid <strong>244.00 to 344.00</strong>, owed <strong>366.00 to 466.00</strong>";
    site.get_when(path, "what may be owed", says(range)).await;

    let unpriced = repair(901, 0, 0, "Delivered")
        .as_object_mut()
        .map(|repair| {
            repair.remove("total_amount");
            Value::from(repair.clone())
        });
    repairs.insert(0, unpriced.unwrap());
    pages.show("jobs", json!(repairs).to_string());
    let more = "Paid <strong>244.00 to 344.00</strong>, owed <strong>≥ 366.00</strong>";
    let page = site
        .get_when(path, "that more may be owed", says(more))
        .await;
    let note = "Of 1 repair it is not known what it costs.";
    assert!(page.body.contains(note), "{page:?}");
    daemon.stop().await;

    let gone = "UPDATE jobs SET _vanished_at = '2026-01-03T10:00:00.000000Z' WHERE id = '60'";
    place.writer().execute_batch(gone).unwrap();
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let note = "1 repair is gone from the list and counted in neither sum.";
    site.get_when(path, "which repair is left out", says(note))
        .await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_time_line_says_what_it_leaves_out_and_what_is_void() {
    let pages = Pages::start().await;
    let mut job = repair(7, 100, 40, "Received");
    pages.show("jobs", json!([job]).to_string());
    let mut changes = Vec::new();
    for id in (1..=51).rev() {
        changes.push(
            json!({"id": id, "job_number": "J-7", "status": format!("Step {id}"),
            "status_stage": "open", "created_at": format!("2026-01-02T10:00:{id:02}Z")}),
        );
    }
    pages.show("job-status-changes", json!(changes).to_string());
    let payment = |id: u32, amount: i32, status: &str| {
        json!({"id": id, "job_number": "J-7", "amount": amount, "payment_status": status,
            "created_at": "2026-01-02T10:00:00Z"})
    };
    let payments = [
        payment(3, 60, "Void"),
        payment(2, -5, "Paid"),
        payment(1, 45, "Paid"),
    ];
    pages.show("payments", json!(payments).to_string());
    let place = pages.place();
    let void = "[reports]\nvoid_statuses = [\"Void\"]\n";
    place.configure(&[LISTEN, SHOWN, void].concat());
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let path = "/record?route=jobs&id=7";
    let is_read = |reply: &Reply| reply.body.contains("Step 51") && reply.body.contains("ayment: ");
    let page = site.get_when(path, "all is read", is_read).await.body;
    for said in [
        ">Void payment: 60",
        ">Refund: -5",
        ">Payment: 45",
        "Only the newest 50 status changes are shown.",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("Only the newest 50 payments"), "{page}");
    // The name of a field may hold what turns a line around.
    job["odd\u{202e}name"] = json!("x");
    pages.show("jobs", json!([job]).to_string());
    let is_edited = |reply: &Reply| reply.body.contains(">Edited</a>");
    let page = site.get_when(path, "the edit", is_edited).await.body;
    let (_, line) = page.split_once(">Edited</a>").expect("an edit");
    let (line, _) = line.split_once("</li>").expect("its end");
    assert!(line.contains("dd") && !line.contains('\u{202e}'), "{line}");
    daemon.stop().await;
}
