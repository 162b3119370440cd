//! What `why` and `plan` print. Pure: views in, text out.

use std::fmt::Write as _;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::budget::BudgetStatus;
use crate::duration::seconds as span;
use crate::plan::{Forecast, PollerView};

/// What to do when records may be missed.
const RAISE: &str =
    "Raise [budget] requests_per_minute, lower reserve, or disable a route that is not needed";

/// How often each poller is polled and whether that keeps every page from overflowing, as a table
/// and a verdict.
#[must_use]
pub(super) fn plan(
    pollers: &[(String, PollerView)],
    forecast: &Forecast,
    budget_per_minute: f64,
    thrift: bool,
) -> String {
    let mut table = columns(&[
        "poller",
        "records an hour",
        "likely",
        "of the budget",
        "planned every",
        "polled every",
        "at the latest",
        "import up to",
        "overflows seen",
        "page reaches back",
    ]);
    for (name, view) in pollers {
        let part = 60.0 / view.interval_s.max(1e-3) / budget_per_minute.max(1e-9);
        table.add_row([
            name.clone(),
            rate(view.rate_per_hour),
            format!("{} to {}", rate(view.rate_low), rate(view.rate_high)),
            format!("{:.1} %", part * 100.0),
            span(view.interval_s),
            view.kept_interval_s.map_or_else(|| "-".to_owned(), span),
            span(view.guarantee_s),
            format!("{}/min", rate(view.import_per_minute)),
            overflows(view),
            span(view.horizon_s),
        ]);
    }
    let mut text = format!("{table}\n\n{}\n", verdict(pollers, forecast, budget_per_minute));
    for said in too_small(pollers, budget_per_minute) {
        text.push_str(&said);
        text.push('\n');
    }
    if thrift {
        text.push_str(
            "poll.thrift is on: in quiet hours a route may wait as long as its guarantee allows. Records then arrive later, and more of an import that starts then can be missed\n",
        );
    }
    text
}

/// Names of pollers in one sentence; the others are counted.
const MOST_NAMES: usize = 6;

/// Says for which pollers the budget is too small to keep their `max_interval` or `every`, if it is,
/// and what to do: one sentence for each setting, with the longest wait.
#[must_use]
pub(super) fn too_small(pollers: &[(String, PollerView)], budget_per_minute: f64) -> Vec<String> {
    let mut alike: Vec<(String, f64, Vec<&str>)> = Vec::new();
    for (name, view) in pollers {
        let Some(asked_s) = view.unkept_max_interval_s else { continue };
        let (waits_s, asked) = (view.guarantee_s.max(asked_s), span(asked_s));
        match alike.iter_mut().find(|group| group.0 == asked) {
            Some((_, longest_s, names)) => {
                *longest_s = longest_s.max(waits_s);
                names.push(name);
            }
            None => alike.push((asked, waits_s, vec![name])),
        }
    }
    let said = alike.into_iter().map(|(asked, longest_s, names)| {
        let named = names[..names.len().min(MOST_NAMES)].join(", ");
        let more = names.len().saturating_sub(MOST_NAMES);
        let named = if more > 0 { format!("{named} and {more} more") } else { named };
        format!(
            "{named} may wait up to {}, not {asked} as set by max_interval or every: {budget_per_minute:.1} polls a minute are too few to keep that for all routes. Raise the shortest max_interval or every, raise requests_per_minute, lower reserve, or disable a route",
            span(longest_s)
        )
    });
    said.collect()
}

fn verdict(
    pollers: &[(String, PollerView)],
    forecast: &Forecast,
    budget_per_minute: f64,
) -> String {
    let needed = forecast.load * 100.0;
    let budget = format!("{budget_per_minute:.1} polls a minute");
    let failing = forecast.first_to_fail.and_then(|place| pollers.get(place));
    match failing {
        None if forecast.feasible => format!(
            "ok: at the rates seen no page overflows. That needs {needed:.1} % of {budget}; the rest makes records arrive sooner"
        ),
        None => format!("at risk: the rates seen need {needed:.1} % of {budget}. {RAISE}"),
        Some((name, view)) => format!(
            "at risk: records of {name} may be missed. With {budget} it is polled every {} at the latest, but a page can fill faster. {RAISE}",
            span(view.guarantee_s)
        ),
    }
}

/// What `plan --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Plan<'p> {
    /// What polls are granted, in requests a minute.
    budget_per_minute: f64,
    /// Whether the budget is enough to lose no records of any route.
    feasible: bool,
    /// The part of the budget without which pages would overflow at the rates seen; 1 is all of it.
    load: f64,
    /// The poller that misses records first; null while the budget is enough.
    first_to_fail: Option<&'p str>,
    /// One entry for each poller.
    pollers: Vec<PlannedPoller<'p>>,
}

