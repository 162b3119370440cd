//! What arrives in a simulation: synthetic shops, plain rates, or a recorded trace.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

/// A Monday, 00:00 UTC.
const MONDAY: i64 = 1_767_571_200;
const HOUR_S: f64 = 3600.0;
/// The longest simulation: ten years.
const MAX_SECONDS: f64 = 10.0 * 366.0 * 86_400.0;
/// Most synthetic records of one route; what would come after them does not arrive.
const MAX_ARRIVALS: usize = 5_000_000;
/// Most routes of a trace: those of 200 businesses.
const MAX_ROUTES: usize = 1_200;
/// The routes in the order of the contract.
const ROUTES: [&str; 6] = [
    "jobs",
    "customers",
    "leads",
    "payments",
    "job_status_changes",
    "outsourced_jobs",
];

/// The arrivals of one route.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RouteTraffic {
    /// The route's name.
    pub(crate) name: String,
    /// Seconds since the start, ascending.
    pub(crate) arrivals: Vec<f64>,
}

/// Everything that arrives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Traffic {
    /// The routes.
    pub(crate) routes: Vec<RouteTraffic>,
    /// How long the simulation lasts, in seconds.
    pub(crate) span_s: f64,
    /// The wall time at the start.
    pub(crate) start: Timestamp,
    /// Arrivals an hour on each route, hour by hour and then again from the first; empty if they
    /// are not known.
    pub(crate) known_rates: Vec<Vec<f64>>,
}

/// Seconds and id of one line of a trace.
type TraceLine<'a> = (f64, Cow<'a, str>);

/// A synthetic shop: opening hours, a morning rush, a short Saturday, a closed Sunday.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shop {
    /// One counter.
    Quiet,
    /// A large shop.
    Busy,
    /// Several branches on one workspace.
    Chain,
}

impl Shop {
    /// The shop of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "quiet" => Some(Self::Quiet),
            "busy" => Some(Self::Busy),
            "chain" => Some(Self::Chain),
            _ => None,
        }
    }

    /// Arrivals an hour on each route in ordinary opening hours.
    fn open_rates(self) -> [f64; 6] {
        match self {
            Self::Quiet => [4.0, 2.5, 6.0, 5.0, 24.0, 0.4],
            Self::Busy => [20.0, 12.0, 30.0, 25.0, 120.0, 2.0],
            Self::Chain => [100.0, 60.0, 150.0, 125.0, 600.0, 10.0],
        }
    }
}

/// How busy a shop is at an hour of the week, beside its ordinary opening hours.
fn opening(hour_of_week: usize) -> f64 {
    let (day, hour) = (hour_of_week / 24, hour_of_week % 24);
    match (day, hour) {
        (0..=4, 9 | 17) => 1.6,
        (0..=4, 10..=16) | (5, 10..=13) => 1.0,
        // Little but what an online form brings.
        _ => 0.001,
    }
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TraceError {
    /// A line is not `seconds,route,id`.
    #[error("trace line {line}: {problem}; a line is seconds,route,id")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The times of the records are too far apart.
    #[error(
        "the trace lasts over {years} years, and a simulation ten at most: correct the seconds, or give --hours to take the beginning"
    )]
    Long {
        /// From the first record to the last.
        years: u64,
    },
    /// The second field is no route.
    #[error(
        "the trace names {routes} routes, and a simulation has {MAX_ROUTES} at most: a line is seconds,route,id"
    )]
    Routes {
        /// Different names in the second field.
        routes: usize,
    },
    /// There is nothing to simulate.
    #[error("the trace holds no record; lab/README.md says how to make one")]
    Empty,
}

