//! Waits for the end of a replay that the daemon does, and shows how far it has come.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{outcome, percent};
use crate::cli::exit::{DATA, ExitError, TRY_AGAIN};
use crate::cli::{MAX_READ, output};
use crate::store::{Reader, Replay, ReplayState, SinkState, holder};

/// How often the progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Shows how far the replay has come until it ends or the daemon stops.
pub(super) fn follow(
    store: &Path,
    reader: &mut Reader,
    name: &str,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{bar:30} {percent} % {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        output::aside("Ctrl-C ends only this display: the daemon goes on with the replay");
        ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
    });
    let replay = loop {
        // Before the look: a daemon that ends the replay and then stops has stored its end.
        let goes_on = holder(store).is_some();
        let replay = look(reader, name)?;
        if let Some(bar) = &bar {
            let number = |rows: i64| u64::try_from(rows).unwrap_or_default();
            bar.set_length(number(replay.to_seq - replay.from_seq));
            bar.set_position(number(replay.position - replay.from_seq));
            bar.set_message(output::plain(&outcome(&replay)));
        }
        if replay.state != ReplayState::Running {
            break replay;
        }
        if let Some(text) = why_it_waits(reader, &replay, goes_on)? {
            if let Some(bar) = &bar {
                bar.finish_and_clear();
            }
            return Err(ExitError { code: TRY_AGAIN, text }.into());
        }
        std::thread::sleep(LOOK_EVERY);
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
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
    reader: &Reader,
    replay: &Replay,
    daemon_runs: bool,
) -> anyhow::Result<Option<String>> {
    let (name, done) = (&replay.sink, percent(replay));
    if !daemon_runs {
        return Ok(Some(format!(
            "the daemon stopped after {done} of the replay of sink {name}: start the daemon, and the replay goes on; `shopmirror status` shows how far it is"
        )));
    }
    Ok(match reader.sink(name)?.map(|sink| sink.state) {
        Some(SinkState::Active) => None,
        Some(SinkState::Disabled) => Some(format!(
            "sink {name} was disabled after {done} of its replay, because its endpoint is gone (410): correct its url and reload the daemon, and the replay goes on; or end it with `shopmirror replay {name} --cancel`"
        )),
        Some(SinkState::Removed) | None => Some(format!(
            "sink {name} was removed from the configuration after {done} of its replay: add it again and reload the daemon, and the replay goes on; or end it with `shopmirror replay {name} --cancel`"
        )),
    })
}

/// Reads how far the replay is. Each look has the time of one command: a replay may take days.
fn look(reader: &mut Reader, name: &str) -> anyhow::Result<Replay> {
    reader.limit_time(MAX_READ)?;
    reader.replay(name)?.ok_or_else(|| {
        let text = format!("the replay of sink {name} is no longer in the store");
        ExitError { code: TRY_AGAIN, text }.into()
    })
}
