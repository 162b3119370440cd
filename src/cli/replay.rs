//! `replay`: gives a sink older changes once more, under the same event ids and without a request.
//!
//! The daemon does the work. This command stores what is to be done, and shows how far it has come.

mod follow;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap_complete::ArgValueCandidates;
use jiff::Timestamp;

use super::dead::wake;
use super::exit::{DATA, ExitError, TRY_AGAIN, USAGE};
use super::route_name::RouteName;
use super::{completions, moment, output};
use crate::clock::stamp;
use crate::config::Config;
use crate::deliver::{ReplayRule, replay_filter, replay_rule};
use crate::record::{Kind, Route};
use crate::store::{
    Operator, Reader, Replay, ReplayChoice, ReplayState, SinkRow, SinkState, holder,
};

/// Rows of the log read at once.
const STEP: usize = 2_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The sink's name
    #[arg(add = ArgValueCandidates::new(completions::sinks))]
    sink: String,
    /// Begin with this row of the log, or at this time: an age such as 2h or 3d, or a time such as
    /// 2026-03-01T08:00:00Z [default: the beginning of the log]
    #[arg(long, value_name = "SEQ|TIME", value_parser = place)]
    from: Option<Place>,
    /// End with this row of the log, or before this time [default: what the sink got last]
    #[arg(long, value_name = "SEQ|TIME", value_parser = place)]
    to: Option<Place>,
    /// Only this route, also if the sink asks for others; can be repeated
    #[arg(long = "route", value_name = "ROUTE", value_parser = RouteName)]
    routes: Vec<Route>,
    /// Only this kind of change, also if the sink asks for others; can be repeated
    #[arg(long = "kind", value_name = "KIND", value_parser = clap::value_parser!(Kind))]
    kinds: Vec<Kind>,
    /// Only records with this value in a field; can be repeated
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = super::records::pair)]
    wheres: Vec<(String, String)>,
    /// At most so many changes per second, minute or hour: 10/s, 100/m, 1000/h
    #[arg(long, default_value = "10/s", value_parser = rate)]
    rate: f64,
    /// Also send the older versions of each record, not only the newest one that the sink got
    #[arg(long)]
    all_versions: bool,
    /// Count what would be sent, and send nothing
    #[arg(long, conflicts_with = "cancel")]
    dry_run: bool,
    /// End the replay that is under way
    #[arg(long)]
    cancel: bool,
    /// Do not wait for the end
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    json: super::Json,
}

/// What `replay --dry-run --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReplayPlan {
    /// The sink.
    sink: String,
    /// The first row of the range.
    from: i64,
    /// The last row of the range.
    to: i64,
    /// The changes that would be sent.
    changes: i64,
    /// The changes that would be left out.
    left_out: i64,
    /// The changes that would be sent, by their type.
    types: BTreeMap<String, i64>,
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
enum Place {
    Row(i64),
    Time(Timestamp),
}