impl Traffic {
    /// Random arrivals whose rate an hour `rate(route, seconds)` gives; never above `most(route)`.
    /// At most ten years, at most five million records a route.
    pub(crate) fn random(
        names: &[&str],
        span_s: f64,
        seed: u64,
        most: impl Fn(usize) -> f64,
        rate: impl Fn(usize, f64) -> f64,
    ) -> Self {
        let span_s = sane_span(span_s);
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut arrivals_of = |route: usize| {
            let most = most(route) / HOUR_S;
            let (mut at, mut arrivals) = (0.0, Vec::new());
            if most <= 0.0 {
                return arrivals;
            }
            loop {
                at -= (1.0 - chance.f64()).ln() / most;
                if at >= span_s || arrivals.len() >= MAX_ARRIVALS {
                    break;
                }
                // Thinning: a candidate stays with the chance of its hour.
                if chance.f64() * most * HOUR_S < rate(route, at) {
                    arrivals.push(at);
                }
            }
            arrivals
        };
        let routes = names.iter().enumerate().map(|(route, name)| RouteTraffic {
            name: (*name).to_owned(),
            arrivals: arrivals_of(route),
        });
        Self {
            routes: routes.collect(),
            span_s,
            start: monday(),
            known_rates: Vec::new(),
        }
    }

