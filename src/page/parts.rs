//! The parts of the page. Each can be replaced by itself while the page is open.
//!
//! A part shows counts, states and ids. Every value goes through maud, which escapes it; foreign
//! text goes through [`shown`] as well.

use jiff::Timestamp;
use maud::{Markup, html};

use super::pictures;
use super::ready;
use super::request::link;
use super::snapshot::{GAPS_SHOWN, LatestChange, Snapshot};
use super::text::{bytes, count, message, number, shown};
use crate::budget::BudgetStatus;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::duration::seconds as span;
use crate::poll::{PollerState, PollerStatus};
use crate::status::{Health, WorkspaceStatus};
use crate::store::Gap;

/// The title of the window: the shop and its health.
pub(super) fn title(shop: &str, snapshot: &Snapshot) -> String {
    format!("{}: {}", shown(shop), word(snapshot.status.health))
}

/// The title while the daemon's tasks do not answer.
pub(super) fn stuck_title(shop: &str) -> String {
    format!("{}: no response", shown(shop))
}

/// What a live viewer is sent.
pub(super) fn live(shop: &str, snapshot: &Snapshot, shows_records: bool) -> Markup {
    html! { title { (title(shop, snapshot)) } (all(snapshot, shows_records)) }
}

/// What a live viewer is sent while the daemon's tasks do not answer.
pub(super) fn stuck_live(shop: &str) -> Markup {
    html! { title { (stuck_title(shop)) } (stuck()) }
}

/// What the page says while the daemon's tasks do not answer.
pub(super) fn stuck() -> Markup {
    html! {
        section #health data-part {
            p.verdict data-health="failing" { "The daemon's tasks do not answer." }
            ul.reasons { li { "Look at the daemon's log, then restart it." } }
        }
    }
}

/// Every part in its order. Ids link to their records if those may be shown.
pub(super) fn all(snapshot: &Snapshot, shows_records: bool) -> Markup {
    let status = &snapshot.status;
    html! {
        section #health data-part { (health(status)) }
        section #pollers data-part aria-labelledby="pollers-title" { (pollers(status)) }
        section #budget data-part aria-labelledby="budget-title" { (budget(status.budget.as_ref())) }
        section #store data-part aria-labelledby="store-title" { (store(snapshot)) }
        section #sinks data-part aria-labelledby="sinks-title" { (sinks(&status.sinks)) }
        section #gaps data-part aria-labelledby="gaps-title" { (gaps(snapshot)) }
        section #changes data-part aria-labelledby="changes-title" { (changes(snapshot, shows_records)) }
    }
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Ok => "ok",
        Health::Degraded => "degraded",
        Health::AtRisk => "at risk",
        Health::Failing => "failing",
    }
}

fn health(status: &WorkspaceStatus) -> Markup {
    html! {
        p.verdict data-health=(word(status.health)) { (ready::sentence(status)) }
        @if !status.reasons.is_empty() {
            ul.reasons { @for reason in &status.reasons { li { (message(reason)) } } }
        }
    }
}

fn table(heads: &[&str], rows: &[Markup]) -> Markup {
    // The roles stay when narrow screens lay the rows out as blocks.
    html! {
        table role="table" {
            thead role="rowgroup" {
                tr role="row" { @for head in heads { th role="columnheader" scope="col" { (head) } } }
            }
            tbody role="rowgroup" { @for row in rows { tr role="row" { (row) } } }
        }
    }
}

fn cell(label: &str, value: &str) -> Markup {
    html! { td role="cell" data-label=(label) { (value) } }
}

fn numeric(label: &str, value: &str) -> Markup {
    html! { td.number role="cell" data-label=(label) { (value) } }
}

fn state(label: &str, state: &str, is_good: bool) -> Markup {
    html! {
        td role="cell" data-label=(label) { span.state data-good=(is_good) { (shown(state)) } }
    }
}

fn pollers(status: &WorkspaceStatus) -> Markup {
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
    let rows: Vec<Markup> = status.pollers.iter().map(|p| poller(&heads, p)).collect();
    html! {
        h2 #pollers-title { "Pollers" }
        (table(&heads, &rows))
        @for poller in &status.pollers {
            @if let Some(error) = &poller.last_error_text {
                p.note { strong { (shown(&poller.name())) } ": last error: " (message(error)) }
            }
        }
    }
}

fn poller(heads: &[&str; 8], poller: &PollerStatus) -> Markup {
    let seconds = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), span);
    let read = poller.last_read(ago);
    let next = match poller.next_poll_s {
        Some(wait) if wait >= 0.5 => format!("in {}", span(wait.round())),
        _ => "now".to_owned(),
    };
    let rate = poller.rate_per_hour.map_or_else(|| "–".to_owned(), per_hour);
    let word = poller.state.as_str();
    html! {
        th role="rowheader" scope="row" data-label=(heads[0]) { (shown(&poller.name())) }
        (state(heads[1], &word.replace('_', " "), poller.state == PollerState::Ok))
        (numeric(heads[2], &read))
        (numeric(heads[3], &seconds(poller.interval_s)))
        (numeric(heads[4], &seconds(poller.guarantee_s())))
        (numeric(heads[5], &next))
        (numeric(heads[6], &rate))
        (numeric(heads[7], &number(poller.gaps)))
    }
}

/// A rate with as many digits as mean something.
fn per_hour(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}") } else { number(rate.round() as i64) }
}

fn ago(seconds: f64) -> String {
    if seconds < 1.0 { "just now".to_owned() } else { format!("{} ago", span(seconds.floor())) }
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
            (pictures::hour(budget))
        } @else {
            p { "Not known." }
        }
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

