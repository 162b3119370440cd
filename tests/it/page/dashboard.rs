//! The dashboard for Grafana names only metrics that the page serves.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{LISTEN, Site};
use crate::support::{Pages, Place};

#[tokio::test]
async fn every_metric_of_the_dashboard_is_served() {
    let pages = Pages::start().await;
    let place = pages.place();
    place.configure(&format!("{LISTEN}{}", Place::file_sink("audit", "")));
    let _daemon = place.daemon();
    let site = Site::of(&place).await;
    let text = site.get("/metrics").await.body;
    let served: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/grafana-dashboard.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut named = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let words =
                target["expr"].as_str().unwrap().split(|c: char| !c.is_alphanumeric() && c != '_');
            named.extend(words.filter(|word| word.starts_with("shopmirror_")));
        }
    }
    let missing: Vec<_> = named.difference(&served).collect();
    assert!(missing.is_empty() && named.len() > 10, "{missing:?} of {served:?}");
}
