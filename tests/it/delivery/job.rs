//! The job of a status change in a template: what a message "ready for pickup" needs.

use sandbox::Route;
use serde_json::json;

use crate::support::{Place, Receiver, Workspace};

const TEMPLATE: &str = r#"format = "template"
routes = ["job_status_changes"]
template = '{"text": "{{ job.customer_name }}: {{ job.current_status }}, paid {{ job.paid_total }}"}'
"#;

#[tokio::test]
async fn a_template_shows_the_job_of_a_status_change_as_it_is_now() {
    let (hook, workspace) = (Receiver::start().await, Workspace::start().await);
    let place = workspace.place();
    let chat = Place::webhook_sink("chat", &hook.url("/"), TEMPLATE);
    // Each job is in the mirror before what belongs to it.
    place.configure(&chat);
    workspace.add(
        Route::Jobs,
        json!({"job_number": "JOB-77777", "customer_name": "Ann", "paid_amount": 5}),
    );
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let change =
        json!({"job_number": "JOB-77777", "status": "Ready for pickup", "status_stage": "open"});
    workspace.add(Route::JobStatusChanges, change);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let texts: Vec<String> = hook.received().into_iter().map(|sent| sent.body).collect();
    assert_eq!(texts, [r#"{"text": "Ann: Ready for pickup, paid 5.0"}"#]);

    let status = place.run(["status", "--json"]).await.json();
    let link =
        json!({"route": "job_status_changes", "field": "job_number", "job_field": "job_number"});
    assert_eq!(status["job_links"][0], link, "{status}");
    // A field of payments alone, with the id as a number.
    let job = json!({"job_number": "JOB-88888", "paid_amount": null});
    let id: i64 = workspace.add(Route::Jobs, job).parse().unwrap();
    assert_eq!(place.run(["once"]).await.code, Some(0));
    workspace.add(
        Route::Payments,
        json!({"job_id": id, "job_number": null, "amount": 12.5}),
    );
    place.configure(&format!("[reports]\njob_link = \"job_id\"\n{chat}"));
    for _ in 0..2 {
        assert_eq!(place.run(["once"]).await.code, Some(0));
    }
    let status = place.run(["status", "--json"]).await.json();
    let by_id = json!({"route": "payments", "field": "job_id", "job_field": "id"});
    assert_eq!(status["job_links"], json!([link, by_id]), "{status}");
    let paid = place.rows(
        "SELECT job_id, paid_total FROM report_payments p JOIN report_jobs j ON j.id = p.job_id",
    );
    assert_eq!(paid, [json!([id, 12.5])]);

    place.configure(&format!("[reports]\njob_link = \"comment\"\n{chat}"));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let checked = place.run(["check"]).await;
    assert_eq!(checked.code, Some(78), "{checked:?}");
    assert!(
        checked
            .out
            .contains("`comment`, which [reports] job_link names, holds no number"),
        "{checked:?}"
    );
    let status = place.run(["status", "--json"]).await.json();
    assert_eq!(
        status["unlinked_routes"],
        json!(["job_status_changes"]),
        "{status}"
    );
    let state = place.rows("SELECT state_source FROM report_jobs GROUP BY 1");
    assert_eq!(state, [json!(["job"])], "states are as last seen");
}

#[tokio::test]
async fn the_paid_sum_of_a_job_says_in_an_event_that_it_is_a_range() {
    let (hook, workspace) = (Receiver::start().await, Workspace::start().await);
    let place = workspace.place();
    let template = TEMPLATE.replace(
        "{{ job.paid_total }}",
        "{{ job.paid_total }} {{ job.paid_total_mark }} {{ job.paid_total_max }}",
    );
    place.configure(&Place::webhook_sink("chat", &hook.url("/"), &template));
    let job = json!({"job_number": "JOB-77777", "customer_name": "Ann", "paid_amount": 5});
    let id = workspace.add(Route::Jobs, job);
    for amount in [5.0, 9.0] {
        workspace.add(
            Route::Payments,
            json!({"job_number": "JOB-77777", "job_id": id, "amount": amount}),
        );
    }
    assert_eq!(place.run(["once"]).await.code, Some(0));
    // The job is seen after its payments, and denies one of them.
    workspace.edit(Route::Jobs, &id, json!({"comment": "called"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let change =
        json!({"job_number": "JOB-77777", "status": "Ready for pickup", "status_stage": "open"});
    workspace.add(Route::JobStatusChanges, change);
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let texts: Vec<String> = hook.received().into_iter().map(|sent| sent.body).collect();
    let text = r#"{"text": "Ann: Ready for pickup, paid 5.0 between 14.0"}"#;
    assert_eq!(texts, [text]);
}
