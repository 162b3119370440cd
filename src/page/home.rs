//! The page Home: how the shop is doing, for its owner.
//!
//! It shows numbers and the names of statuses, and no personal data.

use std::sync::Arc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::context::PageContext;
use super::first_days::first_days;
use super::frame::{link, ranges};
use super::rights::Rights;
use super::spark::spark;
use super::text::{message, money, shown, zone_name};
use super::viewer::Viewer;
use crate::report::{self, Cell, Exactness, Figure, Home, Number, Range};
use crate::status::{Health, WorkspaceStatus};
use crate::text::first_upper;
use crate::text::locale::Locale;
use crate::text::number::count;

/// The statuses that have a bar of their own.
const BARS_MAX: usize = 12;

/// The parts of the page as it is now.
pub(super) async fn parts(
    context: &Arc<PageContext>,
    range: Range,
    viewer: &Viewer,
) -> Vec<Markup> {
    let status = context.status().await;
    let home = context.numbers(range, viewer.rights).await;
    let now = Timestamp::now();
    let zone = &context.page.zone;
    let mut parts = vec![
        health(status.as_deref(), home.as_deref(), viewer, now, zone),
        ranges(
            &Range::HOME,
            |each| each == range,
            |range| link(".", &[("range", range)]),
        ),
    ];
    let Some(home) = home else {
        let text = "The numbers cannot be read now: this page tries it again.";
        parts.push(html! { div.cards #cards data-part { p { (text) } } });
        return parts;
    };
    let view = HomeView {
        context,
        range,
        home: &home,
        now,
        locale: &viewer.locale,
        rights: viewer.rights,
    };
    if viewer.rights.shows_all() {
        parts.push(first_days(&context.page.steps, home.begun_at, now));
    }
    parts.extend([view.cards(), view.statuses(), view.now(), view.as_of()]);
    parts
}

/// In one line whether the numbers can be trusted.
fn health(
    status: Option<&WorkspaceStatus>,
    home: Option<&Home>,
    viewer: &Viewer,
    now: Timestamp,
    zone: &TimeZone,
) -> Markup {
    let has_system = viewer.rights.shows_page("/system");
    let (is_good, text) = match status {
        None => (false, "The program does not answer.".to_owned()),
        // What is wrong may quote what others said.
        Some(status) if status.health != Health::Ok && !has_system => {
            (false, "Something is wrong: tell the owner.".to_owned())
        }
        Some(status) => (status.health == Health::Ok, trouble(status, now, zone)),
    };
    html! {
        div #health data-part {
            h1.unseen { "Home" }
            p.health data-good=(is_good) {
                span {
                    (text) " "
                    @if let Some(home) = home {
                        (home.complete_since)
                        @if home.gaps > 0 {
                            ", except for "
                            @let gaps = count(home.gaps, "gap", "gaps");
                            @if has_system { a href="system#gaps" { (gaps) } } @else { (gaps) }
                        }
                        "."
                    }
                    @if !is_good && has_system { " " a href="system" { "What to do" } }
                }
            }
        }
    }
}

/// What is wrong and since when, or that nothing is.
fn trouble(status: &WorkspaceStatus, now: Timestamp, zone: &TimeZone) -> String {
    let Some(unread) = status.unread() else {
        return status.sentence();
    };
    let Some(age_s) = unread.age_s else {
        return format!("{}.", unread.what);
    };
    let since = now.saturating_sub(SignedDuration::from_secs_f64(age_s));
    let since = since.map_or_else(|_| String::new(), |at| clock_time(at, now, zone));
    format!("{} since {since}.", unread.what)
}

/// A time on the clock of the shop, with its day if that is not today.
pub(super) fn clock_time(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let at = at.to_zoned_datetime(zone.clone());
    let today = now.to_zoned_datetime(zone.clone()).date();
    let form = if at.date() == today {
        "%H:%M"
    } else {
        "%-d %B, %H:%M"
    };
    at.strftime(form).to_string()
}

/// The numbers of one range, ready to be drawn.
struct HomeView<'a> {
    context: &'a PageContext,
    range: Range,
    home: &'a Home,
    now: Timestamp,
    locale: &'a Locale,
    rights: Rights,
}