    /// Constant rates an hour, in the order of the routes.
    pub(crate) fn rates(per_hour: &[f64], hours: f64, seed: u64) -> Self {
        let names: Vec<String> = (0..per_hour.len())
            .map(|route| {
                ROUTES
                    .get(route)
                    .map_or_else(|| format!("route_{}", route + 1), ToString::to_string)
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sane = |route: usize| {
            if per_hour[route].is_finite() {
                per_hour[route]
            } else {
                0.0
            }
        };
        let known_rates = vec![
            (0..per_hour.len())
                .map(|route| sane(route).max(0.0))
                .collect(),
        ];
        let traffic = Self::random(&names, hours * HOUR_S, seed, sane, |route, _| {
            per_hour[route]
        });
        Self {
            known_rates,
            ..traffic
        }
    }

    /// A synthetic shop, beginning on a Monday at midnight.
    pub(crate) fn shop(shop: Shop, hours: f64, seed: u64) -> Self {
        let rates = shop.open_rates();
        let busiest = 1.6;
        let at_hour = |hour: usize| rates.iter().map(|rate| rate * opening(hour)).collect();
        let known_rates = (0..168).map(at_hour).collect();
        let traffic = Self::random(
            &ROUTES,
            hours * HOUR_S,
            seed,
            |route| rates[route] * busiest,
            |route, at| rates[route] * opening((at / HOUR_S) as usize % 168),
        );
        Self {
            known_rates,
            ..traffic
        }
    }

    /// A trace: lines of `seconds,route,id`, seconds from any start or Unix time, in any order; a
    /// repeated id is one arrival, the first. A heading is allowed. `hours` cuts it short or
    /// prolongs it. A daemon polls all routes of a business, so those on which nothing arrived are
    /// added.
    ///
    /// # Errors
    /// The first line that is no such thing, with its number, or why all of them together are none.
    pub(crate) fn from_trace(text: &str, hours: Option<f64>) -> Result<Self, TraceError> {
        let mut routes: BTreeMap<Cow<'_, str>, Vec<TraceLine<'_>>> = BTreeMap::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (place, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || (place == 0 && line.starts_with("seconds")) {
                continue;
            }
            let wrong = |problem: &str| TraceError::Line {
                line: place + 1,
                problem: problem.into(),
            };
            let (seconds, rest) = line
                .split_once(',')
                .ok_or_else(|| wrong("there is no route"))?;
            let (route, id) = route_and_id(rest.trim()).map_err(wrong)?;
            let id = unquoted(id).ok_or_else(|| wrong("a quote of the id is not closed"))?;
            let seconds = seconds
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|seconds| (0.0..1e11).contains(seconds))
                .ok_or_else(|| wrong("the first field is not a number of seconds"))?;
            routes.entry(route).or_default().push((seconds, id));
        }
        let times = || routes.values().flatten().map(|(seconds, _)| *seconds);
        let first = times().fold(f64::INFINITY, f64::min);
        let last = times().fold(0.0, f64::max);
        if routes.is_empty() {
            return Err(TraceError::Empty);
        }
        // Unix times keep their hour of the week; others are taken to begin on a Monday.
        let unix = first > 1e9;
        let origin = if unix {
            (first / HOUR_S).floor() * HOUR_S
        } else {
            0.0
        };
        let start = Timestamp::from_second(origin as i64).ok().filter(|_| unix);
        let whole_s = (last - origin).max(1.0) + 60.0;
        if hours.is_none() && whole_s > MAX_SECONDS {
            return Err(TraceError::Long {
                years: (whole_s / (366.0 * 86_400.0)) as u64,
            });
        }
        let span_s = sane_span(hours.map_or(whole_s, |hours| hours * HOUR_S));
        add_silent(&mut routes);
        if routes.len() > MAX_ROUTES {
            return Err(TraceError::Routes {
                routes: routes.len(),
            });
        }
        let known = |name: &str| ROUTES.iter().position(|route| *route == parts(name).0);
        let mut named: Vec<(Cow<'_, str>, Vec<TraceLine<'_>>)> = routes.into_iter().collect();
        named.sort_by_key(|(name, _)| known(name).unwrap_or(ROUTES.len()));
        let routes = named
            .into_iter()
            .map(|(name, mut records)| {
                records.sort_by(|a, b| a.0.total_cmp(&b.0));
                let mut seen = HashSet::new();
                records.retain(|(_, id)| seen.insert(id.clone()));
                let arrivals = records.iter().map(|(seconds, _)| seconds - origin);
                RouteTraffic {
                    name: name.into_owned(),
                    arrivals: arrivals.filter(|at| *at < span_s).collect(),
                }
            })
            .collect();
        Ok(Self {
            routes,
            span_s,
            start: start.unwrap_or_else(monday),
            known_rates: Vec::new(),
        })
    }
}

/// The route and the business of a poller's name.
fn parts(name: &str) -> (&str, Option<&str>) {
    name.split_once('@')
        .map_or((name, None), |(route, business)| (route, Some(business)))
}

/// Adds the routes on which nothing arrived to each business that has one of them.
fn add_silent(routes: &mut BTreeMap<Cow<'_, str>, Vec<TraceLine<'_>>>) {
    let is_known = |name: &&str| ROUTES.contains(&parts(name).0);
    let names = routes.keys().map(|name| &**name).filter(is_known);
    let businesses: HashSet<Option<String>> =
        names.map(|name| parts(name).1.map(str::to_owned)).collect();
    for business in businesses {
        for route in ROUTES {
            let name = business
                .as_ref()
                .map_or(route.to_owned(), |of| format!("{route}@{of}"));
            routes.entry(Cow::Owned(name)).or_default();
        }
    }
}

/// The route of a trace line, without its CSV quotes if it has any, and the id as it is written.
/// The name of a business can hold a comma.
fn route_and_id(rest: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let no_id = "there is no id";
    let Some(quoted) = rest.strip_prefix('"') else {
        let (route, id) = rest.split_once(',').ok_or(no_id)?;
        return Ok((Cow::Borrowed(route.trim()), id.trim()));
    };
    let mut searched = 0;
    let end = loop {
        let quote = quoted[searched..]
            .find('"')
            .ok_or("a quote of the route is not closed")?;
        let quote = searched + quote;
        // Two quotes stand for one of the text.
        if !quoted[quote + 1..].starts_with('"') {
            break quote;
        }
        searched = quote + 2;
    };
    let id = quoted[end + 1..]
        .trim_start()
        .strip_prefix(',')
        .ok_or(no_id)?;
    Ok((Cow::Owned(quoted[..end].replace("\"\"", "\"")), id.trim()))
}

/// The id of a trace line, without its CSV quotes if it has any.
fn unquoted(id: &str) -> Option<Cow<'_, str>> {
    let Some(rest) = id.strip_prefix('"') else {
        return Some(Cow::Borrowed(id));
    };
    rest.strip_suffix('"')
        .map(|inner| Cow::Owned(inner.replace("\"\"", "\"")))
}

/// At least a second, at most [`MAX_SECONDS`]; an hour when it is no number.
fn sane_span(seconds: f64) -> f64 {
    if seconds.is_nan() {
        HOUR_S
    } else {
        seconds.clamp(1.0, MAX_SECONDS)
    }
}

fn monday() -> Timestamp {
    Timestamp::from_second(MONDAY).expect("a day of 2026 is a valid time")
}
