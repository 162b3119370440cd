//! The ranges of Home and what they are compared with. Pure.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, ZonedDateTime};

use super::LINE_DAYS;
use crate::config::Range;
use crate::report::period::{end_of, start_of};
use crate::store::ReportDay;

/// The range, the one before, then each day of the line: the rows of the table `days`. `read_until`
/// is when the lists were last read: up to then both ranges are compared.
pub(super) fn spans(
    range: Range,
    zone: &TimeZone,
    now: Timestamp,
    read_until: Timestamp,
) -> Vec<ReportDay> {
    let local = read_until.to_zoned_datetime(zone.clone());
    let today = now.to_zoned_datetime(zone.clone()).date();
    let days = range.days(today);
    let week_ago = days.from.saturating_sub(7.days());
    let month_ago = days.from.saturating_sub(1.month());
    let end = end_of(days.to, zone);
    let (before_from, before_to) = match range {
        Range::Today | Range::ThisWeek => (week_ago, earlier(&local, 7.days())),
        _ if read_until < end => (month_ago, earlier(&local, 1.month())),
        _ => (month_ago, start_of(days.from, zone)),
    };
    let mut bounds = vec![
        (start_of(days.from, zone), end),
        (start_of(before_from, zone), before_to),
    ];
    for back in (0..LINE_DAYS as i64).rev() {
        let day = today.saturating_sub(back.days());
        bounds.push((start_of(day, zone), end_of(day, zone)));
    }
    let mut spans = Vec::with_capacity(bounds.len());
    for (index, (from, to)) in bounds.into_iter().enumerate() {
        let day = format!("{index:02}");
        spans.push(ReportDay {
            period: day.clone(),
            day,
            from,
            to,
        });
    }
    spans
}

/// The same time of an earlier day, on the clock of the shop.
fn earlier(local: &ZonedDateTime, back: Span) -> Timestamp {
    let then = local.datetime().saturating_sub(back);
    then.to_zoned_datetime(local.time_zone().clone())
        .map_or(Timestamp::MIN, |then| then.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(range: Range, now: &str) -> [String; 4] {
        bounds_read(range, now, now)
    }

    fn bounds_read(range: Range, now: &str, read_until: &str) -> [String; 4] {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let [now, read_until] = [now, read_until].map(|at| at.parse().unwrap());
        let spans = spans(range, &berlin, now, read_until);
        assert_eq!(spans.len(), 2 + LINE_DAYS);
        let local = |at: Timestamp| {
            at.to_zoned_datetime(berlin.clone())
                .strftime("%Y-%m-%d %H:%M")
                .to_string()
        };
        let [now, before] = [&spans[0], &spans[1]];
        [now.from, now.to, before.from, before.to].map(local)
    }

    #[test]
    fn a_range_is_compared_with_the_one_before_up_to_the_same_hour() {
        // A Wednesday; clocks changed on the Sunday before.
        let now = "2026-04-01T08:30:00Z";
        let [from, to, before, until] = bounds(Range::Today, now);
        assert_eq!(
            (from.as_str(), to.as_str()),
            ("2026-04-01 00:00", "2026-04-02 00:00")
        );
        assert_eq!(
            (before.as_str(), until.as_str()),
            ("2026-03-25 00:00", "2026-03-25 10:30")
        );
        let [from, _, before, until] = bounds(Range::ThisWeek, now);
        assert_eq!(
            (from.as_str(), before.as_str()),
            ("2026-03-30 00:00", "2026-03-23 00:00")
        );
        assert_eq!(until, "2026-03-25 10:30");
        let [from, to, before, until] = bounds(Range::LastMonth, now);
        assert_eq!(
            (from.as_str(), to.as_str()),
            ("2026-03-01 00:00", "2026-04-01 00:00")
        );
        assert_eq!(
            (before.as_str(), until.as_str()),
            ("2026-02-01 00:00", "2026-03-01 00:00")
        );
        // The lists were last read at 15:04.
        let stale = |range| bounds_read(range, "2026-04-01T17:06:00Z", "2026-04-01T13:04:00Z");
        let [_, to, _, until] = stale(Range::Today);
        assert_eq!(
            (to.as_str(), until.as_str()),
            ("2026-04-02 00:00", "2026-03-25 15:04")
        );
        let [.., until] = stale(Range::LastMonth);
        assert_eq!(until, "2026-03-01 00:00", "it was over before");
        let [.., until] = bounds_read(
            Range::LastMonth,
            "2026-04-01T17:06:00Z",
            "2026-03-30T13:04:00Z",
        );
        assert_eq!(until, "2026-02-28 15:04");
        // The month before has no 31st day.
        let [from, _, before, until] = bounds(Range::ThisMonth, "2026-03-31T08:30:00Z");
        assert_eq!(
            (from.as_str(), before.as_str()),
            ("2026-03-01 00:00", "2026-02-01 00:00")
        );
        assert_eq!(until, "2026-02-28 10:30");
    }
}
