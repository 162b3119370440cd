//! The page System: what `shopmirror status` prints, with the open gaps and the latest changes, for who runs the
//! program.
//!
//! It shows counts, states and ids. Every value goes through maud, which escapes it, and through [`shown`].
//! Times are clock times, so that a part does not change with every second.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::context::PageContext;
use super::live::Part;
use super::request::record_link;
use super::snapshot::SharedSnapshot;
use super::text::{message, shown, zone_name};
use super::words;
use crate::number::{count, whole};
use crate::record::{Change, poller_name};
use crate::status::Table;
use crate::store::Gap;

/// Open gaps that are listed.
const GAPS_SHOWN: usize = 20;
/// A time that is farther away than this is written with its day.
const SAME_DAY_S: f64 = 12.0 * 3600.0;

/// The parts of the page as it is now.
pub(super) fn parts(context: &PageContext, shared: &SharedSnapshot) -> Vec<Part> {
    let Some(snapshot) = shared else {
        let advice = ["Look at the daemon's log, then restart it.".to_owned()];
        return vec![health("failing", "The daemon's tasks do not answer.", &advice)];
    };
    let (status, zone) = (&snapshot.status, &context.page.zone);
    let now: Timestamp = status.at.parse().unwrap_or_default();
    let say = |seconds: f64| {
        let moved = SignedDuration::try_from_secs_f64(seconds).and_then(|by| now.checked_add(by));
        let form = if seconds.abs() < SAME_DAY_S { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
        moved.map_or_else(|_| "-".to_owned(), |at| local(at, zone, form))
    };
    let changed = |row: usize| {
        let change = snapshot.changes.get(row).filter(|_| context.shows_records())?;
        Some(record_link(change.route, change.record_id.as_deref()?))
    };
    vec![
        health(status.health.as_str(), &status.sentence(), &status.reasons),
        facts(&status.facts(&say)),
        section("pollers", "Pollers", &status.poller_table(&say), |_| None),
        section("sinks", "Sinks", &status.sink_table(&say), |_| None),
        section("gaps", "Open gaps", &gaps(&snapshot.gaps, zone), |_| None),
        section("changes", "Latest changes", &changes(&snapshot.changes, zone), changed),
        tools(zone),
    ]
}

fn health(state: &str, sentence: &str, reasons: &[String]) -> Part {
    let html = html! {
        section #health data-part {
            h1 { "System" }
            p.verdict data-health=(state) { (sentence) }
            @if !reasons.is_empty() {
                ul.reasons { @for reason in reasons { li { (message(reason)) } } }
            }
        }
    };
    ("health", html)
}

fn facts(facts: &[(&str, String)]) -> Part {
    let html = html! {
        section #facts data-part {
            dl.record { @for (label, text) in facts { dt { (words::field(label)) } dd { (message(text)) } } }
        }
    };
    ("facts", html)
}

fn tools(zone: &TimeZone) -> Part {
    let html = html! {
        p.note #tools data-part {
            "Times are those of " (zone_name(zone)) ". For tools: " a href="metrics" { "metrics" } ", "
            a href="api/status" { "status as JSON" } ", " a href="readyz" { "readyz" } ", "
            a href="healthz" { "healthz" } ". In a terminal: " code { "shopmirror status" } "."
        }
    };
    ("tools", html)
}

/// A table with its notes; `link` is where the id of a row leads.
fn section(
    id: &'static str,
    title: &str,
    table: &Table,
    link: impl Fn(usize) -> Option<String>,
) -> Part {
    let heading = format!("{id}-title");
    let html = html! {
        section id=(id) data-part aria-labelledby=(heading) {
            h2 id=(heading) { (title) }
            @match table.rows.first() {
                None => p { (table.empty) },
                Some(heads) => {
                    // The roles stay when narrow screens lay the rows out as blocks.
                    table role="table" {
                        thead role="rowgroup" {
                            tr role="row" { @for (head, _) in heads { th role="columnheader" scope="col" { (words::field(head)) } } }
                        }
                        tbody role="rowgroup" {
                            @for (index, row) in table.rows.iter().enumerate() { (cells(row, link(index).as_deref())) }
                        }
                    }
                }
            }
            @for note in &table.notes { p.note { (message(note)) } }
        }
    };
    (id, html)
}

/// One row; its first cell is its heading.
fn cells(row: &[(&'static str, String)], link: Option<&str>) -> Markup {
    html! {
        tr role="row" {
            @for (index, (head, text)) in row.iter().enumerate() {
                @let label = words::field(head);
                @if index == 0 {
                    th role="rowheader" scope="row" data-label=(label) { (shown(text)) }
                } @else {
                    td role="cell" data-label=(label) {
                        @match (*head, link) {
                            ("id", Some(address)) => a href=(address) { (shown(text)) },
                            ("state", _) => span.state data-good=(text == "ok" || text == "active") { (shown(text)) },
                            _ => (shown(text)),
                        }
                    }
                }
            }
        }
    }
}

fn local(at: Timestamp, zone: &TimeZone, form: &str) -> String {
    at.to_zoned(zone.clone()).strftime(form).to_string()
}

/// A stamp of the store as a time of the shop.
fn clock(stamp: &str, zone: &TimeZone) -> String {
    let at = stamp.parse().map(|at| local(at, zone, "%Y-%m-%d %H:%M:%S"));
    at.unwrap_or_else(|_| stamp.to_owned())
}

fn gaps(gaps: &[Gap], zone: &TimeZone) -> Table {
    let row = |gap: &Gap| {
        vec![
            ("gap", gap.id.to_string()),
            ("route", poller_name(&gap.route, gap.business.as_deref())),
            ("from", clock(&gap.from_at, zone)),
            ("to", clock(&gap.to_at, zone)),
            ("about missing", gap.estimate.map_or_else(|| "?".to_owned(), whole)),
            ("found", whole(gap.repaired)),
        ]
    };
    let rows: Vec<_> = gaps.iter().take(GAPS_SHOWN).map(row).collect();
    let mut notes = Vec::new();
    if gaps.len() > rows.len() {
        notes.push(format!("{} are open.", count(gaps.len(), "gap", "gaps")));
    }
    if !rows.is_empty() {
        let text = "Records may have been missed in these times: `shopmirror gaps` explains each.";
        notes.push(text.to_owned());
    }
    Table { rows, empty: "None: no records are known to be missing.", notes }
}

fn changes(changes: &[Change], zone: &TimeZone) -> Table {
    let row = |change: &Change| {
        vec![
            ("no.", change.seq.to_string()),
            ("when", clock(&change.observed_at, zone)),
            ("route", poller_name(change.route.as_str(), change.business.as_deref())),
            ("kind", change.kind.to_string()),
            ("id", change.record_id.clone().unwrap_or_else(|| "-".to_owned())),
            ("version", change.version.to_string()),
        ]
    };
    let rows = changes.iter().map(row).collect();
    Table { rows, empty: "The log is empty.", notes: Vec::new() }
}
