//! The automation-read routes and both pings.

use axum::http::Method;
use sandbox::{Route, Shop};
use serde_json::{Value, json};

use super::{Desk, LEADS, ada, with};

async fn page(desk: &Desk, path: &str) -> Vec<Value> {
    let answer = desk.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.json);
    answer.json.as_array().expect("a bare array").clone()
}

async fn rows(desk: &Desk, route: &str, query: &str) -> usize {
    page(desk, &format!("/automation/triggers/{route}{query}"))
        .await
        .len()
}

macro_rules! triggers {
    ($($test:ident: $route:expr;)*) => {
        $(#[tokio::test]
        async fn $test() {
            let desk = Desk::new();
            desk.sandbox.burst($route, 130);
            let path = format!("/automation/triggers/{}", $route.segment());
            let ids: Vec<u64> = page(&desk, &path).await.iter()
                .map(|record| record["id"].as_u64().unwrap()).collect();
            assert_eq!(ids.len(), 50, "the default limit");
            assert!(ids.is_sorted_by(|newer, older| newer > older), "newest first");
            assert_eq!(rows(&desk, $route.segment(), "?limit=7").await, 7);
            assert_eq!(rows(&desk, $route.segment(), "?limit=100").await, 100);
        })*
    };
}

triggers! {
    recent_repairs_are_a_bare_array_newest_first_capped_by_limit: Route::Jobs;
    recent_customers_are_a_bare_array_newest_first_capped_by_limit: Route::Customers;
    recent_leads_are_a_bare_array_newest_first_capped_by_limit: Route::Leads;
    recent_payments_are_a_bare_array_newest_first_capped_by_limit: Route::Payments;
    recent_status_changes_are_a_bare_array_newest_first_capped_by_limit: Route::JobStatusChanges;
    recent_outsourced_repairs_are_a_bare_array_newest_first_capped_by_limit: Route::OutsourcedJobs;
}

#[tokio::test]
async fn the_limit_is_at_most_100() {
    let desk = Desk::new();
    desk.sandbox.burst(Route::Leads, 150);
    assert_eq!(rows(&desk, "leads", "?limit=101").await, 100);
}

#[tokio::test]
async fn the_limit_is_an_integer() {
    let desk = Desk::new();
    for bad in ["ten", "1.5"] {
        let answer = desk
            .get(&format!("/automation/triggers/leads?limit={bad}"))
            .await;
        assert_eq!(answer.fields(), ["limit"]);
    }
}

#[tokio::test]
async fn an_empty_result_is_an_empty_array_and_never_null() {
    let desk = Desk::new();
    let found = desk
        .get("/automation/search/customers?search_term=nobody-of-that-name")
        .await;
    assert_eq!(found.json, json!([]));
}

#[tokio::test]
async fn a_burst_larger_than_the_limit_loses_the_oldest_records() {
    let desk = Desk::new();
    let id = desk.post(LEADS, &ada(json!({}))).await.data()["id"].clone();
    desk.sandbox.burst(Route::Leads, 100);
    let page = page(&desk, "/automation/triggers/leads?limit=100").await;
    assert!(page.iter().all(|lead| lead["id"] != id));
}

#[tokio::test]
async fn lead_records_carry_at_least_the_names_shown() {
    let desk = Desk::new();
    for lead in page(&desk, "/automation/triggers/leads").await {
        for name in ["id", "name", "status", "status_stage", "created_at"] {
            assert!(!lead[name].is_null(), "{name} of {lead}");
        }
    }
}

