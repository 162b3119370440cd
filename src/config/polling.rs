//! `[budget]`, `[poll]`, `[routes.ROUTE]` and `[once]`: the number of requests, and their times.

use std::time::Duration;

use serde::Deserialize;
use shopmirror_core::budget::BudgetSettings;
use shopmirror_core::record::Route;

use super::table::Table;
use super::value::{DAY_MS, lasting, number, seconds, within};
use crate::text::duration;

#[derive(Deserialize)]
struct RawBudget {
    #[serde(
        default = "number::<60, _>",
        deserialize_with = "within::<1, 1_000_000, _, _>"
    )]
    requests_per_minute: u32,
    #[serde(default = "number::<15, _>")]
    reserve: u32,
}

/// `[poll]`: the settings of all routes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct PollSettings {
    /// Shortest time between two polls of a route.
    #[serde(
        default = "seconds::<1>",
        deserialize_with = "lasting::<100, DAY_MS, _, _>"
    )]
    pub min_interval: Duration,
    /// Longest time between two polls of a route. In 90 seconds a client can create 90 records, one
    /// per second, which is all that the key allows. They fit on one page with some stored records,
    /// even on a route that was quiet.
    #[serde(
        default = "seconds::<90>",
        deserialize_with = "lasting::<100, DAY_MS, _, _>"
    )]
    pub max_interval: Duration,
    /// Records per page, 1 to 100 (contract, "Limits").
    #[serde(
        default = "number::<100, _>",
        deserialize_with = "within::<1, 100, _, _>"
    )]
    pub limit: u32,
    /// The longest time that one request may take in total.
    #[serde(
        default = "seconds::<20>",
        deserialize_with = "lasting::<100, 600_000, _, _>"
    )]
    pub timeout: Duration,
}

/// `[routes.NAME]` joined with the defaults of `[poll]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RouteSettings {
    /// The route.
    #[serde(skip, default = "any_route")]
    pub route: Route,
    /// Shortest time between two polls.
    #[serde(default, deserialize_with = "lasting::<100, DAY_MS, _, _>")]
    pub min_interval: Duration,
    /// Longest time between two polls.
    #[serde(default, deserialize_with = "lasting::<100, DAY_MS, _, _>")]
    pub max_interval: Duration,
    /// A fixed interval instead of the adaptive one.
    #[serde(default, deserialize_with = "lasting::<100, DAY_MS, _, _>")]
    pub every: Option<Duration>,
    /// Top-level fields whose changes do not make a new version of a record.
    #[serde(default)]
    pub ignore: Vec<String>,
    #[serde(default = "yes")]
    enabled: bool,
}

#[derive(Deserialize)]
struct Once {
    // A cron job runs at most once per minute, and a shop wants its records within a week.
    #[serde(default, deserialize_with = "lasting::<1000, { 7 * DAY_MS }, _, _>")]
    every: Option<Duration>,
}

fn any_route() -> Route {
    Route::Jobs
}

fn yes() -> bool {
    true
}

/// `[budget]`
pub(super) fn budget(table: &Table<'_>) -> Option<BudgetSettings> {
    let raw: RawBudget = table.read(&[])?;
    let per_minute = raw.requests_per_minute;
    let mut reserve = raw.reserve;
    if !table.has("reserve") {
        reserve = reserve.min(per_minute / 4);
    }
    if reserve >= per_minute {
        table.note(
            "reserve",
            format!(
                "must be less than requests_per_minute, which is {per_minute}: otherwise no \
                 request is left for polls"
            ),
        );
    }
    Some(BudgetSettings {
        requests_per_minute: per_minute,
        reserve,
    })
}

/// `[routes]`: the enabled ones, in the order of [`Route::ALL`]. `poll` is the section `[poll]`, if
/// it can be read.
pub(super) fn routes(table: &Table<'_>, poll: Option<&PollSettings>) -> Vec<RouteSettings> {
    let mut routes = Vec::new();
    for route in Route::ALL {
        routes.extend(table.section(route.as_str(), |own| self::route(route, own, poll)));
    }
    if routes.len() == Route::ALL.len() && routes.iter().all(|route| !route.enabled) {
        table.note_here("every route has enabled = false: enable at least one");
    }
    routes.retain(|route| route.enabled);
    routes
}

fn route(route: Route, table: &Table<'_>, poll: Option<&PollSettings>) -> Option<RouteSettings> {
    let mut read = RouteSettings {
        route,
        ..table.read(&[])?
    };
    let poll = poll.copied().unwrap_or_default();
    if !table.has("min_interval") {
        read.min_interval = poll.min_interval;
    }
    if !table.has("max_interval") {
        read.max_interval = poll.max_interval;
    }
    if read.every.is_some() {
        for key in ["min_interval", "max_interval"] {
            if table.has(key) {
                table.warn(key, "has no effect beside `every`: remove one of them");
            }
        }
    } else {
        warn_of_contradiction(table, read.min_interval, read.max_interval);
    }
    read.max_interval = read.max_interval.max(read.min_interval);
    Some(read)
}

/// `[poll]`
pub(super) fn poll(table: &Table<'_>) -> Option<PollSettings> {
    let read: PollSettings = table.read(&[])?;
    warn_of_contradiction(table, read.min_interval, read.max_interval);
    Some(read)
}

/// Warns of a shortest time between two polls that is longer than the longest, if this table names
/// one of them.
fn warn_of_contradiction(table: &Table<'_>, shortest: Duration, longest: Duration) {
    if shortest <= longest {
        return;
    }
    if table.has("min_interval") {
        let longest = duration::exact(longest);
        table.warn(
            "min_interval",
            format!("is longer than max_interval, {longest}, which has no effect then"),
        );
    } else if table.has("max_interval") {
        table.warn(
            "max_interval",
            "is shorter than min_interval and has no effect then",
        );
    }
}

/// `[once]`: how often a timer runs `shopmirror once`.
pub(super) fn once(table: &Table<'_>) -> Option<Duration> {
    table.read::<Once>(&[])?.every
}
