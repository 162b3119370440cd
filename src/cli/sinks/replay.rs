//! `sinks NAME replay`: sends older changes to a sink once more, under the same event ids and
//! without a request.
//!
//! This command stores the task; the daemon does it, and `sinks NAME` shows the progress.

use std::io::{BufRead, IsTerminal, Read};

use jiff::Timestamp;
use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Kind, Route};

use super::{Outcome, StoredSink};
use crate::cli::exit::{DATA, TRY_AGAIN, USAGE, refuse};
use crate::cli::moment::{self, Place};
use crate::cli::{output, records};
use crate::deliver::{ReplayPreview, replay_preview};
use crate::store::{Replay, ReplayChoice, ReplayState, SinkState};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Begin with this row of the log, or at this time: an age such as 2h or 3d, or a time such as
    /// 2026-03-01T08:00:00Z [default: the beginning of the log]
    #[arg(long, value_name = "SEQ|TIME", value_parser = moment::place)]
    from: Option<Place>,
    /// End with this row of the log, or before this time [default: what the sink got last]
    #[arg(long, value_name = "SEQ|TIME", value_parser = moment::place)]
    to: Option<Place>,
    /// Only this route, also if the sink asks for others; can be repeated
    #[arg(long = "route", value_name = "ROUTE", value_parser = crate::cli::route())]
    routes: Vec<Route>,
    /// Only this kind of change, also if the sink asks for others; can be repeated
    #[arg(long = "kind", value_name = "KIND", value_parser = crate::cli::kind())]
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
    /// Print how many changes would be sent, and the first and the last one; send nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask on a terminal before more than 100 changes are sent
    #[arg(long)]
    yes: bool,
    /// End the replay that is under way
    #[arg(long, conflicts_with = "dry_run")]
    cancel: bool,
}

/// A replay of more changes than this is confirmed on a terminal.
const CONFIRM_ABOVE: i64 = 100;

fn rate(text: &str) -> Result<f64, String> {
    match crate::text::duration::rate(text) {
        Some(rate) => Ok(rate),
        None => Err(
            "write a number of changes per second, minute or hour, for example 10/s, 100/m \
                     or 1000/h, from 1/h to 1000000/s"
                .to_owned(),
        ),
    }
}

pub(super) fn run(sink: &StoredSink<'_>, args: &Args) -> anyhow::Result<Outcome> {
    if args.cancel {
        return cancel(sink);
    }
    let name = sink.name();
    let settings = match sink.config.sinks.get(name) {
        Some(settings) if sink.row.state != SinkState::Removed => settings,
        _ => {
            return refuse(
                USAGE,
                format!(
                    "sink {name} is not in use: add [sinks.{name}] to the configuration and \
                     reload the daemon"
                ),
            );
        }
    };
    let rows = range(sink, args)?;
    let choice = ReplayChoice {
        routes: args.routes.iter().map(ToString::to_string).collect(),
        kinds: args.kinds.iter().map(ToString::to_string).collect(),
        wheres: args.wheres.clone(),
        all_versions: args.all_versions,
    };
    let must_ask = !args.yes && std::io::stdin().is_terminal();
    if args.dry_run || must_ask {
        let replay = Replay {
            sink: name.to_owned(),
            from_seq: rows.0,
            to_seq: rows.1,
            choice: choice.clone(),
            ..Replay::default()
        };
        let filter = &settings.filter;
        let preview = replay_preview(&sink.reader, &replay, filter, sink.row.position)?;
        let text = in_words(&preview);
        if args.dry_run {
            return Ok((
                json!({"sink": name, "would_send": preview}),
                format!("would send {text} to {name}; nothing was sent"),
            ));
        }
        if preview.changes > CONFIRM_ABOVE && !is_confirmed(&text, name)? {
            return refuse(TRY_AGAIN, "nothing was sent");
        }
    }
    let now = stamp(Timestamp::now());
    let mut operator = sink.operator()?;
    if let Some(running) = operator.begin_replay(name, rows, &choice, args.rate, &now)? {
        return refuse(
            TRY_AGAIN,
            format!(
                "a replay of sink {name} is under way, {} of the way: wait for its end, or end it \
                 with `shopmirror sinks {name} replay --cancel`",
                percent(&running)
            ),
        );
    }
    let when = if sink.wake()? {
        "has begun"
    } else {
        "begins when the daemon runs"
    };
    let text = format!(
        "the replay of rows {} to {} {when}: see `shopmirror sinks {name}`; `shopmirror sinks \
         {name} replay --cancel` ends it",
        rows.0 + 1,
        rows.1
    );
    Ok((json!(sink.reader.replay(name)?), text))
}

/// How many changes, and the first and the last of them.
fn in_words(preview: &ReplayPreview) -> String {
    let mut text = output::count(preview.changes, "change", "changes");
    if let (Some(first), Some(last)) = (&preview.first, &preview.last) {
        text += &format!(
            ", from {} ({}) to {} ({})",
            first.seq,
            moment::shown(&first.observed_at),
            last.seq,
            moment::shown(&last.observed_at)
        );
    }
    if preview.left_out > 0 {
        text += &format!(
            "; {} left out: in the queue, or older than what the sink has",
            preview.left_out
        );
    }
    text
}

/// Asks on the terminal whether these changes are to be sent.
fn is_confirmed(changes: &str, sink: &str) -> anyhow::Result<bool> {
    output::print_note(&format!(
        "This sends {changes} to {sink}. Type yes to send them:"
    ));
    let mut answer = String::new();
    std::io::stdin().lock().take(16).read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// The last row before the range, and the last row of the range. It ends at the position of the
/// sink.
fn range(sink: &StoredSink<'_>, args: &Args) -> anyhow::Result<(i64, i64)> {
    let from = match args.from {
        Some(from) => from.before(&sink.reader)?,
        None => 0,
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
                "there is nothing to replay: the range holds no change that sink {} has behind it; \
                 its position is {position}",
                sink.name()
            ),
        );
    }
    Ok((from, to))
}

fn cancel(sink: &StoredSink<'_>) -> anyhow::Result<Outcome> {
    let name = sink.name();
    let now = stamp(Timestamp::now());
    if !sink.operator()?.cancel_replay(name, &now)? {
        return refuse(
            DATA,
            format!("no replay of sink {name} is under way: see `shopmirror status`"),
        );
    }
    sink.wake()?;
    let replay = sink.reader.replay(name)?;
    let text = match &replay {
        Some(replay) => line(replay),
        None => String::new(),
    };
    Ok((json!(replay), text))
}

/// One line about the last replay of a sink, for `status` and `sinks`.
pub(super) fn line(replay: &Replay) -> String {
    let Replay {
        sink,
        refused,
        left_out,
        last_error,
        ..
    } = replay;
    let from = replay.from_seq + 1;
    let to = replay.to_seq;
    let state = match replay.state {
        ReplayState::Running => percent(replay),
        ReplayState::Done => "all".to_owned(),
        ReplayState::Cancelled => format!("cancelled after {}", percent(replay)),
    };
    let sent = output::count(replay.sent, "change", "changes");
    let mut problem = String::new();
    if let Some(error) = last_error {
        problem = format!("; last problem: {error}");
    }
    format!(
        "replay of {sink}: {state} of rows {from} to {to}, {sent} sent, {refused} refused, \
         {left_out} left out{problem}"
    )
}

fn percent(replay: &Replay) -> String {
    let rows = (replay.to_seq - replay.from_seq).max(1);
    let done = (replay.position - replay.from_seq).clamp(0, rows);
    format!("{} %", done * 100 / rows)
}
