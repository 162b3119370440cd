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

/// How often `--follow` looks for new changes.
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
    /// Only changes of this kind: baseline, created, updated, gap or forgotten
    #[arg(long)]
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
    let (found, is_cut) = latest(&reader, args, last)?;
    if is_cut && args.limit.is_none() {
        output::aside(&format!(
            "only the last {LISTED} changes are listed: give --limit for more"
        ));
    }
    if out.json && !args.follow {
        return output::json(&found);
    }
    if found.is_empty() && !args.follow {
        output::text("the log holds no such change\n")?;
    }
    print(&found, out)?;
    if args.follow {
        let wants = |change: &Change| args.wants(change);
        let position = follow(&reader, last, wants, out, || file_at(store) != opened)?;
        return refuse(
            TRY_AGAIN,
            format!(
                "{} was replaced or moved away, for example by `shopmirror restore`: start `log --follow` \
             again; new changes may have numbers below {position}",
                store.display()
            ),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each change.
pub(super) fn print(changes: &[Change], out: Output) -> anyhow::Result<()> {
    for change in changes {
        output::text(&match out.json {
            true => format!("{}\n", change.data_json()),
            false => out.fitted(&line(change)),
        })?;
    }
    Ok(())
}

/// The device and the number of the file at `path`.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path)
        .ok()
        .map(|file| (file.dev(), file.ino()))
}

/// Prints each wanted change after `position`, until it is over; returns the last one that was
/// read.
fn follow(
    reader: &Reader,
    mut position: i64,
    wants: impl Fn(&Change) -> bool,
    out: Output,
    is_over: impl Fn() -> bool,
) -> anyhow::Result<i64> {
    loop {
        let mut found = reader.changes_after(position, LOG_STEP)?;
        match found.last() {
            Some(last) => position = last.seq,
            None if is_over() => return Ok(position),
            None => std::thread::sleep(FOLLOW_EVERY),
        }
        found.retain(&wants);
        print(&found, out)?;
    }
}

/// The latest changes up to `last`, oldest first, and whether more match than the limit allows.
fn latest(reader: &Reader, args: &Args, last: i64) -> anyhow::Result<(Vec<Change>, bool)> {
    let limit = args.limit.map_or(LISTED, |limit| limit as usize);
    let step = i64::try_from(LOG_STEP).expect("a small number");
    let begin = args.since.map_or(Ok(0), |since| since.before(reader))?;
    let (mut found, mut upper) = (Vec::new(), last);
    while found.len() <= limit && upper > begin {
        let lower = (upper - step).max(begin);
        let mut chunk = reader.changes_after(lower, LOG_STEP)?;
        chunk.retain(|change| change.seq <= upper && args.wants(change));
        upper = lower;
        chunk.append(&mut found);
        found = chunk;
    }
    let too_many = found.len().saturating_sub(limit);
    found.drain(..too_many);
    Ok((found, too_many > 0))
}

/// One change on one line.
pub(super) fn line(change: &Change) -> String {
    let id = change.record_id.as_deref().unwrap_or("");
    let what = match change.kind {
        Kind::Updated => differences(change),
        Kind::Gap => missed(&change.body),
        Kind::Forgotten => "the data of this record was removed".to_owned(),
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
    let side =
        |value: Option<&str>| value.map_or_else(|| "(absent)".to_owned(), |value| cell(value, 80));
    let fields: Vec<String> = change
        .changed()
        .iter()
        .map(|f| {
            format!(
                "{}: {} -> {}",
                cell(&f.name, 40),
                side(f.before),
                side(f.after)
            )
        })
        .collect();
    fields.join(", ")
}

/// A gap in words.
fn missed(body: &str) -> String {
    let gap: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let at = |name| {
        gap.get(name)
            .and_then(Value::as_str)
            .map(moment::shown)
            .unwrap_or_default()
    };
    let count = gap.get("estimate").filter(|estimate| !estimate.is_null());
    let count = count.map_or_else(String::new, |estimate| format!("about {estimate} "));
    let between = format!("between {} and {}", at("from_at"), at("to_at"));
    cell(
        &format!("{count}records may have been missed {between}; see `shopmirror gaps`"),
        160,
    )
}
