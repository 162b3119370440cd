//! `log`: lists changes, the latest last, and follows new ones.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::exit::{TRY_AGAIN, refuse};
use super::moment;
use super::output::{self, cell};
use super::record_line::title;
use crate::clock::stamp;
use crate::config::Config;
use crate::record::{Change, Kind, Route};
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
    /// Only changes after this number
    #[arg(long, value_name = "SEQ")]
    after: Option<i64>,
    /// Only changes seen since then: an age such as 2h or 3d, or a time such as 2026-03-01T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment::since, conflicts_with = "after")]
    since: Option<Timestamp>,
    /// Only changes of this route
    #[arg(long, value_parser = super::route())]
    route: Option<Route>,
    /// Only changes of this kind: baseline, created, updated, gap or forgotten
    #[arg(long)]
    kind: Option<Kind>,
    /// At most this many [default: 50]
    #[arg(long)]
    limit: Option<u32>,
    #[command(flatten)]
    listing: super::Listing,
}

impl Args {
    fn limit(&self) -> usize {
        self.limit.map_or(LISTED, |limit| limit as usize)
    }

    fn wants(&self, change: &Change) -> bool {
        self.route.is_none_or(|route| route == change.route)
            && self.kind.is_none_or(|kind| kind == change.kind)
    }
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let store = &config.store.path;
    let opened = file_at(store);
    let reader = Reader::open(store)?;
    let Found { changes: found, mut position, is_cut } = match args.after {
        Some(after) => first_after(&reader, args, after)?,
        None => latest(&reader, args)?,
    };
    if is_cut && args.limit.is_none() {
        let which = if args.after.is_some() { "first" } else { "last" };
        output::aside(&format!(
            "only the {which} {LISTED} changes are listed: give --limit for more"
        ));
    }
    if args.follow {
        let is_replaced = || file_at(store) != opened;
        follow(&reader, args, found, &mut position, is_replaced)?;
        return refuse(
            TRY_AGAIN,
            format!(
                "{} was replaced or moved away, for example by `shopmirror restore`: start `log --follow` \
             again; new changes may have numbers below {position}",
                store.display()
            ),
        );
    }
    if args.listing.json {
        return output::json(&found);
    }
    if found.is_empty() {
        output::text("the log holds no such change\n")?;
    }
    for change in &found {
        output::text(&output::fitted(&line(change), args.listing.wide))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The device and the number of the file at `path`.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Prints what was found and each new change, until the store is another file than the one that is
/// read.
fn follow(
    reader: &Reader,
    args: &Args,
    mut found: Vec<Change>,
    position: &mut i64,
    is_replaced: impl Fn() -> bool,
) -> anyhow::Result<()> {
    loop {
        for change in found.drain(..) {
            output::text(&match args.listing.json {
                true => format!("{}\n", change.data_json()),
                false => output::fitted(&line(&change), args.listing.wide),
            })?;
        }
        let more = reader.changes_after(*position, LOG_STEP)?;
        match more.last() {
            Some(last) => *position = last.seq,
            None if is_replaced() => return Ok(()),
            None => std::thread::sleep(FOLLOW_EVERY),
        }
        found = more.into_iter().filter(|change| args.wants(change)).collect();
    }
}

/// The changes to list.
struct Found {
    /// Oldest first.
    changes: Vec<Change>,
    /// The number after which `--follow` continues.
    position: i64,
    /// More changes match than the limit allows.
    is_cut: bool,
}

/// The first changes after a number.
fn first_after(reader: &Reader, args: &Args, after: i64) -> anyhow::Result<Found> {
    let (mut found, mut position) = (Vec::new(), after);
    while found.len() <= args.limit() {
        let step = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = step.last() else { break };
        position = last.seq;
        found.extend(step.into_iter().filter(|change| args.wants(change)));
    }
    let is_cut = found.len() > args.limit();
    if is_cut {
        found.truncate(args.limit());
        position = found.last().map_or(after, |change: &Change| change.seq);
    }
    Ok(Found { changes: found, position, is_cut })
}

/// The latest changes.
fn latest(reader: &Reader, args: &Args) -> anyhow::Result<Found> {
    let last = reader.last_seq()?;
    let step = i64::try_from(LOG_STEP).expect("a small number");
    let begin = args.since.map_or(Ok(0), |since| reader.position_at(&stamp(since)))?;
    let (mut found, mut upper) = (Vec::new(), last);
    while found.len() <= args.limit() && upper > begin {
        let lower = (upper - step).max(begin);
        let mut chunk = reader.changes_after(lower, LOG_STEP)?;
        chunk.retain(|change| change.seq <= upper);
        upper = lower;
        chunk.retain(|change| args.wants(change));
        chunk.append(&mut found);
        found = chunk;
    }
    let too_many = found.len().saturating_sub(args.limit());
    found.drain(..too_many);
    Ok(Found { changes: found, position: last, is_cut: too_many > 0 })
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
    format!("{:>7}  {at}  {:<20} {:<6} {what}\n", change.seq, change.event_type(), cell(id, 20))
}

/// The fields that changed, with both values.
fn differences(change: &Change) -> String {
    let side =
        |value: Option<&str>| value.map_or_else(|| "(absent)".to_owned(), |value| cell(value, 80));
    let fields: Vec<String> = change
        .changed()
        .iter()
        .map(|f| format!("{}: {} -> {}", cell(&f.name, 40), side(f.before), side(f.after)))
        .collect();
    fields.join(", ")
}

/// A gap in words.
fn missed(body: &str) -> String {
    let gap: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let at = |name| gap.get(name).and_then(Value::as_str).map(moment::shown).unwrap_or_default();
    let count = gap.get("estimate").filter(|estimate| !estimate.is_null());
    let count = count.map_or_else(String::new, |estimate| format!("about {estimate} "));
    let between = format!("between {} and {}", at("from_at"), at("to_at"));
    cell(&format!("{count}records may have been missed {between}; see `shopmirror gaps`"), 160)
}
