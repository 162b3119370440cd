//! `status --watch`: the status on the whole screen of a terminal, drawn anew every second.
//!
//! The terminal is left as it was found, whether `q`, Ctrl-C, a signal or an error ends it.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Zoned;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::frame::{Screen, drawn};
use crate::cli::exit::{ExitError, USAGE};
use crate::cli::runtime;

/// How often the screen is drawn.
const EVERY: Duration = Duration::from_secs(1);
/// The whole screen without the text before it, and no cursor; then back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// As many columns and rows as a terminal has that does not say.
const USUAL: Screen = Screen { columns: 80, rows: 24 };

/// Shows the status until the user or a signal ends it.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let text = "--watch needs a terminal: use `shopmirror status` without it, or `shopmirror status --json` in a script";
        return Err(ExitError { code: USAGE, text: text.to_owned() }.into());
    }
    let runtime = runtime()?;
    let mut ends = runtime.block_on(async { Ends::new() })?;
    let taken = TakenTerminal::take()?;
    let outcome = loop {
        let text = drawn(super::read_quietly(path), size(), &Zoned::now(), has_colours());
        if let Err(error) = show(&text) {
            break Err(error.into());
        }
        if runtime.block_on(ends.within(EVERY)) {
            break Ok(ExitCode::SUCCESS);
        }
    };
    drop(taken);
    outcome
}

fn show(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn size() -> Screen {
    match tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            Screen { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => USUAL,
    }
}

fn has_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The terminal with its own screen and without echo, until the value is dropped.
struct TakenTerminal {
    before: Termios,
}

impl TakenTerminal {
    fn take() -> anyhow::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        // Ctrl-C and Ctrl-Z become keys, so that no signal leaves the screen as it is.
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet)?;
        let taken = Self { before };
        show(ENTER)?;
        Ok(taken)
    }
}

impl Drop for TakenTerminal {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to put back.
        let _ = show(LEAVE);
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// What ends the command.
struct Ends {
    keys: mpsc::Receiver<u8>,
    signals: [Signal; 3],
    resized: Signal,
}

impl Ends {
    fn new() -> std::io::Result<Self> {
        let (pressed, keys) = mpsc::channel(16);
        // Waits for a key as long as the process lives.
        std::thread::spawn(move || {
            let mut key = [0];
            while matches!(std::io::stdin().read(&mut key), Ok(1)) {
                if pressed.blocking_send(key[0]).is_err() {
                    return;
                }
            }
        });
        let signals = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        Ok(Self { keys, signals, resized: signal(SignalKind::window_change())? })
    }

    /// Waits for one of them; false once the time is over or the window has another size.
    async fn within(&mut self, time: Duration) -> bool {
        let [interrupt, terminate, hangup] = &mut self.signals;
        let over = tokio::time::sleep(time);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return false,
                _ = self.resized.recv() => return false,
                _ = interrupt.recv() => return true,
                _ = terminate.recv() => return true,
                _ = hangup.recv() => return true,
                key = self.keys.recv() => match key {
                    // Ctrl-C, Ctrl-D, or the terminal is gone.
                    Some(b'q' | b'Q' | 3 | 4) | None => return true,
                    Some(_) => {}
                },
            }
        }
    }
}
