//! The page Home: how the shop is doing, for its owner.
//!
//! It shows numbers and the names of statuses, and no personal data.

use std::sync::Arc;

use maud::{Markup, html};

use super::context::PageContext;
use super::frame::{link, ranges};
use super::spark::spark;
use super::text::{message, money, shown, zone_name};
use crate::report::{self, Cell, Exactness, Figure, Home, Range};
use crate::status::{Health, WorkspaceStatus};
use crate::text::number::{count, whole};

/// The statuses that have a bar of their own.
const BARS_MAX: usize = 12;

/// The parts of the page as it is now.
pub(super) async fn parts(context: &Arc<PageContext>, range: Range) -> Vec<Markup> {
    let (status, home) = (context.status().await, context.numbers(range).await);
    let head = [
        health(status.as_deref(), home.as_deref()),
        ranges(
            &Range::HOME,
            |each| each == range,
            |range| link(".", &[("range", range)]),
        ),
    ];
    let numbers = match &home {
        Some(home) => {
            let view = View {
                context,
                range,
                home,
            };
            vec![view.cards(), view.statuses(), view.now(), view.as_of()]
        }
        None => {
            let text = "The numbers cannot be read now: this page tries it again.";
            vec![html! { div.cards #cards data-part { p { (text) } } }]
        }
    };
    head.into_iter().chain(numbers).collect()
}

/// Whether the numbers can be trusted, in one line.
fn health(status: Option<&WorkspaceStatus>, home: Option<&Home>) -> Markup {
    let (is_good, text) = match status {
        None => (false, "The program does not answer.".to_owned()),
        Some(status) => (status.health == Health::Ok, status.sentence()),
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
                            ", except for " a href="system#gaps" { (count(home.gaps, "gap", "gaps")) }
                        }
                        "."
                    }
                    @if !is_good { " " a href="system" { "What to do" } }
                }
            }
        }
    }
}

/// The numbers of one range, ready to be drawn.
struct View<'a> {
    context: &'a PageContext,
    range: Range,
    home: &'a Home,
}

/// What a number of Home counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Count,
    Money,
}

/// The address of a report, for its usual days.
fn report_link(name: &str) -> String {
    link("report", &[("name", name)])
}