fn store(snapshot: &Snapshot) -> Markup {
    let status = &snapshot.status;
    let records: i64 = status.records.values().sum();
    html! {
        h2 #store-title { "Store" }
        dl {
            dt { "Records" } dd { (number(records)) }
            @for (route, count) in &status.records {
                dt.minor { (shown(route)) } dd { (number(*count)) }
            }
            dt { "Changes in the log" } dd { (number(status.last_seq)) }
            dt { "Database" } dd { (bytes(snapshot.store_bytes)) }
            dt { "Write-ahead log" } dd { (bytes(snapshot.wal_bytes)) }
            @if let Some(backup) = &status.backup {
                dt { "Last backup" } dd { (backup.last_at.as_deref().map_or_else(|| "none yet".to_owned(), clock)) }
                @if let Some(next) = &backup.next_at { dt { "Next backup" } dd { (clock(next)) } }
            }
            @for report in &status.reports {
                dt { "Report " (shown(&report.name)) ", next" } dd { (clock(&report.next_at)) }
            }
        }
        @if let Some(error) = status.backup.as_ref().and_then(|backup| backup.last_error.as_deref()) {
            p.note { strong { "The last backup failed" } ": " (message(error)) }
        }
    }
}

fn sinks(sinks: &[SinkStatus]) -> Markup {
    let heads = ["Sink", "State", "Backlog", "Delivered", "Retrying", "Dead letters"];
    let rows: Vec<Markup> = sinks
        .iter()
        .map(|sink| {
            let word = sink.state.as_str();
            html! {
                th role="rowheader" scope="row" data-label=(heads[0]) {
                    (shown(&sink.name)) " " span.kind { (shown(&sink.type_name)) }
                }
                (state(heads[1], word, sink.state == SinkActivity::Active))
                (numeric(heads[2], &number(sink.behind)))
                (numeric(heads[3], &number(sink.delivered)))
                (numeric(heads[4], &number(sink.retrying)))
                (numeric(heads[5], &number(sink.dead)))
            }
        })
        .collect();
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

fn gaps(snapshot: &Snapshot) -> Markup {
    let heads = ["Gap", "Route", "From", "To", "Records", "Found since"];
    let rows: Vec<Markup> = snapshot.gaps.iter().map(|gap| gap_row(&heads, gap)).collect();
    html! {
        h2 #gaps-title { "Open gaps" }
        (pictures::timeline(&snapshot.all_gaps, snapshot.status.at.parse().unwrap_or_default()))
        @if rows.is_empty() {
            p { "None: no records are known to be missing." }
        } @else {
            p { "Records may have been missed in these times. " code { "shopmirror gaps" } " explains each." }
            (table(&heads, &rows))
            @if snapshot.open_gaps > GAPS_SHOWN {
                p.note { (count((snapshot.open_gaps - GAPS_SHOWN) as i64, "more gap is", "more gaps are")) " open." }
            }
        }
    }
}

fn gap_row(heads: &[&str; 6], gap: &Gap) -> Markup {
    let route = match &gap.business {
        Some(business) => format!("{}@{business}", gap.route),
        None => gap.route.to_string(),
    };
    let records = gap.estimate.map_or_else(|| "unknown".to_owned(), |n| format!("about {n}"));
    html! {
        th role="rowheader" scope="row" data-label=(heads[0]) { (gap.id) }
        (cell(heads[1], &shown(&route)))
        (cell(heads[2], &clock(&gap.from_at)))
        (cell(heads[3], &clock(&gap.to_at)))
        (numeric(heads[4], &records))
        (numeric(heads[5], &number(gap.repaired)))
    }
}

fn changes(snapshot: &Snapshot, shows_records: bool) -> Markup {
    let heads = ["No.", "When", "Route", "Kind", "Id", "Version"];
    let now = snapshot.status.at.parse::<Timestamp>().ok();
    let rows: Vec<Markup> =
        snapshot.changes.iter().map(|c| change_row(&heads, c, now, shows_records)).collect();
    html! {
        h2 #changes-title { "Latest changes" }
        @if rows.is_empty() { p { "The log is empty." } } @else { (table(&heads, &rows)) }
    }
}

fn change_row(
    heads: &[&str; 6],
    change: &LatestChange,
    now: Option<Timestamp>,
    shows_records: bool,
) -> Markup {
    let age = now.and_then(|now| {
        let at: Timestamp = change.observed_at.parse().ok()?;
        Some(ago(now.duration_since(at).as_secs_f64()))
    });
    let route = match &change.business {
        Some(business) => format!("{}@{business}", change.route),
        None => change.route.clone(),
    };
    html! {
        th role="rowheader" scope="row" data-label=(heads[0]) { (change.seq) }
        td role="cell" data-label=(heads[1]) {
            time datetime=(shown(&change.observed_at)) title=(clock(&change.observed_at)) {
                (age.unwrap_or_else(|| clock(&change.observed_at)))
            }
        }
        (cell(heads[2], &shown(&route)))
        (cell(heads[3], &change.kind))
        td role="cell" data-label=(heads[4]) {
            @match &change.record_id {
                Some(id) if shows_records => {
                    a href=(link("record", &[("route", &change.route), ("id", id)])) { (shown(id)) }
                }
                Some(id) => (shown(id)),
                None => "–",
            }
        }
        (numeric(heads[5], &change.version.to_string()))
    }
}

/// A time stamp of the store to the second, with its zone.
fn clock(stamp: &str) -> String {
    stamp
        .parse::<Timestamp>()
        .map_or_else(|_| shown(stamp), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}