fn place(text: &str) -> Result<Place, String> {
    match text.parse() {
        Ok(row) => Ok(Place::Row(row)),
        Err(_) => moment::since(text).map(Place::Time),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    crate::duration::rate(text).ok_or_else(|| {
        "write a number of changes per second, minute or hour, for example 10/s, 100/m or 1000/h, from 1/h to 1000000/s".to_owned()
    })
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let mut reader = super::reader(config)?;
    let name = &args.sink;
    let Some(sink) = reader.sink(name)? else {
        let names: Vec<String> = reader.sinks()?.into_iter().map(|sink| sink.name).collect();
        let names = names.join(", ");
        let text = format!("there is no sink {name:?} in this store; the sinks are: {names}");
        return Err(ExitError { code: USAGE, text }.into());
    };
    if args.cancel {
        return cancel(config, &sink, args.json.json);
    }
    let Some(settings) = config.sinks.get(name).filter(|_| sink.state != SinkState::Removed) else {
        let text = format!(
            "sink {name} is not in use: add [sinks.{name}] to the configuration and reload the daemon"
        );
        return Err(ExitError { code: USAGE, text }.into());
    };
    let rows = range(&reader, &sink, args)?;
    let choice = ReplayChoice {
        routes: args.routes.iter().map(ToString::to_string).collect(),
        kinds: args.kinds.iter().map(ToString::to_string).collect(),
        wheres: args.wheres.clone(),
        all_versions: args.all_versions,
    };
    if args.dry_run {
        let replay = not_begun(name, rows, choice, args.rate);
        let filter = replay_filter(&settings.filter, &replay.choice);
        return dry_run(&reader, &sink, &replay, (&settings.filter, &filter), args.json.json);
    }
    let mut operator = Operator::open(&config.store.path)?;
    let now = stamp(Timestamp::now());
    if let Some(before) = operator.begin_replay(name, rows, &choice, args.rate, &now)? {
        let text = format!(
            "a replay of sink {name} is under way, {} of the way: wait for its end, or end it with `shopmirror replay {name} --cancel`",
            percent(&before)
        );
        return Err(ExitError { code: TRY_AGAIN, text }.into());
    }
    let woken = wake(&config.store.path, name)?;
    if args.no_wait || !woken {
        let text = match (woken, holder(&config.store.path)) {
            (true, _) | (false, Some(_)) => "the replay has begun: see `shopmirror status`\n",
            (false, None) => "the replay begins when the daemon runs\n",
        };
        return if args.json.json {
            output::json(&reader.replay(name)?)
        } else {
            output::text(text)?;
            Ok(ExitCode::SUCCESS)
        };
    }
    follow::follow(&config.store.path, &mut reader, name, args.json.json)
}

/// The last row before the range, and the last row of it: nothing that the sink has not received yet.
fn range(reader: &Reader, sink: &SinkRow, args: &Args) -> anyhow::Result<(i64, i64)> {
    let from = match args.from {
        None => 0,
        Some(Place::Row(row)) => row.saturating_sub(1).max(0),
        Some(Place::Time(at)) => reader.position_at(&stamp(at))?,
    };
    let to = match args.to {
        None => sink.position,
        Some(Place::Row(row)) => row.min(sink.position),
        Some(Place::Time(at)) => reader.position_at(&stamp(at))?.min(sink.position),
    };
    if from >= to {
        let text = format!(
            "there is nothing to replay: the range holds no change that sink {} has behind it; its position is {}",
            sink.name, sink.position
        );
        return Err(ExitError { code: DATA, text }.into());
    }
    Ok((from, to))
}

fn not_begun(sink: &str, rows: (i64, i64), choice: ReplayChoice, rate: f64) -> Replay {
    Replay {
        sink: sink.to_owned(),
        id: String::new(),
        from_seq: rows.0,
        to_seq: rows.1,
        choice,
        rate,
        position: rows.0,
        sent: 0,
        refused: 0,
        left_out: 0,
        state: ReplayState::Running,
        last_error: None,
        begun_at: String::new(),
        ended_at: None,
    }
}

/// Counts what would be sent.
fn dry_run(
    reader: &Reader,
    sink: &SinkRow,
    replay: &Replay,
    filters: (&crate::config::SinkFilter, &crate::config::SinkFilter),
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let (mut left_out, mut position) = (0, replay.from_seq);
    'log: loop {
        let step = reader.changes_after(position, STEP)?;
        let Some(last) = step.last() else { break };
        position = last.seq;
        for change in &step {
            if change.seq > replay.to_seq {
                break 'log;
            }
            match replay_rule(reader, replay, filters, sink.position, change)? {
                ReplayRule::Unwanted => {}
                ReplayRule::LeftOut => left_out += 1,
                ReplayRule::HandedOver => *counts.entry(change.event_type()).or_default() += 1,
            }
        }
    }
    let total: i64 = counts.values().sum();
    let (from, to) = (replay.from_seq + 1, replay.to_seq);
    if json {
        let sink = sink.name.clone();
        return output::json(&ReplayPlan {
            sink,
            from,
            to,
            changes: total,
            left_out,
            types: counts,
        });
    }
    let took = Duration::from_secs_f64(total as f64 / replay.rate);
    let mut text = format!(
        "{} of the rows {from} to {to} would be sent to {} within {}, and {left_out} left out; nothing was sent\n",
        changes(total),
        sink.name,
        crate::duration::text(Duration::from_secs(took.as_secs() + 1))
    );
    for (kind, count) in counts {
        text.push_str(&format!("{count:>9} {kind}\n"));
    }
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn cancel(config: &Config, sink: &SinkRow, json: bool) -> anyhow::Result<ExitCode> {
    let name = &sink.name;
    let now = stamp(Timestamp::now());
    if !Operator::open(&config.store.path)?.cancel_replay(name, &now)? {
        let text = format!("no replay of sink {name} is under way: see `shopmirror status`");
        return Err(ExitError { code: DATA, text }.into());
    }
    wake(&config.store.path, name)?;
    match super::reader(config)?.replay(name)? {
        Some(replay) if json => output::json(&replay),
        Some(replay) => {
            let outcome = output::plain(&outcome(&replay));
            output::text(&format!("the replay is ended: {outcome}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn outcome(replay: &Replay) -> String {
    let mut text = format!(
        "{} sent, {} refused, {} left out",
        changes(replay.sent),
        replay.refused,
        replay.left_out
    );
    if let Some(error) = &replay.last_error {
        text.push_str(&format!("; last problem: {error}"));
    }
    if replay.may_leave_older() {
        text.push_str(&format!(
            "; because of --all-versions, records may be in an older state at the receiver until they change: run `shopmirror replay {}` to send the newest version of each",
            replay.sink
        ));
    }
    text
}

/// One line about a replay that is under way or ended early, for `status` and `sinks`.
pub(super) fn line(replay: &Replay) -> String {
    let (from, to) = (replay.from_seq + 1, replay.to_seq);
    let ended = if replay.state == ReplayState::Running { "" } else { "ended at " };
    format!(
        "replay of {}: {ended}{} of rows {from} to {to}, {}",
        replay.sink,
        percent(replay),
        outcome(replay)
    )
}

fn percent(replay: &Replay) -> String {
    let rows = (replay.to_seq - replay.from_seq).max(1);
    format!("{} %", (replay.position - replay.from_seq).clamp(0, rows) * 100 / rows)
}

fn changes(count: i64) -> String {
    output::count(count, "change", "changes")
}
