//! What of the configuration and of a status tells nothing about people and opens nothing. Pure.
//!
//! A text stays only under a key that is known to be harmless: a key that is added later is hidden
//! until it stands here.

use serde_json::Value as Json;
use toml::Value as Toml;

/// What stands in place of a text.
const HIDDEN: &str = "[hidden]";

/// The keys of the configuration whose texts stay.
const KEPT_KEYS: &[&str] = &[
    "at",
    "auth",
    "by",
    "changes",
    "currency",
    "days",
    "every",
    "folder",
    "format",
    "job_link",
    "linger",
    "listen",
    "log_retention",
    "max_interval",
    "min_interval",
    "path",
    "period",
    "region",
    "report",
    "routes",
    "schema",
    "sink",
    "sinks",
    "start",
    "stream",
    "time_zone",
    "timeout",
    "tls",
    "type",
    "decimal_separator",
];

/// The tables whose keys are chosen by the shop: all of their texts are hidden.
const SHOPS_OWN: &[&str] = &["where", "before", "parameters", "headers", "fields"];

/// The keys of a status that say what others have said, or hold a value of a record.
const STRIPPED_KEYS: &[&str] = &["example", "workspace", "note", "by", "last_object"];

/// The configuration with every text hidden that is not known to be harmless.
///
/// # Errors
/// If it is no TOML; the error repeats no text of it.
pub(super) fn configuration(text: &str) -> anyhow::Result<String> {
    let Ok(mut document) = text.parse::<toml::Table>() else {
        anyhow::bail!("the configuration cannot be read as TOML: run `shopmirror check`");
    };
    for (key, value) in document.iter_mut() {
        hide(key, value);
    }
    Ok(document.to_string())
}

fn hide(key: &str, value: &mut Toml) {
    match value {
        Toml::Table(table) => {
            for (inner, value) in table.iter_mut() {
                // What stands in such a table is of the shop's choice, whatever its key.
                let key = if SHOPS_OWN.contains(&key) { key } else { inner };
                hide(key, value);
            }
        }
        Toml::Array(values) => {
            for value in values {
                hide(key, value);
            }
        }
        Toml::String(text) if !KEPT_KEYS.contains(&key) => *text = HIDDEN.to_owned(),
        _ => {}
    }
}

/// Takes out of a status what others have said, and values of records.
pub(super) fn strip(value: &mut Json) {
    match value {
        Json::Object(fields) => {
            fields.retain(|key, _| {
                !key.ends_with("quotation") && !STRIPPED_KEYS.contains(&key.as_str())
            });
            for value in fields.values_mut() {
                strip(value);
            }
        }
        Json::Array(values) => {
            for value in values {
                strip(value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_configuration_stays_only_under_a_harmless_key() {
        let text = "
            [workspace]
            base_url = 'https://canary.example.com/api'
            api_key = 'CANARY'
            [sinks.erp]
            type = 'webhook'
            url = 'https://canary.example.com/CANARY'
            headers = { Authorization = 'CANARY' }
            routes = ['jobs']
            where = { type = 'CANARY', before = { path = ['CANARY'] } }
            [sinks.desk]
            type = 'email'
            to = ['canary@example.com']
            path = 'desk.ndjson'
            a_new_key = ['CANARY']
            [reports.schedule.desk]
            only_if = 'customer = CANARY'
            [budget]
            reserve = 15
        ";
        let shown = configuration(text).unwrap();
        assert!(!shown.to_lowercase().contains("canary"), "{shown}");
        for kept in ["webhook", "jobs", "desk.ndjson", "15"] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
        let error = configuration("key = CANARY").unwrap_err().to_string();
        assert!(!error.contains("CANARY"), "{error}");
    }

    #[test]
    fn a_status_loses_what_others_have_said() {
        let mut status = serde_json::json!({
            "health": "ok", "workspace": "Canary", "paused_quotation": "canary",
            "fields": [{"field": "amount", "example": "canary"}],
        });
        strip(&mut status);
        assert_eq!(
            status,
            serde_json::json!({"health": "ok", "fields": [{"field": "amount"}]})
        );
    }
}
