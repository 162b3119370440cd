//! The progress bar of a command that goes through many rows. It is shown on a terminal only.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, or none. It is removed when the value is dropped.
pub(super) struct RowBar(Option<ProgressBar>);

impl RowBar {
    /// A bar if standard error is a terminal.
    pub(super) fn new() -> Self {
        Self::shown(std::io::stderr().is_terminal())
    }

    /// As [`Self::new`], for a command that prints rows: none between them.
    pub(super) fn beside_output() -> Self {
        Self::shown(std::io::stderr().is_terminal() && !std::io::stdout().is_terminal())
    }

    pub(super) fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    fn shown(is_shown: bool) -> Self {
        Self(is_shown.then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos} of {len}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
        }))
    }

    /// Shows how many rows or requests are done of how many.
    pub(super) fn at(&self, done: u64, total: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(total.max(done));
            bar.set_position(done);
        }
    }
}

impl Drop for RowBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
