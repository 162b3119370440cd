//! Questions on the terminal. A key is read without showing it. Afterwards, also after Ctrl-C, the
//! terminal shows again what is typed.
//!
//! Each wait is on a thread of its own, so that a signal can end the command.

use std::io::{BufRead, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::SecretString;

use crate::cli::exit::{self, TRY_AGAIN};

/// More bytes than any address or key has.
const ANSWER_MAX: u64 = 4097;

/// The error if the operator ends the command.
pub(super) fn cancelled() -> anyhow::Error {
    exit::error(
        TRY_AGAIN,
        "cancelled; nothing was written: run the same command again",
    )
}

/// True if there is a terminal to ask on.
pub(super) fn is_possible() -> bool {
    std::io::stdin().is_terminal()
}

/// One line of the terminal; an end of the input cancels.
pub(super) async fn line(question: &str) -> anyhow::Result<String> {
    show(question);
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin()
            .lock()
            .take(ANSWER_MAX)
            .read_line(&mut line)
            .map(|_| line)
    })
    .await??;
    if line.is_empty() {
        show("\n");
        return Err(cancelled());
    }
    Ok(line)
}

/// As [`line`], without showing what is typed.
pub(super) async fn secret(question: &str) -> anyhow::Result<SecretString> {
    let silence = Silence::begin()?;
    let typed = line(question).await;
    drop(silence);
    Ok(SecretString::from(typed?))
}

fn show(text: &str) {
    let mut out = anstream::stderr().lock();
    // A question that cannot be shown can still be answered.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// While this value exists, the terminal does not show what is typed.
struct Silence {
    before: Termios,
}

impl Silence {
    fn begin() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        // The line break still shows, so that the next text begins on a line of its own.
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // If the terminal is gone, it has nothing to show.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
