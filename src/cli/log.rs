//! `log`: lists changes, the latest last, and follows new ones.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value};
use shopmirror_core::record::{Change, Kind, Route};

use super::exit::{TRY_AGAIN, refuse};
use super::moment::{self, Place};
use super::output::{self, Output, cell};
use super::record_line::title;
use crate::config::Config;
use crate::store::Reader;

/// How often `--follow` checks for new changes.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// Changes that are listed unless `--limit` is given.
const LISTED: usize = 50;
/// Rows of the log read at once.
const LOG_STEP: usize = 500;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Continue with new changes until interrupted; with --json, one object per line
    #[arg(long, short)]
    follow: bool,
    /// Begin with this change, or at this time: an age such as 2h or 3d, or a time such as
    /// 2026-03-01T08:00:00Z
    #[arg(long, value_name = "SEQ|TIME", value_parser = moment::place)]
    since: Option<Place>,
    /// Only changes of this route
    #[arg(long, value_parser = super::route())]
    route: Option<Route>,
    /// Only changes of this kind
    #[arg(long, value_parser = super::kind())]
    kind: Option<Kind>,
    /// At most this many, the latest [default: 50]
    #[arg(long)]
    limit: Option<u32>,
}

impl Args {
    fn wants(&self, change: &Change) -> bool {
        self.route.is_none_or(|route| route == change.route)
            && self.kind.is_none_or(|kind| kind == change.kind)
    }
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let store = &config.store.path;
    let opened = file_at(store);
    let reader = Reader::open(store)?;
    let last = reader.last_seq()?;
    let (changes, is_cut) = latest(&reader, args, last)?;
    if is_cut && args.limit.is_none() {
        output::print_note(&format!(
            "only the last {LISTED} changes are listed: give --limit for more"
        ));
    }
    if out.json && !args.follow {
        return output::json(&changes);
    }
    if changes.is_empty() && !args.follow {
        output::text("the log holds no such change\n")?;
    }
    print(&changes, out)?;
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    let is_replaced = || file_at(store) != opened;
    let position = follow(&reader, last, args, out, is_replaced)?;
    refuse(
        TRY_AGAIN,
        format!(
            "{} was replaced or moved away, for example by `shopmirror restore`: start `log \
             --follow` again; new changes may have numbers below {position}",
            store.display()
        ),
    )
}

/// Prints a line for each change.
pub(super) fn print(changes: &[Change], out: Output) -> anyhow::Result<()> {
    for change in changes {
        if out.json {
            output::text(&format!("{}\n", change.data_json()))?;
        } else {
            output::text(&out.fitted(&line(change)))?;
        }
    }
    Ok(())
}

/// The device and the number of the file at `path`.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Prints each wanted change after `position`, until the store is replaced; returns the last row
/// that was read.
fn follow(
    reader: &Reader,
    mut position: i64,
    args: &Args,
    out: Output,
    is_replaced: impl Fn() -> bool,
) -> anyhow::Result<i64> {
    loop {
        let mut changes = reader.changes_after(position, LOG_STEP)?;
        match changes.last() {
            Some(last) => position = last.seq,
            None if is_replaced() => return Ok(position),
            None => std::thread::sleep(FOLLOW_EVERY),
        }
        changes.retain(|change| args.wants(change));
        print(&changes, out)?;
    }
}

/// The latest changes up to `last`, oldest first, and whether more match than the limit allows.
fn latest(reader: &Reader, args: &Args, last: i64) -> anyhow::Result<(Vec<Change>, bool)> {
    let limit = match args.limit {
        Some(limit) => limit as usize,
        None => LISTED,
    };
    let step = i64::try_from(LOG_STEP).expect("a small number");
    let begin = match args.since {
        Some(since) => since.before(reader)?,
        None => 0,
    };
    let mut changes = Vec::new();
    let mut upper = last;
    while changes.len() <= limit && upper > begin {
        let lower = (upper - step).max(begin);
        let mut chunk = reader.changes_after(lower, LOG_STEP)?;
        chunk.retain(|change| change.seq <= upper && args.wants(change));
        upper = lower;
        chunk.append(&mut changes);
        changes = chunk;
    }
    let too_many = changes.len().saturating_sub(limit);
    changes.drain(..too_many);
    Ok((changes, too_many > 0))
}

/// One change on one line.
pub(super) fn line(change: &Change) -> String {
    let id = change.record_id.as_deref().unwrap_or("");
    let what = match change.kind {
        Kind::Updated => differences(change),
        Kind::Gap => missed(&change.body),
        Kind::Forgotten => "the data of this record was removed".to_owned(),
        Kind::Vanished => format!("{}, gone from the list", title(&change.body)),
        Kind::Baseline | Kind::Created | Kind::Alert | Kind::Report => title(&change.body),
    };
    let at = moment::shown(&change.observed_at);
    format!(
        "{:>7}  {at}  {:<20} {:<6} {what}\n",
        change.seq,
        change.event_type(),
        cell(id, 20)
    )
}

/// The fields that changed, with both values.
fn differences(change: &Change) -> String {
    let mut fields = Vec::new();
    for field in change.changed() {
        let name = cell(&field.name, 40);
        let before = side(field.before);
        let after = side(field.after);
        fields.push(format!("{name}: {before} -> {after}"));
    }
    fields.join(", ")
}

/// The value of a field before or after a change.
fn side(json: Option<&str>) -> String {
    match json {
        Some(json) => cell(json, 80),
        None => "(absent)".to_owned(),
    }
}

/// A gap in words.
fn missed(body: &str) -> String {
    let gap: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let from = gap_time(&gap, "from_at");
    let to = gap_time(&gap, "to_at");
    let count = match gap.get("estimate") {
        None | Some(Value::Null) => String::new(),
        Some(estimate) => format!("about {estimate} "),
    };
    let text = format!(
        "{count}records may have been missed between {from} and {to}; see `shopmirror gaps`"
    );
    cell(&text, 160)
}

fn gap_time(gap: &Map<String, Value>, name: &str) -> String {
    match gap.get(name) {
        Some(Value::String(stamp)) => moment::shown(stamp),
        _ => String::new(),
    }
}
