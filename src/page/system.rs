//! The page System: what `shopmirror status` prints, with the open gaps, for the person who runs
//! the program.
//!
//! It shows counts, states and ids. Every value goes through maud, which escapes it, and through
//! [`shown`]. Times are clock times, so that a part does not change with every second.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use shopmirror_core::record::poller_name;

use super::context::PageContext;
use super::text::{label, message, shown, zone_name};
use crate::status::{FormatTime, StatusTable};
use crate::store::Gap;
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
    let clock_time = |seconds: f64| clock_time(now, seconds, zone);
    vec![
        health(
            &status.health.in_words(),
            &status.sentence(),
            &status.reasons,
        ),
        facts(&status.facts(&clock_time)),
        section("pollers", "Pollers", &status.poller_table(&clock_time)),
        section("sinks", "Sinks", &status.sink_table(&clock_time)),
        section("gaps", "Open gaps", &gaps(&status.gaps, now, &clock_time)),
        tools(zone),
    ]
}

/// The time that is `seconds` after `now`, as a clock in the shop shows it.
fn clock_time(now: Timestamp, seconds: f64, zone: &TimeZone) -> String {
    let moved = SignedDuration::try_from_secs_f64(seconds).and_then(|by| now.checked_add(by));
    let Ok(at) = moved else {
        return "-".to_owned();
    };
    let form = if seconds.abs() < SAME_DAY_S {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M"
    };
    at.to_zoned_datetime(zone.clone())
        .strftime(form)
        .to_string()
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
            dl.record {
                @for (name, text) in facts { dt { (label(name)) } dd { (message(text)) } }
            }
        }
    }
}

fn tools(zone: &TimeZone) -> Markup {
    html! {
        p.note #tools data-part {
            "Times are those of " (zone_name(zone)) ". For tools: "
            a href="metrics" { "metrics" } ", "
            a href="api/status" { "status as JSON" } ", "
            a href="readyz" { "readyz" } ", "
            a href="healthz" { "healthz" } ". In a terminal: " code { "shopmirror status" } "."
        }
    }
}

/// A table with its notes.
fn section(id: &str, title: &str, table: &StatusTable) -> Markup {
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
                            tr role="row" {
                                @for (head, _) in heads {
                                    th role="columnheader" scope="col" { (label(head)) }
                                }
                            }
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
                @if index == 0 {
                    th role="rowheader" scope="row" dir="auto" data-label=(label(head)) {
                        (shown(text))
                    }
                } @else {
                    td role="cell" dir="auto" data-label=(label(head)) {
                        @if *head == "state" {
                            @let is_good = text == "ok" || text == "active";
                            span.state data-good=(is_good) { (shown(text)) }
                        } @else {
                            (shown(text))
                        }
                    }
                }
            }
        }
    }
}

fn gaps(gaps: &[Gap], now: Timestamp, format_time: FormatTime<'_>) -> StatusTable {
    let mut rows = Vec::new();
    for gap in gaps.iter().take(GAPS_SHOWN) {
        let estimate = match gap.estimate {
            Some(records) => whole(records),
            None => "?".to_owned(),
        };
        rows.push(vec![
            ("gap", gap.id.to_string()),
            ("route", poller_name(&gap.route, gap.business.as_deref())),
            ("from", stamp_text(&gap.from_at, now, format_time)),
            ("to", stamp_text(&gap.to_at, now, format_time)),
            ("about missing", estimate),
            ("found", whole(gap.repaired)),
        ]);
    }
    let mut notes = Vec::new();
    if !gaps.is_empty() {
        let text = "Records may have been missed in these times: `shopmirror gaps` explains each.";
        notes.push(text.to_owned());
    }
    StatusTable {
        rows,
        empty: "None: no records are known to be missing.",
        notes,
    }
}

/// A stored time; `-` if it cannot be read.
fn stamp_text(stamp: &str, now: Timestamp, format_time: FormatTime<'_>) -> String {
    match stamp.parse::<Timestamp>() {
        Ok(at) => format_time(at.duration_since(now).as_secs_f64()),
        Err(_) => "-".to_owned(),
    }
}
