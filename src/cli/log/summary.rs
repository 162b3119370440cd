//! `log --summary`: how many records appeared and changed, by route, field and new value.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;

use super::{Filter, LOG_STEP};
use crate::cli::output::{self, cell};
use crate::record::Kind;
use crate::store::Reader;

/// The most different values of one field; further ones are counted together.
const VALUES_MAX: usize = 20;
/// The longest value, in characters.
const VALUE_LEN: usize = 60;
/// What further values are counted as.
const OTHERS: &str = "(other values)";

/// What changed in a route.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct RouteSummary {
    /// Records that were there when their route was first read.
    baseline: u64,
    /// New records.
    created: u64,
    /// Changes of records.
    updated: u64,
    /// Records whose data was removed by `forget`.
    forgotten: u64,
    /// Intervals in which records may have been missed.
    gaps: u64,
    /// How often each field got each new value; rare values are counted as `(other values)`.
    fields: BTreeMap<String, BTreeMap<String, u64>>,
}

pub(super) fn run(reader: &Reader, filter: &Filter, json: bool) -> anyhow::Result<ExitCode> {
    let mut position = match (filter.after, &filter.since) {
        (Some(after), _) => after,
        (None, Some(since)) => reader.position_at(since)?,
        (None, None) => 0,
    };
    let mut routes: BTreeMap<String, RouteSummary> = BTreeMap::new();
    loop {
        let step = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = step.last() else { break };
        position = last.seq;
        for change in step.iter().filter(|change| filter.wants(change)) {
            let route = routes.entry(change.route.to_string()).or_default();
            match change.kind {
                Kind::Baseline => route.baseline += 1,
                Kind::Created => route.created += 1,
                Kind::Forgotten => route.forgotten += 1,
                Kind::Gap => route.gaps += 1,
                // They are in no log.
                Kind::Alert | Kind::Report => {}
                Kind::Updated => {
                    route.updated += 1;
                    for field in change.changed() {
                        let values = route.fields.entry(field.name).or_default();
                        let value = field.after.unwrap_or("(absent)").to_owned();
                        let is_known = values.contains_key(&value);
                        let value = if is_known || values.len() < VALUES_MAX {
                            value
                        } else {
                            OTHERS.to_owned()
                        };
                        *values.entry(value).or_default() += 1;
                    }
                }
            }
        }
        if filter.until.as_ref().is_some_and(|until| last.observed_at > *until) {
            break;
        }
    }
    if json {
        return output::json(&routes);
    }
    let mut rows = Vec::new();
    for (name, route) in &routes {
        let kinds = [
            ("baseline", route.baseline),
            ("created", route.created),
            ("updated", route.updated),
            ("forgotten", route.forgotten),
            ("gap", route.gaps),
        ];
        for (kind, count) in kinds.into_iter().filter(|(_, count)| *count > 0) {
            rows.push(vec![name.clone(), kind.to_owned(), String::new(), count.to_string()]);
        }
        for (field, values) in &route.fields {
            let mut values: Vec<_> = values.iter().collect();
            values.sort_by_key(|(value, count)| (std::cmp::Reverse(**count), (*value).clone()));
            for (value, count) in values {
                rows.push(vec![
                    name.clone(),
                    cell(field, 40),
                    cell(value, VALUE_LEN),
                    count.to_string(),
                ]);
            }
        }
    }
    output::table(&["route", "change", "new value", "count"], &rows, "no changes match")
}
