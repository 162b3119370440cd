//! `custom-fields`: lists the custom fields of the workspace's forms.

use std::process::ExitCode;

use serde_json::Value;

use super::direct::{DirectClient, ask_daemon, result_of};
use super::output::{self, cell};
use super::runtime;
use crate::config::Config;
use crate::control::ControlRequest;
use crate::store::{FormChange, Reader, Store};

pub(super) fn run(config: &Config, refresh: bool, json: bool) -> anyhow::Result<ExitCode> {
    if refresh {
        let changes = runtime()?.block_on(async {
            match ask_daemon(config, &ControlRequest::CustomFields).await? {
                Some(reply) => result_of(reply),
                None => refresh_directly(config).await,
            }
        })?;
        if !json {
            for FormChange { form_type, what } in &changes {
                output::text(&format!("{what}: {}\n", cell(form_type, 80)))?;
            }
        }
    }
    let forms = Reader::open(&config.store.path)?.forms()?;
    if json {
        return output::json(&forms);
    }
    let mut rows = Vec::new();
    for form in &forms {
        let fields: Vec<Value> = serde_json::from_str(form.fields.get())?;
        for field in &fields {
            rows.push(vec![
                cell(&form.form_type, 32),
                cell(&members(field), 160),
                form.changed_at.clone(),
            ]);
        }
    }
    let empty = "no custom fields are mirrored yet; the daemon reads them once a day, --refresh reads them now";
    output::table(&["form", "field", "changed"], rows, empty)
}

/// A definition as text. The contract does not name its members.
fn members(field: &Value) -> String {
    let Value::Object(members) = field else { return field.to_string() };
    let shown: Vec<String> = members
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {other}"),
        })
        .collect();
    shown.join(", ")
}

async fn refresh_directly(config: &Config) -> anyhow::Result<Vec<FormChange>> {
    let mut client = DirectClient::new(config)?;
    let store = Store::open(&config.store.path)?;
    let at = jiff::Timestamp::now();
    let forms = client.request(async |client| client.form_types(None).await).await?;
    let mut changes = Vec::new();
    for form_type in &forms {
        let fields =
            client.request(async |client| client.custom_fields(form_type, None).await).await?;
        let definition = fields.join(",");
        changes.extend(store.store_form(form_type.clone(), format!("[{definition}]"), at).await?);
    }
    changes.extend(store.keep_forms(forms, at).await?);
    store.close().await?;
    Ok(changes)
}
