//! The progress bar of a command that takes long. It is shown on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// A bar on standard error, if that is a terminal. It is removed when the value is dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of rows or requests.
    pub(super) fn rows() -> Self {
        Self::shown("{bar:30} {pos} of {len}")
    }

    /// A bar of bytes.
    pub(super) fn bytes() -> Self {
        Self::shown("{bar:30} {bytes} of {total_bytes}")
    }

    fn shown(template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("it names only what bars have");
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        Self(bar.with_style(style).with_finish(ProgressFinish::AndClear))
    }

    /// Shows how much is done of how much.
    pub(super) fn at(&self, done: u64, total: u64) {
        self.0.set_length(total.max(done));
        self.0.set_position(done);
    }
}
