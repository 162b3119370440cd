//! The page System: pollers, budget, store, sinks, gaps and the latest changes, for who runs the program.
//!
//! It shows counts, states and ids. Every value goes through maud, which escapes it; foreign text goes
//! through [`shown`] as well. Times are clock times, so that a part does not change with every second.

use std::fmt::Display;

use indicatif::HumanBytes;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::context::PageContext;
use super::frame;
use super::live::{LivePage, Part};
use super::request::record_link;
use super::snapshot::{SharedSnapshot, Snapshot};
use super::text::{message, moment, shown, zone_name};
use crate::budget::BudgetStatus;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::duration::seconds as span;
use crate::number::{count, whole};
use crate::poll::{PollerState, PollerStatus};
use crate::record::{Change, poller_name};
use crate::status::WorkspaceStatus;
use crate::store::Gap;

/// How times are written.
const CLOCK: &str = "%Y-%m-%d %H:%M:%S";
/// Open gaps that are listed.
const GAPS_SHOWN: usize = 20;

/// The page as it is now.
pub(super) fn live_page(context: &PageContext, shared: &SharedSnapshot) -> LivePage {
    shared.as_ref().map_or_else(|| stuck(context), |snapshot| parts(context, snapshot))
}

fn page_title(context: &PageContext, state: &str) -> String {
    frame::title(&context.shop(), &format!("System, {state}"))
}

/// What the page says while the daemon's tasks do not answer.
fn stuck(context: &PageContext) -> LivePage {
    let health = html! {
        section #health data-part {
            h1 { "System" }
            p.verdict data-health="failing" { "The daemon's tasks do not answer." }
            ul.reasons { li { "Look at the daemon's log, then restart it." } }
        }
    };
    let title = page_title(context, "no response");
    LivePage { title, parts: vec![Part::new("health", health)] }
}

fn parts(context: &PageContext, snapshot: &Snapshot) -> LivePage {
    let (status, zone) = (&snapshot.status, &context.page.zone);
    let names = Names::of(&status.pollers);
    let section = |id: &'static str, content: Markup| {
        let title = format!("{id}-title");
        Part::new(id, html! { section id=(id) data-part aria-labelledby=(title) { (content) } })
    };
    let health = html! { section #health data-part { h1 { "System" } (health(status)) } };
    LivePage {
        title: page_title(context, status.health.as_str()),
        parts: vec![
            Part::new("health", health),
            section("pollers", pollers(&names, status, zone)),
            section("budget", budget(status.budget.as_ref())),
            section("store", store(snapshot, zone)),
            section("sinks", sinks(&status.sinks)),
            section("gaps", gaps(&names, &snapshot.gaps, zone)),
            section("changes", changes(&names, snapshot, zone, context.shows_records())),
            Part::new("tools", tools(zone)),
        ],
    }
}

fn tools(zone: &TimeZone) -> Markup {
    html! {
        p.note #tools data-part {
            "Times are those of " (zone_name(zone)) ". For tools: " a href="metrics" { "metrics" } ", "
            a href="api/status" { "status as JSON" } ", " a href="readyz" { "readyz" } ", "
            a href="healthz" { "healthz" } ". In a terminal: " code { "shopmirror status" } "."
        }
    }
}

/// How routes are named: with their business only if there are several.
struct Names {
    has_several: bool,
}

impl Names {
    fn of(pollers: &[PollerStatus]) -> Self {
        Self { has_several: pollers.iter().any(|p| p.business != pollers[0].business) }
    }

    fn name(&self, route: &str, business: Option<&str>) -> String {
        shown(&poller_name(route, business.filter(|_| self.has_several)))
    }
}

