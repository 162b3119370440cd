//! `custom-fields`: lists the custom fields of the workspace's forms.

use std::process::ExitCode;

use serde_json::Value;

use clap_complete::ArgValueCandidates;

use super::completions;
use super::direct::{DirectClient, ask_daemon, result_of};
use super::moment;
use super::output::{self, cell};
use super::runtime;
use crate::config::Config;
use crate::control::ControlRequest;
use crate::store::{FormChange, Reader, Store};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Read them from the workspace first; costs one request, and one per form
    #[arg(long)]
    refresh: bool,
    /// Read and list this business only
    #[arg(long, value_name = "ID", add = ArgValueCandidates::new(completions::businesses))]
    business: Option<String>,
    #[command(flatten)]
    json: super::Json,
}

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let Args { refresh, business, json } = args;
    let json = json.json;
    if refresh {
        let request = ControlRequest::CustomFields { business: business.clone() };
        let changes = runtime()?.block_on(async {
            match ask_daemon(config, &request).await? {
                Some(reply) => result_of(reply),
                None => refresh_directly(config, business.clone()).await,
            }
        })?;
        if !json {
            for FormChange { form_type, what, .. } in &changes {
                output::text(&format!("{what}: {}\n", cell(form_type, 80)))?;
            }
        }
    }
    let mut forms = Reader::open(&config.store.path)?.forms()?;
    forms.retain(|form| business.is_none() || form.business == business);
    if json {
        return output::json(&forms);
    }
    let mut rows = Vec::new();
    for form in &forms {
        let fields: Vec<Value> = serde_json::from_str(form.fields.get())?;
        for field in &fields {
            rows.push(vec![
                cell(&form.form_type, 32),
                cell(form.business.as_deref().unwrap_or("default"), 16),
                cell(&members(field), 160),
                moment::shown(&form.changed_at),
            ]);
        }
    }
    let empty = "no custom fields are mirrored yet; the daemon reads them once a day, --refresh reads them now";
    output::table(&["form", "business", "field", "changed"], &rows, empty)
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

async fn refresh_directly(
    config: &Config,
    business: Option<String>,
) -> anyhow::Result<Vec<FormChange>> {
    let mut client = DirectClient::new(config)?;
    let store = Store::open(&config.store.path)?;
    client.confirm(&store).await?;
    let at = jiff::Timestamp::now();
    let businesses =
        business.map_or_else(|| config.workspace.polled_businesses(), |id| vec![Some(id)]);
    let mut changes = Vec::new();
    for business in businesses {
        let id = business.as_deref();
        let forms = client.request(async |client| client.form_types(id).await).await?;
        for form_type in &forms {
            let fields =
                client.request(async |client| client.custom_fields(form_type, id).await).await?;
            let definition = format!("[{}]", fields.join(","));
            let form_type = form_type.clone();
            changes.extend(store.store_form(form_type, business.clone(), definition, at).await?);
        }
        changes.extend(store.keep_forms(business, forms, at).await?);
    }
    store.close().await?;
    Ok(changes)
}
