//! `sinks NAME replay`: gives a sink older changes once more, under the same event ids and without a request.
//!
//! The daemon does the work. This command stores what is to be done, and shows how far it has come.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::StoredSink;
use crate::cli::exit::{DATA, ExitError, TRY_AGAIN, USAGE, refuse};
use crate::cli::progress::Bar;
use crate::cli::{MAX_READ, moment, output, records};
use crate::clock::stamp;
use crate::deliver::{Take, replay_filter, replay_rule};
use crate::record::{Kind, Route};
use crate::store::{Replay, ReplayChoice, ReplayState, SinkState, holder};

/// How often the progress of a replay is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Rows of the log read at once.
const STEP: usize = 2_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Begin with this row of the log, or at this time: an age such as 2h or 3d, or a time such as
    /// 2026-03-01T08:00:00Z [default: the beginning of the log]
    #[arg(long, value_name = "SEQ|TIME", value_parser = place)]
    from: Option<Place>,
    /// End with this row of the log, or before this time [default: what the sink got last]
    #[arg(long, value_name = "SEQ|TIME", value_parser = place)]
    to: Option<Place>,
    /// Only this route, also if the sink asks for others; can be repeated
    #[arg(long = "route", value_name = "ROUTE", value_parser = crate::cli::route())]
    routes: Vec<Route>,
    /// Only this kind of change, also if the sink asks for others; can be repeated
    #[arg(long = "kind", value_name = "KIND", value_parser = clap::value_parser!(Kind))]
    kinds: Vec<Kind>,
    /// Only records with this value in a field; can be repeated
    #[arg(long = "where", value_name = "FIELD=VALUE", value_parser = records::pair)]
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

pub(super) fn run(mut sink: StoredSink<'_>, args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    if args.cancel {
        return cancel(&sink, json);
    }
    let name = sink.name();
    if sink.row.state == SinkState::Removed || !sink.config.sinks.contains_key(name) {
        return refuse(
            USAGE,
            format!(
                "sink {name} is not in use: add [sinks.{name}] to the configuration and reload the daemon"
            ),
        );
    }
    let rows = range(&sink, args)?;
    let choice = ReplayChoice {
        routes: args.routes.iter().map(ToString::to_string).collect(),
        kinds: args.kinds.iter().map(ToString::to_string).collect(),
        wheres: args.wheres.clone(),
        all_versions: args.all_versions,
    };
    if args.dry_run {
        return dry_run(&sink, &not_begun(name, rows, choice, args.rate), json);
    }
    let now = stamp(Timestamp::now());
    if let Some(before) = sink.operator()?.begin_replay(name, rows, &choice, args.rate, &now)? {
        return refuse(
            TRY_AGAIN,
            format!(
                "a replay of sink {name} is under way, {} of the way: wait for its end, or end it with `shopmirror sinks {name} replay --cancel`",
                percent(&before)
            ),
        );
    }
    let woken = sink.wake()?;
    if !args.no_wait && woken {
        return follow(&mut sink, json);
    }
    if json {
        return output::json(&sink.reader.replay(name)?);
    }
    let is_running = woken || holder(&sink.config.store.path).is_some();
    output::text(if is_running {
        "the replay has begun: see `shopmirror status`\n"
    } else {
        "the replay begins when the daemon runs\n"
    })
}

