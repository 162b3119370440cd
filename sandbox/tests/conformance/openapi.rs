//! The OpenAPI document against the router: what is documented is served, and nothing else.

use axum::http::Method;
use serde_json::{Value, json};

use super::Desk;

const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "options", "trace"];

async fn document(desk: &Desk) -> Value {
    let answer = desk
        .portal(Method::GET, "/openapi.json", &Value::Null)
        .await;
    assert_eq!(answer.status, 200);
    answer.json
}

/// The contract's endpoint summary, written a second time by hand.
const SUMMARY: [(&str, &str); 17] = [
    ("get", "/integrations/ping"),
    ("get", "/integrations/custom-fields"),
    ("post", "/integrations/leads"),
    ("post", "/integrations/self-checkin"),
    ("post", "/integrations/submit"),
    ("post", "/integrations/ingest/{adapter}"),
    ("post", "/integrations/ingest/marketplace_b2b/{key}"),
    ("get", "/integrations/ingest/listing_directory/{key}"),
    ("post", "/integrations/ingest/listing_directory/{key}"),
    ("get", "/automation/ping"),
    ("get", "/automation/triggers/jobs"),
    ("get", "/automation/triggers/customers"),
    ("get", "/automation/triggers/leads"),
    ("get", "/automation/triggers/payments"),
    ("get", "/automation/triggers/job-status-changes"),
    ("get", "/automation/triggers/outsourced-jobs"),
    ("get", "/automation/search/customers"),
];

#[tokio::test]
async fn the_document_holds_exactly_the_contract_s_summary() {
    let desk = Desk::new();
    let document = document(&desk).await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut documented = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            documented.push((method.clone(), path.clone()));
        }
    }
    documented.sort();
    let mut summary: Vec<(String, String)> = SUMMARY
        .iter()
        .map(|(method, path)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    summary.sort();
    assert_eq!(documented, summary);
}

#[tokio::test]
async fn every_documented_operation_is_served_and_every_other_method_refused() {
    let desk = Desk::new();
    let (key, _) = desk.key("listing_directory").await;
    let (pushing, _) = desk.key("marketplace_b2b").await;
    let document = document(&desk).await;
    for (path, documented) in document["paths"].as_object().unwrap() {
        let own = if path.contains("marketplace") {
            &pushing
        } else {
            &key
        };
        let asked = path.replace("{key}", own).replace("{adapter}", "form");
        for method in METHODS {
            let headers = [("x-api-key", desk.automation.as_str())];
            let name: Method = method.to_uppercase().parse().unwrap();
            let answer = desk.ask(name, &asked, &headers, "").await;
            match documented.get(method) {
                None => assert_eq!(answer.status, 405, "{method} {path}"),
                Some(operation) => {
                    assert!(![404, 405].contains(&answer.status), "{method} {path}");
                    let status = answer.status.to_string();
                    assert!(
                        operation["responses"].get(&status).is_some(),
                        "{method} {path}: {status}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn the_limits_of_the_tables_stand_in_the_document() {
    let desk = Desk::new();
    let document = document(&desk).await;
    let body = |path: &str| {
        let body = &document["paths"][path]["post"]["requestBody"]["content"];
        let reference = body["application/json"]["schema"]["$ref"].as_str().unwrap();
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        document["components"]["schemas"][name]["properties"].clone()
    };
    let lead = body("/integrations/leads");
    assert_eq!(lead["name"]["minLength"], 1);
    assert_eq!(lead["name"]["maxLength"], 60);
    assert_eq!(lead["address"]["properties"]["zip_code"]["maxLength"], 20);
    assert_eq!(
        lead["custom_fields"]["additionalProperties"]["maxLength"],
        1000
    );
    assert_eq!(lead.as_object().unwrap().len(), 16);
    let checkin = body("/integrations/self-checkin");
    assert_eq!(checkin["serial_number_2"]["maxLength"], 191);
    assert_eq!(checkin.as_object().unwrap().len(), 19);
    let enumerated = &document["paths"]["/integrations/ingest/{adapter}"]["post"]["parameters"];
    let adapter = enumerated
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "adapter");
    assert_eq!(
        adapter.unwrap()["schema"]["enum"].as_array().unwrap().len(),
        5
    );
    assert_eq!(document["servers"], json!([{"url": "/api"}]));
}

#[tokio::test]
async fn the_document_in_docs_is_the_one_that_is_served() {
    let served = serde_json::to_string_pretty(&document(&Desk::new()).await).unwrap() + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    if std::env::var_os("REWRITE_EXPECTED").is_some() {
        std::fs::write(file, &served).unwrap();
    }
    assert!(
        std::fs::read_to_string(file).is_ok_and(|published| published == served),
        "run REWRITE_EXPECTED=1 cargo test -p shopmirror-sandbox openapi, and read the diff"
    );
}
