//! The picture of the page System, drawn on the server: the gaps on a time line. What it shows is said in
//! words beside it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::text::{count, shown};
use crate::record::poller_name;
use crate::store::{Gap, GapState};

/// How far back the time line goes at most, and at least.
const MAX_SPAN: SignedDuration = SignedDuration::from_hours(30 * 24);
const MIN_SPAN: SignedDuration = SignedDuration::from_hours(24);
/// The least width of a gap, in hundredths of the line, so that a short one is seen.
const NARROWEST: f64 = 0.6;

/// One gap on the line, in hundredths of its length.
struct Mark<'a> {
    gap: &'a Gap,
    x: f64,
    width: f64,
}

/// The gaps of the last days on one line for each route.
pub(super) fn timeline(gaps: &[Gap], now: Timestamp, zone: &TimeZone) -> Markup {
    let span = |gap: &Gap| -> Option<(Timestamp, Timestamp)> {
        Some((gap.from_at.parse().ok()?, gap.to_at.parse().ok()?))
    };
    let earliest = now.saturating_sub(MAX_SPAN).unwrap_or(now);
    let recent: Vec<(&Gap, Timestamp, Timestamp)> = gaps
        .iter()
        .filter_map(|gap| span(gap).map(|(from, to)| (gap, from, to)))
        .filter(|(_, _, to)| *to >= earliest)
        .collect();
    let oldest = recent.iter().map(|(_, from, _)| *from).min().unwrap_or(now).max(earliest);
    let begin = oldest.min(now.saturating_sub(MIN_SPAN).unwrap_or(now));
    let length = now.duration_since(begin).as_secs_f64().max(1.0);
    let place =
        |at: Timestamp| (at.duration_since(begin).as_secs_f64() / length * 100.0).clamp(0.0, 100.0);
    let mut lanes: Vec<(String, Vec<Mark<'_>>)> = Vec::new();
    for (gap, from, to) in recent {
        let name = poller_name(&gap.route, gap.business.as_deref());
        let width = (place(to) - place(from)).max(NARROWEST);
        let mark = Mark { gap, x: place(from).min(100.0 - width), width };
        match lanes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, marks)) => marks.push(mark),
            None => lanes.push((name, vec![mark])),
        }
    }
    lanes.sort_by(|a, b| a.0.cmp(&b.0));
    html! {
        @if !lanes.is_empty() {
            figure.picture #timeline {
                @for (name, marks) in &lanes { (lane(name, marks, zone)) }
                figcaption.note {
                    "From " (begin.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M")) " until now. "
                    span.key.open { "open" } " " span.key.repaired { "repaired" } " " span.key.accepted { "accepted" }
                }
            }
        }
    }
}

fn lane(name: &str, marks: &[Mark<'_>], zone: &TimeZone) -> Markup {
    let said =
        format!("{}: {} on the time line", shown(name), count(marks.len() as i64, "gap", "gaps"));
    html! {
        div.lane { (shown(name)) }
        svg viewBox="0 0 100 10" preserveAspectRatio="none" width="100%" height="14" role="img" aria-label=(said) {
            rect.free width="100" height="10" {}
            @for Mark { gap, x, width } in marks {
                rect class=(state(gap)) x=(format!("{x:.2}")) width=(format!("{width:.2}")) height="10" {
                    title { "gap " (gap.id) ", " (local(&gap.from_at, zone)) " to " (local(&gap.to_at, zone)) ", " (gap.state.as_str().replace('_', " ")) }
                }
            }
        }
    }
}

/// A stored time in the shop's zone.
fn local(stamp: &str, zone: &TimeZone) -> String {
    let at: Option<Timestamp> = stamp.parse().ok();
    at.map_or_else(
        || shown(stamp),
        |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

fn state(gap: &Gap) -> &'static str {
    match gap.state {
        GapState::Open | GapState::PartlyRepaired => "open",
        GapState::Repaired => "repaired",
        GapState::Accepted => "accepted",
    }
}