/// The last row before the range, and the last row of it: nothing that the sink has not received yet.
fn range(sink: &StoredSink<'_>, args: &Args) -> anyhow::Result<(i64, i64)> {
    let from = match args.from {
        None => 0,
        Some(Place::Row(row)) => row.saturating_sub(1).max(0),
        Some(Place::Time(at)) => sink.reader.position_at(&stamp(at))?,
    };
    let position = sink.row.position;
    let to = match args.to {
        None => position,
        Some(Place::Row(row)) => row.min(position),
        Some(Place::Time(at)) => sink.reader.position_at(&stamp(at))?.min(position),
    };
    if from >= to {
        return refuse(
            DATA,
            format!(
                "there is nothing to replay: the range holds no change that sink {} has behind it; its position is {position}",
                sink.name()
            ),
        );
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
fn dry_run(sink: &StoredSink<'_>, replay: &Replay, json: bool) -> anyhow::Result<ExitCode> {
    let own = &sink.config.sinks[sink.name()].filter;
    let filters = (own, &replay_filter(own, &replay.choice));
    let mut types: BTreeMap<String, i64> = BTreeMap::new();
    let (mut left_out, mut position) = (0, replay.from_seq);
    'log: loop {
        let step = sink.reader.changes_after(position, STEP)?;
        let Some(last) = step.last() else { break };
        position = last.seq;
        for change in &step {
            if change.seq > replay.to_seq {
                break 'log;
            }
            match replay_rule(&sink.reader, replay, filters, sink.row.position, change)? {
                Take::Unwanted => {}
                Take::LeftOut => left_out += 1,
                Take::Sent => *types.entry(change.event_type()).or_default() += 1,
            }
        }
    }
    let total: i64 = types.values().sum();
    let (name, from, to) = (sink.name(), replay.from_seq + 1, replay.to_seq);
    if json {
        return output::json(&json!({
            "sink": name, "from": from, "to": to, "changes": total, "left_out": left_out, "types": types,
        }));
    }
    let took = Duration::from_secs_f64(total as f64 / replay.rate);
    let mut text = format!(
        "{} of the rows {from} to {to} would be sent to {name} within {}, and {left_out} left out; nothing was sent\n",
        changes(total),
        crate::duration::text(Duration::from_secs(took.as_secs() + 1))
    );
    for (kind, count) in types {
        text.push_str(&format!("{count:>9} {kind}\n"));
    }
    output::text(&text)
}

fn cancel(sink: &StoredSink<'_>, json: bool) -> anyhow::Result<ExitCode> {
    let name = sink.name();
    if !sink.operator()?.cancel_replay(name, &stamp(Timestamp::now()))? {
        return refuse(
            DATA,
            format!("no replay of sink {name} is under way: see `shopmirror status`"),
        );
    }
    sink.wake()?;
    match sink.reader.replay(name)? {
        Some(replay) if json => output::json(&replay),
        Some(replay) => {
            let outcome = output::plain(&outcome(&replay));
            output::text(&format!("the replay is ended: {outcome}\n"))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Shows how far the replay has come until it ends or the daemon stops.
fn follow(sink: &mut StoredSink<'_>, json: bool) -> anyhow::Result<ExitCode> {
    let bar = Bar::rows();
    if bar.is_shown() {
        output::aside("Ctrl-C ends only this display: the daemon goes on with the replay");
    }
    let replay = loop {
        // Before the look: a daemon that ends the replay and then stops has stored its end.
        let goes_on = holder(&sink.config.store.path).is_some();
        // Each look has the time of one command: a replay may take days.
        sink.reader.limit_time(MAX_READ)?;
        let replay = sink.reader.replay(sink.name())?.ok_or_else(|| {
            let text = format!("the replay of sink {} is no longer in the store", sink.name());
            ExitError { code: TRY_AGAIN, text }
        })?;
        let number = |rows: i64| u64::try_from(rows).unwrap_or_default();
        bar.at(number(replay.position - replay.from_seq), number(replay.to_seq - replay.from_seq));
        if replay.state != ReplayState::Running {
            break replay;
        }
        if let Some(text) = why_it_waits(sink, &replay, goes_on)? {
            return refuse(TRY_AGAIN, text);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    drop(bar);
    if json {
        output::json(&replay)?;
    } else {
        output::text(&format!("{}\n", output::plain(&outcome(&replay))))?;
    }
    Ok(match replay.state {
        ReplayState::Cancelled => ExitCode::from(TRY_AGAIN),
        _ if replay.refused > 0 => ExitCode::from(DATA),
        _ => ExitCode::SUCCESS,
    })
}

/// What keeps a replay from going on before somebody does something.
fn why_it_waits(
    sink: &StoredSink<'_>,
    replay: &Replay,
    daemon_runs: bool,
) -> anyhow::Result<Option<String>> {
    let (name, done) = (sink.name(), percent(replay));
    if !daemon_runs {
        return Ok(Some(format!(
            "the daemon stopped after {done} of the replay of sink {name}: start the daemon, and the replay goes on; `shopmirror status` shows how far it is"
        )));
    }
    let cure = match sink.reader.sink(name)?.map(|sink| sink.state) {
        Some(SinkState::Active) => return Ok(None),
        Some(SinkState::Disabled) => {
            "was disabled, because its endpoint is gone (410): correct its url"
        }
        Some(SinkState::Removed) | None => "was removed from the configuration: add it again",
    };
    Ok(Some(format!(
        "after {done} of the replay, sink {name} {cure} and reload the daemon, and the replay goes on; or end it with `shopmirror sinks {name} replay --cancel`"
    )))
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
            "; because of --all-versions, records may be in an older state at the receiver until they change: run `shopmirror sinks {} replay` to send the newest version of each",
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
