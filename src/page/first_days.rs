//! What is left to set up on the first days, for Home: each step with its lines for the file. Pure.
//!
//! A step is shown until it is done, or until a week has passed since the first record.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

/// For how long the steps are shown.
const SHOWN_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A step that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Days are those of UTC.
    TimeZone,
    /// Amounts have no currency.
    Currency,
    /// No status is named that means ready for pickup.
    ReadyStatus,
    /// Backups lie beside the database.
    Backup,
    /// Nobody gets alerts.
    Alerts,
}

impl Step {
    /// What the step is for, and its lines for the file.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::TimeZone => (
                "Days begin at midnight in UTC. Name the time zone of the shop:",
                "[workspace]\ntime_zone = \"Europe/Berlin\"",
            ),
            Self::Currency => (
                "Amounts have no currency. Name yours:",
                "[reports]\ncurrency = \"EUR\"",
            ),
            Self::ReadyStatus => (
                "Name each status that means ready for pickup:",
                "[reports]\nready_status = [\"Ready for pickup\"]",
            ),
            Self::Backup => (
                "Backups lie on the same disk as the database. Name a folder on another one, or a \
                 bucket in [backup.s3]:",
                "[backup]\npath = \"/mnt/other-disk/shopmirror\"",
            ),
            Self::Alerts => (
                "Nobody is told if something is wrong. Name a sink that gets alerts:",
                "[alerts]\nsink = [\"mail\"]",
            ),
        }
    }
}

/// The part of Home for the first days; `begun_at` is when the first record was stored.
pub(super) fn first_days(steps: &[Step], begun_at: Option<Timestamp>, now: Timestamp) -> Markup {
    let is_over = begun_at.is_some_and(|at| now.duration_since(at) >= SHOWN_FOR);
    if is_over || (steps.is_empty() && begun_at.is_some()) {
        return html! {};
    }
    html! {
        section #first-days data-part aria-labelledby="first-days-title" {
            h2 #first-days-title { "The first days" }
            p {
                "Every new repair, payment, customer and lead is counted here soon after it was \
                 entered; older ones can be imported."
            }
            @if !steps.is_empty() {
                p { "These steps are left. Write the lines into the configuration, then reload:" }
            }
            @for step in steps {
                @let (what, lines) = step.words();
                p { (what) }
                pre tabindex="0" { (lines) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_are_shown_until_they_are_done_or_a_week_has_passed() {
        let now: Timestamp = "2026-11-28T09:00:00Z".parse().unwrap();
        let days_ago = |days: i64| Some(now - SignedDuration::from_hours(24 * days));
        let shown = |steps: &[Step], begun_at| {
            let part = first_days(steps, begun_at, now).into_string();
            (part.contains("first-days"), part.contains("currency = "))
        };
        let left = [Step::Currency];
        assert_eq!(shown(&left, None), (true, true));
        assert_eq!(shown(&left, days_ago(6)), (true, true));
        assert_eq!(shown(&left, days_ago(7)), (false, false));
        assert_eq!(shown(&[], days_ago(6)), (false, false));
        assert_eq!(shown(&[], None), (true, false));
    }
}
