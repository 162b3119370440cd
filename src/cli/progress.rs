//! The progress bar of a command that takes long. It is shown on a terminal only.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, or none. It is removed when the value is dropped.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar of rows or requests.
    pub(super) fn rows() -> Self {
        Self::shown(true, "{bar:30} {pos} of {len}")
    }

    /// As [`Self::rows`], for a command that prints rows: none between them.
    pub(super) fn beside_output() -> Self {
        Self::shown(!std::io::stdout().is_terminal(), "{bar:30} {pos} of {len}")
    }

    /// A bar of bytes.
    pub(super) fn bytes() -> Self {
        Self::shown(true, "{bar:30} {bytes} of {total_bytes} {msg}")
    }

    fn shown(is_wanted: bool, template: &str) -> Self {
        Self((is_wanted && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
        }))
    }

    /// Shows how much is done of how much.
    pub(super) fn at(&self, done: u64, total: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(total.max(done));
            bar.set_position(done);
        }
    }

    /// Shows what goes on after the end of a bar of bytes.
    pub(super) fn say(&self, text: &'static str) {
        if let Some(bar) = &self.0 {
            bar.set_message(text);
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