fn pollers(names: &Names, status: &WorkspaceStatus, zone: &TimeZone) -> Markup {
    let heads = [
        "Route",
        "State",
        "Last read",
        "Interval",
        "At the latest",
        "Next poll",
        "Records/h",
        "Open gaps",
    ];
    let now: Option<Timestamp> = status.at.parse().ok();
    let at = |seconds: f64| {
        let at = now?.checked_add(SignedDuration::try_from_secs_f64(seconds).ok()?).ok()?;
        Some(at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string())
    };
    let or_dash = |value: Option<String>| number(value.as_deref().unwrap_or("–"));
    let of = |poller: &PollerStatus| {
        let long_ago = |age: f64| format!("{} ago", span(age));
        // A clock time does not say the day.
        let read = poller.last_read(|age| {
            at(-age).filter(|_| age < 12.0 * 3600.0).unwrap_or_else(|| long_ago(age))
        });
        let cells = [
            text(names.name(&poller.route, poller.business.as_deref())),
            state(&poller.state.as_str().replace('_', " "), poller.state == PollerState::Ok),
            number(read),
            or_dash(poller.interval_s.map(span)),
            or_dash(poller.guarantee_s.map(span)),
            or_dash(poller.next_poll_s.and_then(at)),
            or_dash(poller.rate_per_hour.map(per_hour)),
            number(whole(poller.gaps)),
        ];
        row(&heads, cells)
    };
    let rows: Vec<Markup> = status.pollers.iter().map(of).collect();
    html! {
        h2 #pollers-title { "Pollers" }
        (table(&heads, &rows))
        @for poller in &status.pollers {
            @if let Some(error) = &poller.last_error_text {
                p.note {
                    strong { (names.name(&poller.route, poller.business.as_deref())) }
                    ": last error: " (message(error))
                }
            }
        }
    }
}

fn health(status: &WorkspaceStatus) -> Markup {
    html! {
        p.verdict data-health=(status.health.as_str()) { (status.sentence()) }
        @if !status.reasons.is_empty() {
            ul.reasons { @for reason in &status.reasons { li { (message(reason)) } } }
        }
    }
}

/// A cell of a table: whether it is a number, and what it shows.
type Cell = (bool, Markup);

fn text(text: impl Display) -> Cell {
    (false, html! { (shown(&text.to_string())) })
}

fn number(text: impl Display) -> Cell {
    (true, html! { (text.to_string()) })
}

/// A state in a word.
fn state(word: &str, is_good: bool) -> Cell {
    (false, html! { span.state data-good=(is_good) { (shown(word)) } })
}

/// One row; its first cell is its heading.
fn row<const N: usize>(heads: &[&str; N], cells: [Cell; N]) -> Markup {
    html! {
        tr role="row" {
            @for (index, (head, (is_number, content))) in heads.iter().zip(cells).enumerate() {
                @if index == 0 {
                    th role="rowheader" scope="row" data-label=(head) { (content) }
                } @else {
                    td.number[is_number] role="cell" data-label=(head) { (content) }
                }
            }
        }
    }
}

/// A table of rows.
fn table(heads: &[&str], rows: &[Markup]) -> Markup {
    // The roles stay when narrow screens lay the rows out as blocks.
    html! {
        table role="table" {
            thead role="rowgroup" {
                tr role="row" { @for head in heads { th role="columnheader" scope="col" { (head) } } }
            }
            tbody role="rowgroup" { @for row in rows { (row) } }
        }
    }
}

/// A rate with as many digits as mean something.
fn per_hour(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { whole(rate.round() as i64) }
}

fn budget(budget: Option<&BudgetStatus>) -> Markup {
    html! {
        h2 #budget-title { "Request budget" }
        @if let Some(budget) = budget {
            (budget_bar(budget))
            dl {
                dt { "Limit of the key" } dd { (budget.limit) " per minute" }
                dt.own { "shopmirror, last 60 s" } dd { (budget.used_last_60s) }
                dt.others { "Other clients" } dd { "about " (format!("{:.0}", budget.others_per_minute)) " per minute" }
                @if let Some(remaining) = budget.remaining_seen {
                    dt { "Left on the key" } dd { (remaining) }
                }
                dt { "Granted to polls" } dd { (format!("{:.0}", budget.pace_per_minute)) " per minute" }
                @if let Some(rest) = budget.resting_s {
                    dt { "The server asked to wait" } dd { (span(rest)) }
                }
            }
        } @else { p { "Not known." } }
    }
}

/// What was spent of the key's limit: ours, then what the other clients spend.
fn budget_bar(budget: &BudgetStatus) -> Markup {
    let limit = f64::from(budget.limit.max(1));
    let own = (budget.used_last_60s as f64 / limit * 100.0).min(100.0);
    let others = (budget.others_per_minute.max(0.0) / limit * 100.0).min(100.0 - own);
    html! {
        svg.bar width="100%" height="12" role="img" aria-label="Requests of this daemon and of other clients as parts of the limit" {
            rect.free width="100%" height="12" {}
            rect.own width=(format!("{own:.1}%")) height="12" {}
            rect.others x=(format!("{own:.1}%")) width=(format!("{others:.1}%")) height="12" {}
        }
    }
}