#[tokio::test]
async fn status_changes_carry_status_stage_who_and_comment() {
    let desk = Desk::new();
    for change in page(&desk, "/automation/triggers/job-status-changes").await {
        assert!(change["status"].is_string() && change["changed_by"].is_string());
        assert!(change.get("comment").is_some());
        assert!(["open", "completed"].contains(&change["status_stage"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn values_are_readable_labels() {
    let desk = Desk::new();
    for job in page(&desk, "/automation/triggers/jobs").await {
        for name in ["status", "status_stage", "customer_name", "device_brand"] {
            assert!(job[name].is_string(), "{name} of {job}");
        }
    }
}

#[tokio::test]
async fn amounts_are_numbers_without_a_currency() {
    let desk = Desk::new();
    for payment in page(&desk, "/automation/triggers/payments").await {
        assert!(payment["amount"].is_number());
        assert!(payment.get("currency").is_none());
    }
}

#[tokio::test]
async fn the_search_needs_a_term_of_at_most_100_characters() {
    let desk = Desk::new();
    let path = "/automation/search/customers";
    assert_eq!(desk.get(path).await.fields(), ["search_term"]);
    let of = |length| format!("{path}?search_term={}", "x".repeat(length));
    assert_eq!(desk.get(&of(101)).await.fields(), ["search_term"]);
    assert_eq!(desk.get(&of(100)).await.status, 200);
}

#[tokio::test]
async fn the_search_looks_at_name_e_mail_and_mobile_number() {
    let desk = Desk::new();
    let record = json!({"name": "Zed Quux", "email": "zq@q.example", "mobile_number": "31337"});
    let added = desk
        .portal(
            Method::POST,
            "/records",
            &json!({"route": "customers", "record": record}),
        )
        .await;
    for term in ["quux", "zq%40q", "31337"] {
        let found = page(
            &desk,
            &format!("/automation/search/customers?search_term={term}"),
        )
        .await;
        assert_eq!(found[0]["id"], added.json["id"], "{term}");
    }
}

#[tokio::test]
async fn the_search_finds_at_most_25_and_the_newest_first() {
    let desk = Desk::new();
    for nth in 0..30 {
        let record = json!({"name": format!("Quux {nth}")});
        let sent = json!({"route": "customers", "record": record});
        desk.portal(Method::POST, "/records", &sent).await;
    }
    let found = page(&desk, "/automation/search/customers?search_term=quux").await;
    assert_eq!(found.len(), 25);
    assert_eq!(found[0]["name"], "Quux 29");
}

#[tokio::test]
async fn both_pings_tell_status_workspace_and_provider() {
    let desk = Desk::new();
    for path in ["/automation/ping", "/integrations/ping"] {
        let answer = desk.get(path).await;
        assert_eq!(answer.json["status"], "connected");
        assert!(answer.json["workspace"].is_string());
        assert_eq!(answer.json["provider"], "automation");
    }
}

#[tokio::test]
async fn reading_changes_nothing() {
    let desk = Desk::new();
    let before = desk.leads();
    for path in [
        "/integrations/ping",
        "/integrations/custom-fields",
        "/automation/triggers/leads",
    ] {
        desk.get(path).await;
    }
    assert_eq!(desk.leads(), before);
}

#[tokio::test]
async fn records_show_in_the_reads_of_their_own_business() {
    let desk = Desk::of(Shop::Chain);
    let lead = desk.post(LEADS, &ada(json!({"business_id": 2}))).await;
    assert_eq!(lead.header("x-business"), "2");
    let of = async |business: &str| {
        let headers = [
            ("x-api-key", desk.automation.as_str()),
            ("x-business", business),
        ];
        let path = "/automation/triggers/leads?limit=1";
        desk.ask(Method::GET, path, &headers, "").await.json[0]["id"].clone()
    };
    assert_eq!(of("2").await, lead.data()["id"]);
    assert_ne!(of("1").await, lead.data()["id"]);
    assert_ne!(of("3").await, lead.data()["id"]);
}

#[tokio::test]
async fn the_stage_is_open_or_completed_in_every_read_that_has_one() {
    let desk = Desk::new();
    for route in ["jobs", "leads", "job-status-changes", "outsourced-jobs"] {
        for record in page(&desk, &format!("/automation/triggers/{route}?limit=100")).await {
            let stage = record["status_stage"].as_str().unwrap();
            assert!(["open", "completed"].contains(&stage), "{record}");
        }
    }
}

#[tokio::test]
async fn ids_may_become_strings_and_records_stay_the_same() {
    let desk = Desk::new();
    let key = [("idempotency-key", "k")];
    let first = desk.post_with(LEADS, &key, &ada(json!({}))).await;
    desk.portal(Method::PATCH, "/settings", &json!({"ids_as_strings": true}))
        .await;
    let again = desk.post_with(LEADS, &key, &ada(json!({}))).await;
    assert_eq!(again.data()["id"], json!(first.data()["id"].to_string()));
    let other = desk
        .post(LEADS, &json!({"name": "Bo", "email": "bo@b.example"}))
        .await;
    assert!(other.data()["id"].is_string());
    let newest = page(&desk, "/automation/triggers/leads?limit=1").await;
    assert_eq!(newest[0]["id"], other.data()["id"]);
}

#[tokio::test]
async fn a_renamed_status_keeps_its_stage() {
    let desk = Desk::new();
    let newest = page(&desk, "/automation/triggers/leads?limit=1").await[0].clone();
    let edit = json!({"route": "leads", "id": newest["id"], "fields": {"status": "Neu"}});
    desk.portal(Method::PATCH, "/records", &edit).await;
    let after = page(&desk, "/automation/triggers/leads?limit=1").await[0].clone();
    assert_eq!(after, with(newest, json!({"status": "Neu"})));
}

#[tokio::test]
async fn the_portal_may_order_lists_by_last_change() {
    let desk = Desk::new();
    let ids = async || -> Vec<u64> {
        let page = desk.get("/automation/triggers/leads?limit=3").await.json;
        page.as_array()
            .unwrap()
            .iter()
            .map(|lead| lead["id"].as_u64().unwrap())
            .collect()
    };
    let before = ids().await;
    let edit = json!({"route": "leads", "id": before[2], "fields": {"comment": "called"}});
    desk.portal(
        Method::PATCH,
        "/settings",
        &json!({"newest_by_change": true}),
    )
    .await;
    assert_eq!(ids().await, before, "an order changes with the next edit");
    desk.portal(Method::PATCH, "/records", &edit).await;
    assert_eq!(ids().await, [before[2], before[0], before[1]]);
    desk.portal(
        Method::PATCH,
        "/settings",
        &json!({"newest_by_change": false}),
    )
    .await;
    assert_eq!(ids().await, before);
}
