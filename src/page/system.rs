//! The page System: what `shopmirror status` prints, with the open gaps, for who runs the program.
//!
//! It shows counts, states and ids. Every value goes through maud, which escapes it, and through
//! [`shown`]. Times are clock times, so that a part does not change with every second.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use shopmirror_core::record::poller_name;

use super::context::PageContext;
use super::text::{message, shown, zone_name};
use super::words;
use crate::status::{SayTime, Table};
use crate::store::{Gap, word};
use crate::text::number::whole;

/// Open gaps that are listed.
const GAPS_SHOWN: usize = 20;
/// A time that is farther away than this is written with its day.
const SAME_DAY_S: f64 = 12.0 * 3600.0;

/// The parts of the page as it is now.
pub(super) async fn parts(context: &PageContext) -> Vec<Markup> {
    let Some(status) = context.status().await else {
        let advice = ["Look at the daemon's log, then restart it.".to_owned()];
        return vec![health(
            "failing",
            "The daemon's tasks do not answer.",
            &advice,
        )];
    };
    let zone = &context.page.zone;
    let now: Timestamp = status.at.parse().unwrap_or_default();
    let say = |seconds: f64| {
        let moved = SignedDuration::try_from_secs_f64(seconds).and_then(|by| now.checked_add(by));
        let form = if seconds.abs() < SAME_DAY_S {
            "%H:%M:%S"
        } else {
            "%Y-%m-%d %H:%M"
        };
        let local = |at: Timestamp| {
            at.to_zoned_datetime(zone.clone())
                .strftime(form)
                .to_string()
        };
        moved.map_or_else(|_| "-".to_owned(), local)
    };
    vec![
        health(
            &word(&status.health).replace('_', " "),
            &status.sentence(),
            &status.reasons,
        ),
        facts(&status.facts(&say)),
        section("pollers", "Pollers", &status.poller_table(&say)),
        section("sinks", "Sinks", &status.sink_table(&say)),
        section("gaps", "Open gaps", &gaps(&status.gaps, now, &say)),
        tools(zone),
    ]
}

fn health(state: &str, sentence: &str, reasons: &[String]) -> Markup {
    html! {
        section #health data-part {
            h1 { "System" }
            p.verdict data-health=(state) { (sentence) }
            @if !reasons.is_empty() {
                ul.reasons { @for reason in reasons { li { (message(reason)) } } }
            }
        }
    }
}

fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        section #facts data-part {
            dl.record { @for (label, text) in facts { dt { (words::field(label)) } dd { (message(text)) } } }
        }
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

/// A table with its notes.
fn section(id: &str, title: &str, table: &Table) -> Markup {
    let heading = format!("{id}-title");
    html! {
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
                        tbody role="rowgroup" { @for row in &table.rows { (cells(row)) } }
                    }
                }
            }
            @for note in &table.notes { p.note { (message(note)) } }
        }
    }
}

/// One row; its first cell is its heading.
fn cells(row: &[(&'static str, String)]) -> Markup {
    html! {
        tr role="row" {
            @for (index, (head, text)) in row.iter().enumerate() {
                @let label = words::field(head);
                @if index == 0 {
                    th role="rowheader" scope="row" data-label=(label) { (shown(text)) }
                } @else {
                    td role="cell" data-label=(label) {
                        @if *head == "state" { span.state data-good=(text == "ok" || text == "active") { (shown(text)) } }
                        @else { (shown(text)) }
                    }
                }
            }
        }
    }
}

fn gaps(gaps: &[Gap], now: Timestamp, say: SayTime<'_>) -> Table {
    let at = |stamp: &str| {
        let at = stamp.parse::<Timestamp>();
        at.map_or_else(
            |_| "-".to_owned(),
            |at| say(at.duration_since(now).as_secs_f64()),
        )
    };
    let row = |gap: &Gap| {
        vec![
            ("gap", gap.id.to_string()),
            ("route", poller_name(&gap.route, gap.business.as_deref())),
            ("from", at(&gap.from_at)),
            ("to", at(&gap.to_at)),
            (
                "about missing",
                gap.estimate.map_or_else(|| "?".to_owned(), whole),
            ),
            ("found", whole(gap.repaired)),
        ]
    };
    let text = "Records may have been missed in these times: `shopmirror gaps` explains each.";
    Table {
        rows: gaps.iter().take(GAPS_SHOWN).map(row).collect(),
        empty: "None: no records are known to be missing.",
        notes: gaps.first().map(|_| text.to_owned()).into_iter().collect(),
    }
}
