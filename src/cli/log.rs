//! `log`: lists changes, the latest last, and follows new ones.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value};

use super::output::{self, cell};
use crate::config::Config;
use crate::record::{Change, Kind, Route};
use crate::store::Reader;

/// How often `--follow` looks for new changes.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// Rows of the log read at once.
const LOG_STEP: usize = 500;

/// The changes that `log` prints.
pub(super) struct LogFilter {
    pub(super) after: Option<i64>,
    pub(super) route: Option<Route>,
    pub(super) kind: Option<Kind>,
    pub(super) limit: usize,
}

impl LogFilter {
    fn wants(&self, change: &Change) -> bool {
        self.route.is_none_or(|route| route == change.route)
            && self.kind.is_none_or(|kind| kind == change.kind)
    }
}

pub(super) fn run(
    config: &Config,
    filter: &LogFilter,
    follow: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let (mut found, mut position) = match filter.after {
        Some(after) => first_after(&reader, filter, after)?,
        None => latest(&reader, filter)?,
    };
    if !follow {
        if json {
            return output::json(&found);
        }
        let lines: String = found.iter().map(line).collect();
        let none = match filter {
            LogFilter { after: None, route: None, kind: None, .. } if position == 0 => {
                "nothing has changed yet\n"
            }
            _ => "no changes match\n",
        };
        output::text(if lines.is_empty() { none } else { &lines })?;
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        for change in found.drain(..) {
            output::text(&if json { format!("{}\n", change.data_json()) } else { line(&change) })?;
        }
        let more = reader.changes_after(position, LOG_STEP)?;
        match more.last() {
            Some(last) => position = last.seq,
            None => std::thread::sleep(FOLLOW_EVERY),
        }
        found = more.into_iter().filter(|change| filter.wants(change)).collect();
    }
}

/// The first changes after a number, and the position to continue from.
fn first_after(
    reader: &Reader,
    filter: &LogFilter,
    after: i64,
) -> anyhow::Result<(Vec<Change>, i64)> {
    let (mut found, mut position) = (Vec::new(), after);
    while found.len() < filter.limit {
        let step = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = step.last() else { break };
        position = last.seq;
        found.extend(step.into_iter().filter(|change| filter.wants(change)));
    }
    if found.len() > filter.limit {
        found.truncate(filter.limit);
        position = found.last().map_or(after, |change| change.seq);
    }
    Ok((found, position))
}

/// The latest changes, oldest first, and the position to continue from.
fn latest(reader: &Reader, filter: &LogFilter) -> anyhow::Result<(Vec<Change>, i64)> {
    let last = reader.last_seq()?;
    let step = i64::try_from(LOG_STEP).expect("a small number");
    let (mut found, mut upper) = (Vec::new(), last);
    while found.len() < filter.limit && upper > 0 {
        let lower = (upper - step).max(0);
        let mut chunk = reader.changes_after(lower, LOG_STEP)?;
        chunk.retain(|change| change.seq <= upper && filter.wants(change));
        chunk.append(&mut found);
        found = chunk;
        upper = lower;
    }
    found.drain(..found.len().saturating_sub(filter.limit));
    Ok((found, last))
}

/// One change on one line.
pub(super) fn line(change: &Change) -> String {
    let id = change.record_id.as_deref().unwrap_or("");
    let what = match change.kind {
        Kind::Updated => {
            let fields: Vec<String> = change
                .changed()
                .iter()
                .map(|field| {
                    let side = |value: Option<&str>| {
                        value.map_or_else(|| "(absent)".to_owned(), |v| cell(v, 24))
                    };
                    format!(
                        "{}: {} -> {}",
                        cell(&field.name, 24),
                        side(field.before),
                        side(field.after)
                    )
                })
                .collect();
            cell(&fields.join(", "), 100)
        }
        Kind::Gap => missed(&change.body),
        Kind::Forgotten => "the data of this record was removed".to_owned(),
        Kind::Baseline | Kind::Created => title(&change.body),
    };
    let at = to_the_second(&change.observed_at);
    format!("{:>7}  {at}  {:<26} {:<10} {what}\n", change.seq, change.event_type(), cell(id, 20))
}

/// A time as the store writes it, without the fraction.
fn to_the_second(at: &str) -> String {
    at.get(..19).map_or_else(|| at.to_owned(), |seconds| format!("{seconds}Z"))
}

/// A gap in words.
fn missed(body: &str) -> String {
    let gap: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let at = |name| gap.get(name).and_then(Value::as_str).map(to_the_second).unwrap_or_default();
    let count = gap.get("estimate").filter(|estimate| !estimate.is_null());
    let count = count.map_or_else(String::new, |estimate| format!("about {estimate} "));
    let between = format!("between {} and {}", at("from_at"), at("to_at"));
    cell(&format!("{count}records may have been missed {between}; see `shopmirror gaps`"), 160)
}

/// The fields by which a person recognises a record.
fn title(body: &str) -> String {
    let record: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let words: Vec<String> =
        ["name", "customer_name", "device_brand", "device_model", "status", "amount"]
            .into_iter()
            .filter_map(|name| match record.get(name)? {
                Value::String(text) if !text.is_empty() => Some(cell(text, 32)),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
            .collect();
    words.join(" · ")
}