/// The unit of a number of Home.
#[derive(Clone, Copy)]
enum Unit {
    Count,
    Money,
}

/// The address of a report, for its usual days.
fn report_link(name: &str) -> String {
    link("report", &[("name", name)])
}

/// One number of the range, on a card that leads to its report.
struct Card<'a> {
    id: &'static str,
    title: &'static str,
    figure: &'a Figure,
    unit: Unit,
    report: &'static str,
}

/// By how much a number differs from the one before: `+4`, or `−12 %` of an amount of money. None
/// if one of them is not sure.
fn difference(figure: &Figure, unit: Unit, locale: &Locale) -> Option<String> {
    let are_exact =
        figure.now.exactness == Exactness::Exact && figure.before.exactness == Exactness::Exact;
    let (now, before) = (figure.now.number()?, figure.before.number()?);
    if !are_exact {
        return None;
    }
    let (difference, end) = match unit {
        Unit::Count => (now - before, ""),
        Unit::Money if before > 0.0 => ((now - before) / before * 100.0, "\u{a0}%"),
        Unit::Money => return None,
    };
    let size = locale.whole(difference.abs().round() as i64);
    let sign = if size == "0" {
        "±"
    } else if difference < 0.0 {
        "−"
    } else {
        "+"
    };
    Some(format!("{sign}{size}{end}"))
}