/// One poller of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PlannedPoller<'p> {
    /// The poller: the route, or `route@business`.
    poller: &'p str,
    /// What the schedule knows and plans.
    plan: &'p PollerView,
}

/// The plan for programs.
#[must_use]
pub(super) fn plan_json<'p>(
    pollers: &'p [(String, PollerView)],
    forecast: &Forecast,
    budget_per_minute: f64,
) -> Plan<'p> {
    let failing = forecast.first_to_fail.and_then(|place| pollers.get(place));
    Plan {
        budget_per_minute,
        feasible: forecast.feasible,
        load: forecast.load,
        first_to_fail: failing.map(|(name, _)| name.as_str()),
        pollers: pollers.iter().map(|(name, plan)| PlannedPoller { poller: name, plan }).collect(),
    }
}

/// Why a poller is polled when it is, in sentences.
#[must_use]
pub(super) fn why(
    name: &str,
    view: &PollerView,
    budget: &BudgetStatus,
    forecast: &Forecast,
    running: bool,
) -> String {
    let mut text = String::new();
    let mut line = |label: &str, words: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{label:<12}{words}");
    };
    line("poller", name.to_owned());
    line(
        "rate",
        format!(
            "{} new records an hour (likely range: {} to {})",
            rate(view.rate_per_hour),
            rate(view.rate_low),
            rate(view.rate_high)
        ),
    );
    line("interval", format!("planned every {}: {}", span(view.interval_s), view.reason));
    line(
        "measured",
        match (view.kept_interval_s, view.longest_kept_s) {
            (Some(mean), Some(longest)) => {
                format!(
                    "every {} on average over the last polls, at most {}",
                    span(mean),
                    span(longest)
                )
            }
            _ => "not polled often enough yet".to_owned(),
        },
    );
    line(
        "guarantee",
        format!(
            "at the latest every {}; an import of up to {} records a minute fits on a page",
            span(view.guarantee_s),
            rate(view.import_per_minute)
        ),
    );
    line("overflow", overflow(view));
    line(
        "next poll",
        match view.next_poll_s {
            _ if !running => "after the daemon is started; it is not running".to_owned(),
            None => "the request is under way".to_owned(),
            Some(left) if left < 0.5 => "now, with the next free request of the budget".to_owned(),
            Some(left) => format!("in {}", span(left)),
        },
    );
    line(
        "reach",
        format!(
            "a record stays on the page for about {}; after that, changes to it are not seen on this route",
            span(view.horizon_s)
        ),
    );
    let left =
        budget.remaining_seen.map_or_else(|| "unknown number".to_owned(), |left| left.to_string());
    line(
        "budget",
        format!(
            "{:.1} polls a minute now; {} of {} requests used in the last minute, {left} left on the key; other clients use about {:.1} per minute",
            budget.pace_per_minute, budget.used_last_60s, budget.limit, budget.others_per_minute
        ),
    );
    if let Some(rest) = budget.resting_s {
        line(
            "resting",
            format!("Retry-After of the server stops all requests for another {}", span(rest)),
        );
    }
    line(
        "forecast",
        if view.at_risk {
            format!("at risk: records of {name} may be missed. {RAISE}")
        } else if forecast.feasible {
            "ok: at the rates seen no page overflows".to_owned()
        } else {
            "at risk on another route: see `shopmirror plan`".to_owned()
        },
    );
    text
}

fn overflows(view: &PollerView) -> String {
    if view.watched_s <= 0.0 {
        return "not watched yet".to_owned();
    }
    format!("{} in {}", view.overflows_seen, span(view.watched_s))
}

fn overflow(view: &PollerView) -> String {
    if view.watched_s <= 0.0 {
        return "not known yet: the daemon has not read two different pages of this route"
            .to_owned();
    }
    let watched = span(view.watched_s);
    let polls = (1.0 / view.overflow_chance.max(1e-9)).floor();
    let chance = format!("estimated chance: about 1 in {polls:.0} polls");
    match view.overflows_seen {
        0 => format!("no page filled within the guarantee in the {watched} watched; {chance}"),
        1 => format!("a page filled within the guarantee once in the {watched} watched; {chance}"),
        n => format!(
            "a page filled within the guarantee {n} times in the {watched} watched; {chance}"
        ),
    }
}

fn columns(names: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(names);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn rate(per_hour: f64) -> String {
    if per_hour >= 10.0 { format!("{per_hour:.0}") } else { format!("{per_hour:.2}") }
}
