//! What arrives in a simulation: synthetic shops, plain rates, or a recorded trace.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use shopmirror_core::record::poller_name;

/// A Monday, 00:00 UTC.
const MONDAY: i64 = 1_767_571_200;
const HOUR_S: f64 = 3600.0;
const HOURS_OF_WEEK: usize = 168;
/// The busiest hours of a synthetic shop, beside its ordinary opening hours.
const BUSIEST: f64 = 1.6;
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
    match (hour_of_week / 24, hour_of_week % 24) {
        (0..=4, 9 | 17) => BUSIEST,
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
        let span_s = within_limits(span_s);
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut routes = Vec::with_capacity(names.len());
        for (route, name) in names.iter().enumerate() {
            let most = most(route);
            let rate = |at: f64| rate(route, at);
            routes.push(RouteTraffic {
                name: (*name).to_owned(),
                arrivals: random_arrivals(span_s, &mut chance, most, rate),
            });
        }
        Self {
            routes,
            span_s,
            start: monday(),
            known_rates: Vec::new(),
        }
    }

    /// Constant rates an hour of the first routes, in their order; none is below 0.
    pub(crate) fn rates(per_hour: &[f64], hours: f64, seed: u64) -> Self {
        let names = &ROUTES[..per_hour.len()];
        let span_s = hours * HOUR_S;
        let most = |route: usize| per_hour[route];
        let traffic = Self::random(names, span_s, seed, most, |route, _| per_hour[route]);
        Self {
            known_rates: vec![per_hour.to_vec()],
            ..traffic
        }
    }

    /// A synthetic shop, beginning on a Monday at midnight.
    pub(crate) fn shop(shop: Shop, hours: f64, seed: u64) -> Self {
        let rates = shop.open_rates();
        let mut known_rates = Vec::with_capacity(HOURS_OF_WEEK);
        for hour in 0..HOURS_OF_WEEK {
            known_rates.push(rates.iter().map(|rate| rate * opening(hour)).collect());
        }
        let traffic = Self::random(
            &ROUTES,
            hours * HOUR_S,
            seed,
            |route| rates[route] * BUSIEST,
            |route, at| rates[route] * opening((at / HOUR_S) as usize % HOURS_OF_WEEK),
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
        let mut routes = read_lines(text)?;
        if routes.is_empty() {
            return Err(TraceError::Empty);
        }
        let mut first = f64::INFINITY;
        let mut last: f64 = 0.0;
        for (seconds, _) in routes.values().flatten() {
            first = first.min(*seconds);
            last = last.max(*seconds);
        }
        // Unix times keep their hour of the week; others are taken to begin on a Monday.
        let mut origin = 0.0;
        let mut start = monday();
        if first > 1e9 {
            origin = (first / HOUR_S).floor() * HOUR_S;
            start = Timestamp::from_second(origin as i64).unwrap_or(start);
        }
        let whole_s = (last - origin).max(1.0) + 60.0;
        let span_s = match hours {
            Some(hours) => within_limits(hours * HOUR_S),
            None if whole_s > MAX_SECONDS => {
                return Err(TraceError::Long {
                    years: (whole_s / (366.0 * 86_400.0)) as u64,
                });
            }
            None => within_limits(whole_s),
        };
        add_silent(&mut routes);
        if routes.len() > MAX_ROUTES {
            return Err(TraceError::Routes {
                routes: routes.len(),
            });
        }
        let mut routes: Vec<RouteTraffic> = routes
            .into_iter()
            .map(|(name, lines)| RouteTraffic {
                name: name.into_owned(),
                arrivals: first_arrivals(lines, origin, span_s),
            })
            .collect();
        routes.sort_by_key(|route| place_of(&route.name));
        Ok(Self {
            routes,
            span_s,
            start,
            known_rates: Vec::new(),
        })
    }
}

/// Arrivals within `span_s` seconds, whose rate an hour `rate(seconds)` gives; never above `most`.
fn random_arrivals(
    span_s: f64,
    chance: &mut fastrand::Rng,
    most: f64,
    rate: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let mut arrivals = Vec::new();
    let per_second = most / HOUR_S;
    if per_second <= 0.0 {
        return arrivals;
    }
    let mut at = 0.0;
    while arrivals.len() < MAX_ARRIVALS {
        at -= (1.0 - chance.f64()).ln() / per_second;
        if at >= span_s {
            break;
        }
        // Thinning: a candidate stays with the chance of its hour.
        if chance.f64() * per_second * HOUR_S < rate(at) {
            arrivals.push(at);
        }
    }
    arrivals
}

/// The lines of a trace by their route.
fn read_lines(text: &str) -> Result<BTreeMap<Cow<'_, str>, Vec<TraceLine<'_>>>, TraceError> {
    let mut routes: BTreeMap<Cow<'_, str>, Vec<TraceLine<'_>>> = BTreeMap::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (place, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || (place == 0 && line.starts_with("seconds")) {
            continue;
        }
        match read_line(line) {
            Ok((route, arrival)) => routes.entry(route).or_default().push(arrival),
            Err(problem) => {
                return Err(TraceError::Line {
                    line: place + 1,
                    problem: problem.into(),
                });
            }
        }
    }
    Ok(routes)
}

/// The route of a trace line, and its time and id; or what is wrong with it.
fn read_line(line: &str) -> Result<(Cow<'_, str>, TraceLine<'_>), &'static str> {
    let (seconds, rest) = line.split_once(',').ok_or("there is no route")?;
    let (route, id) = route_and_id(rest.trim())?;
    let id = unquoted(id).ok_or("a quote of the id is not closed")?;
    match seconds.trim().parse::<f64>() {
        Ok(seconds) if (0.0..1e11).contains(&seconds) => Ok((route, (seconds, id))),
        _ => Err("the first field is not a number of seconds"),
    }
}

/// When each id arrived first, in seconds from `origin`, within `span_s`.
fn first_arrivals(mut lines: Vec<TraceLine<'_>>, origin: f64, span_s: f64) -> Vec<f64> {
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut seen = HashSet::new();
    let mut arrivals = Vec::new();
    for (seconds, id) in lines {
        let at = seconds - origin;
        if seen.insert(id) && at < span_s {
            arrivals.push(at);
        }
    }
    arrivals
}

/// The place of a poller among the others: that of its route in the contract.
fn place_of(name: &str) -> usize {
    let route = split_name(name).0;
    ROUTES
        .iter()
        .position(|known| *known == route)
        .unwrap_or(ROUTES.len())
}

/// The route and the business of a poller's name.
fn split_name(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((route, business)) => (route, Some(business)),
        None => (name, None),
    }
}

/// Adds the routes on which nothing arrived to each business that has one of them.
fn add_silent(routes: &mut BTreeMap<Cow<'_, str>, Vec<TraceLine<'_>>>) {
    let mut businesses: HashSet<Option<String>> = HashSet::new();
    for name in routes.keys() {
        let (route, business) = split_name(name);
        if ROUTES.contains(&route) {
            businesses.insert(business.map(str::to_owned));
        }
    }
    for business in businesses {
        for route in ROUTES {
            let name = poller_name(route, business.as_deref());
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

/// A span of at least a second and at most [`MAX_SECONDS`]; an hour when it is no number.
fn within_limits(seconds: f64) -> f64 {
    if seconds.is_nan() {
        HOUR_S
    } else {
        seconds.clamp(1.0, MAX_SECONDS)
    }
}

fn monday() -> Timestamp {
    Timestamp::from_second(MONDAY).expect("a day of 2026 is a valid time")
}