impl HomeView<'_> {
    /// The numbers of the range, each beside that of the range before.
    fn cards(&self) -> Markup {
        let home = self.home;
        let mut cards = vec![
            Card {
                id: "taken-in",
                title: "Taken in",
                figure: &home.taken_in,
                unit: Unit::Count,
                report: "intake",
            },
            Card {
                id: "completed",
                title: "Completed",
                figure: &home.completed,
                unit: Unit::Count,
                report: "turnaround-by-brand",
            },
            Card {
                id: "leads",
                title: "New leads",
                figure: &home.leads,
                unit: Unit::Count,
                report: "leads",
            },
        ];
        if let Some(money) = &home.money {
            let card = Card {
                id: "money-in",
                title: "Money in",
                figure: &money.received,
                unit: Unit::Money,
                report: "payments",
            };
            cards.insert(2, card);
        }
        html! {
            div.cards #cards data-part { @for card in &cards { (self.card(card)) } }
        }
    }

    fn card(&self, card: &Card<'_>) -> Markup {
        let from = self.home.days.from.to_string();
        let to = self.home.days.to.to_string();
        let address = self.rows_of_card(card.report, &from, &to);
        let figure = card.figure;
        let before = match self.range {
            Range::Today | Range::ThisWeek => " a week before",
            Range::ThisMonth => " a month before",
            _ => " the month before",
        };
        let by = match figure.as_of {
            Some(_) => ", by the same hour",
            None if self.range == Range::LastMonth => "",
            None => ", by this time",
        };
        html! {
            div.card id=(card.id) {
                a href=(address) {
                    span.title { (card.title) }
                    span.n.old[figure.as_of.is_some()] {
                        (self.amount(&figure.now, card.unit, None))
                        @if let Some(difference) = difference(figure, card.unit, self.locale) {
                            span.diff { " · " (difference) }
                        }
                        (self.since(figure.as_of))
                    }
                    span.d {
                        @if figure.now.number().is_none() { "Not all of it is known" }
                        @else { (self.amount(&figure.before, card.unit, None)) (before) (by) }
                    }
                    (spark(&figure.days, self.locale))
                }
            }
        }
    }

    /// The address of the records that a card counts; of its report, if no record may be shown.
    fn rows_of_card(&self, report: &str, from: &str, to: &str) -> String {
        let days = [("from", from), ("to", to)];
        let of_report = link("report", &[&[("name", report)], &days[..]].concat());
        if !self.rights.shows_records() {
            return of_report;
        }
        let created = [("created.from", from), ("created.to", to)];
        match report {
            "intake" => self.repairs_link(&[&[("state", "taken_in")], &days[..]].concat()),
            "turnaround-by-brand" => {
                self.repairs_link(&[&[("state", "completed")], &days[..]].concat())
            }
            "payments" => {
                let payments = [("route", "payments"), ("kind.not", "void")];
                link("records", &[&payments[..], &created].concat())
            }
            "leads" => link("records", &[&[("route", "leads")], &created[..]].concat()),
            _ => of_report,
        }
    }

    /// The address of the repairs behind a number; of their number only, if no record may be shown.
    fn repairs_link(&self, parameters: &[(&str, &str)]) -> String {
        if self.rights.shows_records() {
            link("report", &[&[("name", "repairs")], parameters].concat())
        } else {
            report_link("open-repairs")
        }
    }

    /// The address of the repairs that are ready for pickup; of all open repairs if no status is
    /// known to mean ready.
    fn ready_link(&self, status_days: &str) -> String {
        let statuses: Vec<&str> = self.home.ready_status.iter().map(String::as_str).collect();
        if statuses.is_empty() {
            return report_link("open-repairs");
        }
        self.repairs_link(&[
            ("status", &statuses.join("|")),
            ("status_days", status_days),
        ])
    }

    fn statuses(&self) -> Markup {
        let home = self.home;
        let most = match home.by_status.first() {
            Some((_, count)) => count.number().unwrap_or(1.0),
            None => 1.0,
        };
        let mut further = Vec::new();
        let mut further_names = Vec::new();
        for (status, count) in home.by_status.iter().skip(BARS_MAX) {
            further.push(count);
            further_names.push(status.as_str());
        }
        let old = self.home.now.open.as_of;
        html! {
            section.statuses #statuses data-part aria-labelledby="statuses-title" {
                h2 #statuses-title { "Open repairs by status" (self.since(old)) }
                @if home.by_status.is_empty() { p { "No open repair is known." } }
                ul.bars.old[old.is_some()] {
                    @for (status, repairs) in home.by_status.iter().take(BARS_MAX) {
                        @let width = repairs.number().unwrap_or_default() / most * 100.0;
                        li {
                            span dir="auto" { (shown(status)) }
                            svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true" {
                                rect width=(format!("{width:.1}")) height="14" {}
                            }
                            @let address = self.repairs_link(&[("status", status)]);
                            span { (self.amount(repairs, Unit::Count, Some(&address))) }
                        }
                    }
                    @if !further.is_empty() {
                        @let sum = report::sum_of_counts(further);
                        @let names = further_names.join("|");
                        @let address = self.repairs_link(&[("status", &names)]);
                        li {
                            span { "other statuses" }
                            span {}
                            span { (self.amount(&sum, Unit::Count, Some(&address))) }
                        }
                    }
                }
            }
        }
    }

    fn now(&self) -> Markup {
        let now = &self.home.now;
        let mut follow_ups = report_link("leads");
        let mut unpaid = report_link("payments");
        if self.rights.shows_records() {
            follow_ups = report_link("follow-ups");
            let query = [("name", "outstanding"), ("completed_days", "90")];
            unpaid = link("report", &query);
        }
        let open = report_link("open-repairs");
        let ready = self.ready_link("0");
        let ready_long = self.ready_link("14");
        let overdue = self.repairs_link(&[("late", "1")]);
        let open_long = self.repairs_link(&[("open_days", "30")]);
        let counts = [
            ("Open repairs", &now.open, open),
            ("Ready for pickup", &now.ready, ready),
            (
                "Ready for pickup for more than 14 days",
                &now.ready_long,
                ready_long,
            ),
            ("Overdue repairs", &now.overdue, overdue),
            ("Open for more than 30 days", &now.open_long, open_long),
            ("Follow-ups that are due", &now.follow_ups, follow_ups),
        ];
        let long_unpaid = "Unpaid, completed in the last 90 days";
        html! {
            section #now data-part aria-labelledby="now-title" {
                h2 #now-title { "Now" }
                table.standing {
                    tbody {
                        @for (title, cell, address) in counts {
                            (self.row(title, cell, Unit::Count, &address))
                        }
                        @if let Some(money) = &self.home.money {
                            (self.row(long_unpaid, &money.unpaid, Unit::Money, &unpaid))
                        }
                    }
                }
            }
        }
    }

    fn row(&self, title: &str, number: &Number, unit: Unit, address: &str) -> Markup {
        html! {
            tr {
                th scope="row" { (title) }
                td.number.old[number.as_of.is_some()] {
                    (self.amount(&number.cell, unit, Some(address)))
                    (self.since(number.as_of))
                }
            }
        }
    }

    /// Beside a number that stands still: up to when its lists were read.
    fn since(&self, as_of: Option<Timestamp>) -> Markup {
        html! {
            @if let Some(at) = as_of {
                span.least { " as of " (clock_time(at, self.now, &self.context.page.zone)) }
            }
        }
    }

    /// The age of the numbers, and the notes about them.
    fn as_of(&self) -> Markup {
        let zone = &self.context.page.zone;
        let at = clock_time(self.home.as_of, self.now, zone);
        html! {
            p.note #as-of data-part {
                "As of " (at) ", " (zone_name(zone)) "."
                @for note in self.home.all_notes() { " " (message(&first_upper(note))) "." }
            }
        }
    }

    /// A number with how sure it is; with an address a link.
    fn amount(&self, cell: &Cell, unit: Unit, address: Option<&str>) -> Markup {
        let Some(value) = cell.number() else {
            return html! { span.least { "unknown" } };
        };
        let mut number = self.written(value, unit);
        let mark = match cell.exactness {
            Exactness::Exact | Exactness::Unknown => "",
            Exactness::AtLeast => "at least ",
            Exactness::AtMost => "at most ",
            Exactness::About => "about ",
            Exactness::Between { upper } => {
                number = format!("{number} to {}", self.written(upper, unit));
                ""
            }
        };
        html! {
            @if !mark.is_empty() { span.least { (mark) } }
            @match address {
                Some(address) => a href=(address) { (number) },
                None => (number),
            }
        }
    }

    fn written(&self, number: f64, unit: Unit) -> String {
        match unit {
            Unit::Money => {
                let currency = self.context.page.reports.currency.as_deref();
                money(number, currency, self.locale)
            }
            Unit::Count => self.locale.whole(number.round() as i64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_a_number_or_a_share_and_is_not_shown_if_a_number_is_not_sure() {
        let cell = |number: f64, exactness| Cell::of(number.into(), exactness);
        let of = |now: f64, before: f64, unit, exactness| {
            let figure = Figure {
                now: cell(now, Exactness::Exact),
                before: cell(before, exactness),
                days: Vec::new(),
                as_of: None,
            };
            difference(&figure, unit, &Locale::default())
        };
        let exact = Exactness::Exact;
        for (now, before, unit, wanted) in [
            (26.0, 22.0, Unit::Count, Some("+4")),
            (3.0, 1_300.0, Unit::Count, Some("−1,297")),
            (3.0, 3.0, Unit::Count, Some("±0")),
            (88.0, 100.0, Unit::Money, Some("−12\u{a0}%")),
            (88.0, 0.0, Unit::Money, None),
        ] {
            let difference = of(now, before, unit, exact);
            assert_eq!(difference.as_deref(), wanted, "{now} {before}");
        }
        assert_eq!(of(3.0, 1.0, Unit::Count, Exactness::AtLeast), None);
    }
}