fn store(snapshot: &Snapshot, zone: &TimeZone) -> Markup {
    let status = &snapshot.status;
    let records: i64 = status.records.values().sum();
    html! {
        h2 #store-title { "Store" }
        dl {
            dt { "Records" } dd { (whole(records)) }
            @for (route, count) in &status.records {
                dt.minor { (shown(route)) } dd { (whole(*count)) }
            }
            dt { "Changes in the log" } dd { (whole(status.last_seq)) }
            dt { "Database" } dd { (HumanBytes(snapshot.store_bytes)) }
            dt { "Write-ahead log" } dd { (HumanBytes(snapshot.wal_bytes)) }
            @if let Some(backup) = &status.backup {
                dt { "Last backup" }
                dd { @match &backup.last_at { Some(at) => (moment(at, zone, CLOCK)), None => "none yet" } }
                @if let Some(next) = &backup.next_at {
                    dt { "Next backup" } dd { (moment(next, zone, CLOCK)) }
                }
            }
            @for report in &status.reports {
                dt { "Report " (shown(&report.name)) ", next" } dd { (moment(&report.next_at, zone, CLOCK)) }
            }
        }
        @if let Some(error) = status.backup.as_ref().and_then(|backup| backup.last_error.as_deref()) {
            p.note { strong { "The last backup failed" } ": " (message(error)) }
        }
    }
}

fn sinks(sinks: &[SinkStatus]) -> Markup {
    let heads = ["Sink", "State", "Backlog", "Delivered", "Retrying", "Dead letters"];
    let of = |sink: &SinkStatus| {
        let name = html! { (shown(&sink.name)) " " span.kind { (shown(&sink.type_name)) } };
        let counts = [sink.behind, sink.delivered, sink.retrying, sink.dead];
        let [behind, delivered, retrying, dead] = counts.map(|count| number(whole(count)));
        let activity = state(sink.state.as_str(), sink.state == SinkActivity::Active);
        row(&heads, [(false, name), activity, behind, delivered, retrying, dead])
    };
    let rows: Vec<Markup> = sinks.iter().map(of).collect();
    html! {
        h2 #sinks-title { "Sinks" }
        @if sinks.is_empty() {
            p { "No sink is configured: changes are mirrored and not forwarded." }
        } @else {
            (table(&heads, &rows))
        }
        @for sink in sinks {
            @if let Some(error) = &sink.last_error {
                p.note {
                    strong { (shown(&sink.name)) } ": last error: " (message(error))
                    @if let Some(wait) = sink.next_attempt_s { "; next attempt in " (span(wait)) }
                }
            }
        }
    }
}

fn gaps(names: &Names, gaps: &[Gap], zone: &TimeZone) -> Markup {
    let heads = ["Gap", "Route", "From", "To", "Records", "Found since"];
    let of = |gap: &Gap| {
        let records = gap.estimate.map_or_else(|| "unknown".to_owned(), |n| format!("about {n}"));
        let cells = [
            text(gap.id),
            text(names.name(&gap.route, gap.business.as_deref())),
            (false, moment(&gap.from_at, zone, CLOCK)),
            (false, moment(&gap.to_at, zone, CLOCK)),
            number(records),
            number(whole(gap.repaired)),
        ];
        row(&heads, cells)
    };
    let rows: Vec<Markup> = gaps.iter().take(GAPS_SHOWN).map(of).collect();
    let more = gaps.len() - rows.len();
    html! {
        h2 #gaps-title { "Open gaps" }
        @if rows.is_empty() {
            p { "None: no records are known to be missing." }
        } @else {
            p { "Records may have been missed in these times. " code { "shopmirror gaps" } " explains each." }
            (table(&heads, &rows))
            @if more > 0 { p.note { (count(more, "more gap is", "more gaps are")) " open." } }
        }
    }
}

fn changes(names: &Names, snapshot: &Snapshot, zone: &TimeZone, shows_records: bool) -> Markup {
    let heads = ["No.", "When", "Route", "Kind", "Id", "Version"];
    let of = |change: &Change| {
        let id = html! {
            @match &change.record_id {
                Some(id) if shows_records => a href=(record_link(change.route, id)) { (shown(id)) },
                Some(id) => (shown(id)),
                None => "–",
            }
        };
        let cells = [
            text(change.seq),
            (false, moment(&change.observed_at, zone, CLOCK)),
            text(names.name(change.route.as_str(), change.business.as_deref())),
            text(change.kind),
            (false, id),
            number(change.version),
        ];
        row(&heads, cells)
    };
    let rows: Vec<Markup> = snapshot.changes.iter().map(of).collect();
    html! {
        h2 #changes-title { "Latest changes" }
        @if rows.is_empty() { p { "The log is empty." } } @else { (table(&heads, &rows)) }
    }
}