impl View<'_> {
    /// The numbers of the range, each beside that of the range before.
    fn cards(&self) -> Markup {
        let home = self.home;
        let (from, to) = (home.days.from.to_string(), home.days.to.to_string());
        let address = |name| link("report", &[("name", name), ("from", &from), ("to", &to)]);
        let before = match self.range {
            Range::Today | Range::ThisWeek => " a week before, by this time",
            Range::ThisMonth => " a month before, by this time",
            _ => " the month before",
        };
        let cards: [(_, _, &Figure, _, _); 4] = [
            (
                "taken-in",
                "Taken in",
                &home.taken_in,
                Kind::Count,
                "intake",
            ),
            (
                "completed",
                "Completed",
                &home.completed,
                Kind::Count,
                "turnaround-by-brand",
            ),
            (
                "money-in",
                "Money in",
                &home.money_in,
                Kind::Money,
                "payments",
            ),
            ("leads", "New leads", &home.leads, Kind::Count, "leads"),
        ];
        html! {
            div.cards #cards data-part {
                @for (id, title, figure, kind, report) in cards {
                    div.card id=(id) {
                        a href=(address(report)) {
                            span.title { (title) }
                            span.n { (self.amount(&figure.now, kind, None)) }
                            span.d {
                                @if figure.now.number().is_none() { "Not all of it is known" }
                                @else { (self.amount(&figure.before, kind, None)) (before) }
                            }
                            (spark(&figure.days))
                        }
                    }
                }
            }
        }
    }

    /// The list of repairs behind a number, or what may be shown of it.
    fn list(&self, parameters: &[(&str, &str)]) -> String {
        match self.context.shows_records() {
            true => link("report", &[&[("name", "repairs")], parameters].concat()),
            false => report_link("open-repairs"),
        }
    }

    /// The list of repairs that are ready for pickup; all that are open if none is known to be
    /// ready.
    fn ready(&self, status_days: &str) -> String {
        let statuses: Vec<&str> = self.home.ready_status.iter().map(String::as_str).collect();
        match statuses.is_empty() {
            true => report_link("open-repairs"),
            false => self.list(&[
                ("status", &statuses.join("|")),
                ("status_days", status_days),
            ]),
        }
    }

    fn statuses(&self) -> Markup {
        let home = self.home;
        let most = home
            .by_status
            .iter()
            .map(|(_, count)| *count)
            .next()
            .unwrap_or(1.0);
        let further: f64 = home
            .by_status
            .iter()
            .skip(BARS_MAX)
            .map(|(_, count)| count)
            .sum();
        html! {
            section.statuses #statuses data-part aria-labelledby="statuses-title" {
                h2 #statuses-title { "Open repairs by status" }
                @if home.by_status.is_empty() { p { "No open repair is known." } }
                ul.bars {
                    @for (status, repairs) in home.by_status.iter().take(BARS_MAX) {
                        li {
                            span { (shown(status)) }
                            svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true" {
                                rect width=(format!("{:.1}", repairs / most * 100.0)) height="14" {}
                            }
                            span { (whole(*repairs as i64)) }
                        }
                    }
                    @if further > 0.0 { li { span { "other statuses" } span {} span { (whole(further as i64)) } } }
                }
            }
        }
    }

    fn now(&self) -> Markup {
        let now = &self.home.now;
        let shows_records = self.context.shows_records();
        let due = if shows_records { "follow-ups" } else { "leads" };
        let owing = match shows_records {
            true => link(
                "report",
                &[("name", "outstanding"), ("completed_days", "90")],
            ),
            false => report_link("payments"),
        };
        let [ready, ready_long] = ["0", "14"].map(|days| self.ready(days));
        let [late, long] = [("late", "1"), ("open_days", "30")].map(|only| self.list(&[only]));
        let rows = [
            (
                "Open repairs",
                &now.open,
                Kind::Count,
                report_link("open-repairs"),
            ),
            ("Ready for pickup", &now.ready, Kind::Count, ready),
            (
                "Ready for pickup for more than 14 days",
                &now.ready_long,
                Kind::Count,
                ready_long,
            ),
            ("Overdue repairs", &now.overdue, Kind::Count, late),
            (
                "Open for more than 30 days",
                &now.open_long,
                Kind::Count,
                long,
            ),
            (
                "Follow-ups that are due",
                &now.follow_ups,
                Kind::Count,
                report_link(due),
            ),
            (
                "Unpaid, completed in the last 90 days",
                &now.unpaid,
                Kind::Money,
                owing,
            ),
        ];
        html! {
            section #now data-part aria-labelledby="now-title" {
                h2 #now-title { "Now" }
                table.standing {
                    tbody {
                        @for (title, amount, kind, address) in rows {
                            tr {
                                th scope="row" { (title) }
                                td.number { (self.amount(amount, kind, Some(&address))) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// How old the numbers are, and what the reader has to know.
    fn as_of(&self) -> Markup {
        let zone = &self.context.page.zone;
        let at = self
            .home
            .as_of
            .to_zoned_datetime(zone.clone())
            .strftime("%H:%M");
        html! {
            p.note #as-of data-part {
                "As of " (at) ", " (zone_name(zone)) "."
                @for note in &self.home.notes { " " (message(&report::first_upper(note))) "." }
            }
        }
    }

    /// A number with how sure it is; with an address a link.
    fn amount(&self, cell: &Cell, kind: Kind, address: Option<&str>) -> Markup {
        let Some(value) = cell.number() else {
            return html! { span.least { "unknown" } };
        };
        let written = match kind {
            Kind::Money => money(value, self.context.page.reports.currency.as_deref()),
            Kind::Count => whole(value.round() as i64),
        };
        html! {
            @match cell.exactness {
                Exactness::AtLeast => span.least { "at least " },
                Exactness::About => span.least { "about " },
                _ => {}
            }
            @match address {
                Some(address) => a href=(address) { (written) },
                None => (written),
            }
        }
    }
}
