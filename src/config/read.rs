//! From the text of the file to the checked [`Config`], every problem at once.
//!
//! A problem does not stop the reading: a value that cannot be used is replaced by its default, the
//! rest is read, and the file is refused at the end.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::findings::Findings;
use super::intake::Mirrored;
use super::problem::{Problem, Problems, Quote, repeated};
use super::reports::Others;
use super::secret_text;
use super::section::{Found, Section};
use super::{
    Auth, Base, BudgetSettings, Config, KeySource, PollSettings, RouteSettings, StoreSettings,
    WorkspaceSettings,
};
use super::{address, alerts, backup, reports, sinks, status};
use crate::duration;
use crate::record::Route;

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);
/// A cron job runs at most once per minute, and a shop wants its records within a week.
const ONCE_EVERY: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 86_400);
const RETENTION: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(100 * 31_557_600);
const IGNORED_MAX: usize = 64;
const BUSINESSES_MAX: usize = 100;
const BUSINESS_LEN_MAX: usize = 64;

/// Reads a whole document.
pub(super) fn document(text: &str, file_name: &str, base: &Base) -> Result<Config, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problems = errors.iter().map(|error| {
            let place = error.span().unwrap_or(0..0);
            Problem::new(text, place, Quote::Masked, error.message())
        });
        return Err(Problems::new(file_name, problems.collect()));
    }
    let findings = Findings::new(text);
    let config = root(Section::root(&findings, table.get_ref()), base);
    let problems = findings.finish();
    match config {
        Some(config) if problems.is_empty() => {
            Ok(Config { for_readers: for_readers(text), ..config })
        }
        _ => Err(Problems::new(file_name, problems)),
    }
}

/// What commands that only read the database need of a document. Nothing of it can be a secret: no sink, no
/// file of a key, no proxy, which may hold a password.
fn for_readers(text: &str) -> String {
    let document: Table = text.parse().unwrap_or_default();
    let section = |name: &str, keys: &[&str]| {
        let table = document.get(name)?.as_table()?;
        let kept = table.iter().filter(|(key, _)| keys.contains(&key.as_str()));
        Some(kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Table>())
    };
    let mut kept = Table::new();
    for (name, keys) in [
        ("workspace", &["base_url", "businesses", "time_zone"][..]),
        ("reports", &["currency", "job_link", "ready_status"]),
        ("once", &["every"]),
    ] {
        kept.extend(section(name, keys).map(|table| (name.to_owned(), Value::Table(table))));
    }
    kept.extend(document.get("routes").map(|routes| ("routes".to_owned(), routes.clone())));
    kept.to_string()
}

/// The path of the store in a document, even if other parts have problems.
pub(super) fn store_path(text: &str, base: &Base) -> PathBuf {
    let (table, _) = DeTable::parse_recoverable(text);
    let findings = Findings::new(text);
    store(Section::root(&findings, table.get_ref()).section("store"), base).path
}

/// The sections of a document; `None` only if a problem was noted.
pub(super) fn root(mut root: Section<'_>, base: &Base) -> Option<Config> {
    let workspace = workspace(root.section("workspace"), base);
    let budget = budget(root.section("budget"));
    let (poll, intervals) = poll(root.section("poll"));
    let routes = routes(root.section("routes"), intervals);
    let once_every = once(root.section("once"));
    let store = store(root.section("store"), base);
    let backup = backup::read(root.section("backup"), base, &store.path);
    let status = status::read(root.section("status"), base);
    let mirrored = workspace.as_ref().map(|it| Mirrored { base_url: &it.base_url, key: &it.key });
    let sink_names = root.section("sinks").names();
    let sinks = sinks::read(root.section("sinks"), base, &store.path, mirrored);
    let named: Vec<String> = sink_names.iter().cloned().collect();
    let alerts = alerts::read(root.section("alerts"), &named, &sinks);
    let others = Others { store: &store.path, sinks: &sinks, sink_names: &sink_names };
    let reports = reports::read(root.section("reports"), base, &others);
    root.finish();
    Some(Config {
        workspace: workspace?,
        budget,
        routes,
        poll,
        once_every,
        store,
        backup,
        status,
        alerts,
        reports,
        sinks,
        for_readers: String::new(),
    })
}

fn workspace(mut section: Section<'_>, base: &Base) -> Option<WorkspaceSettings> {
    if !section.holds("base_url") {
        let advice =
            "the shop's address, for example base_url = \"https://myshop.example.com/api\"";
        section.missing("base_url", advice);
    }
    let base_url = checked_address(&mut section, "base_url", address::workspace);
    let auth = section.word("auth", &[("bearer", Auth::Bearer), ("x-api-key", Auth::XApiKey)]);
    let businesses = businesses(&mut section);
    let proxy = checked_address(&mut section, "proxy", address::proxy);
    let ca_file = section.text("ca_file").map(|file| base.dir.join(file.value));
    let time_zone = time_zone(&mut section, base);
    let key = key_source(&mut section, base);
    section.finish();
    Some(WorkspaceSettings {
        base_url: base_url?,
        key: key?,
        auth: auth.unwrap_or(Auth::Bearer),
        businesses,
        proxy,
        ca_file,
        time_zone,
    })
}

/// The zone of the shop's dates; the machine's unless the file names one.
fn time_zone(section: &mut Section<'_>, base: &Base) -> TimeZone {
    let Some(Found { value, place }) = section.text("time_zone") else {
        return base.time_zone.clone().unwrap_or(TimeZone::UTC);
    };
    TimeZone::get(value).unwrap_or_else(|_| {
        section.findings.note(
            &place,
            "`time_zone` must be the IANA name of a time zone, for example \"Europe/Berlin\"; if it \
             is one, install the package tzdata on this machine",
        );
        TimeZone::UTC
    })
}

/// An address that `check` accepts. An address that may contain a password is not repeated.
fn checked_address<T>(
    section: &mut Section<'_>,
    key: &'static str,
    check: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let Found { value, place } = section.secret_text(key)?;
    check(value)
        .map_err(|why| {
            let plain = !value.contains(['@', '?', '#']);
            let quote = if plain { Quote::Address } else { Quote::Masked };
            section.findings.push(&place, quote, &format!("`{key}` {why}"));
        })
        .ok()
}

fn key_source(section: &mut Section<'_>, base: &Base) -> Option<KeySource> {
    let given = section.holds("api_key_file");
    if let Some(file) = secret_text::file(section, base, "api_key_file") {
        return Some(KeySource::File(base.dir.join(file.value)));
    }
    if section.holds("api_key") {
        section.refuse(
            "api_key",
            "the key is not written here, because everyone who may read this file would have it: \
             write it into a file of its own and name that file with api_key_file",
        );
        return None;
    }
    if given {
        // `api_key_file` is there and malformed, which was noted.
        return None;
    }
    let credential = base.credentials_dir.as_ref().map(|dir| dir.join("api-key"));
    if let Some(path) = credential.filter(|path| path.is_file()) {
        return Some(KeySource::File(path));
    }
    if let Some(key) = &base.env_key {
        return Some(KeySource::Environment(key.clone()));
    }
    Some(KeySource::Absent)
}

fn businesses(section: &mut Section<'_>) -> Vec<String> {
    let Some(list) = section.list("businesses") else { return Vec::new() };
    let findings = section.findings;
    let mut ids = Vec::new();
    for Found { value, place } in list.value {
        let id = match value {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            other => {
                let wanted = "a list of business ids";
                section.wrong_type("businesses", wanted, other, &place, Quote::Shown);
                continue;
            }
        };
        let fits = (1..=BUSINESS_LEN_MAX).contains(&id.len());
        if !fits || !id.bytes().all(|b| b.is_ascii_graphic()) {
            findings.note(&place, format!(
                "{} is not a business id: use 1 to {BUSINESS_LEN_MAX} visible characters without white space",
                repeated(&id)
            ));
        } else if ids.contains(&id) {
            findings.note(&place, format!("business {id} appears twice in `businesses`"));
        } else {
            ids.push(id);
        }
    }
    if ids.len() > BUSINESSES_MAX {
        let message = format!("`businesses` holds more than {BUSINESSES_MAX} ids");
        findings.note(&list.place, message);
    }
    ids
}

fn budget(mut section: Section<'_>) -> BudgetSettings {
    let limit = section.integer("requests_per_minute", &(1..=1_000_000));
    let requests_per_minute = limit.as_ref().map_or(60, |found| found.value);
    let usual = if requests_per_minute <= 20 { requests_per_minute / 4 } else { 15 };
    let reserve = section.integer("reserve", &(0..=999_999));
    // A limit that could not be read was reported, and says nothing about the reserve.
    let is_known = limit.is_some() || !section.holds("requests_per_minute");
    if let Some(Found { value, place }) = &reserve
        && is_known
        && *value >= requests_per_minute
    {
        section.findings.note(place, format!(
            "`reserve` must be less than requests_per_minute, which is {requests_per_minute}: otherwise no request is left for polls"
        ));
    }
    section.finish();
    BudgetSettings { requests_per_minute, reserve: reserve.map_or(usual, |found| found.value) }
}

/// The shortest and the longest time between two polls.
#[derive(Clone, Copy)]
struct Intervals {
    min: Duration,
    max: Duration,
}

fn intervals(section: &mut Section<'_>, otherwise: Intervals) -> Intervals {
    let min = section.duration("min_interval", &INTERVAL);
    let max = section.duration("max_interval", &INTERVAL);
    let unread = (min.is_none() && section.holds("min_interval"))
        || (max.is_none() && section.holds("max_interval"));
    let read = Intervals {
        min: min.as_ref().map_or(otherwise.min, |found| found.value),
        max: max.as_ref().map_or(otherwise.max, |found| found.value),
    };
    if let Some(Found { place, .. }) = min.or(max)
        && !unread
        && read.min > read.max
    {
        section.findings.note(
            &place,
            format!(
                "min_interval is {} and max_interval is {}: min_interval must not be longer than max_interval",
                duration::exact(read.min),
                duration::exact(read.max)
            ),
        );
    }
    // What was reported here is not reported again for each route that takes it over.
    Intervals { min: read.min.min(read.max), max: read.max }
}

fn poll(mut section: Section<'_>) -> (PollSettings, Intervals) {
    // In 90 seconds a client can create 90 records, one per second, which is all that the key
    // allows. They fit on one page with some known records, even on a route that was quiet.
    let usual = Intervals { min: Duration::from_secs(1), max: Duration::from_secs(90) };
    let intervals = intervals(&mut section, usual);
    let limit = section.integer("limit", &(1..=100)).map_or(100, |found| found.value);
    let timeout = section.duration("timeout", &TIMEOUT);
    section.finish();
    let timeout = timeout.map_or(Duration::from_secs(20), |found| found.value);
    (PollSettings { limit, timeout }, intervals)
}

fn routes(mut section: Section<'_>, usual: Intervals) -> Vec<RouteSettings> {
    let mut enabled = Vec::new();
    for route in Route::ALL {
        let mut own = section.section(route.as_str());
        let on = own.boolean("enabled").unwrap_or(true);
        let fixed = own.duration("every", &INTERVAL);
        let bounded = own.holds("min_interval") || own.holds("max_interval");
        if let Some(Found { place, .. }) = &fixed
            && bounded
        {
            let message = "`every` sets a fixed interval: remove `every`, or remove min_interval and max_interval";
            own.findings.note(place, message);
        }
        let intervals = intervals(&mut own, usual);
        let weight = own.positive("weight", 1000.0).unwrap_or(1.0);
        let ignore = ignored_fields(&mut own);
        own.finish();
        if on {
            enabled.push(RouteSettings {
                route,
                min_interval: intervals.min,
                max_interval: intervals.max,
                every: fixed.map(|found| found.value),
                weight,
                ignore,
            });
        }
    }
    if enabled.is_empty() {
        section.note("every route has enabled = false: enable at least one");
    }
    section.finish();
    enabled
}

/// The fields of a route whose changes do not count as a change of the record.
fn ignored_fields(section: &mut Section<'_>) -> Vec<String> {
    let Some(list) = section.texts("ignore") else { return Vec::new() };
    let mut fields: Vec<String> = Vec::new();
    for Found { value, place } in &list.value {
        if *value == "id" {
            let message = "`ignore` cannot hold \"id\": the id says which record it is";
            section.findings.note(place, message);
        } else if fields.iter().any(|field| field == value) {
            let message = format!("{} appears twice in `ignore`", repeated(value));
            section.findings.note(place, message);
        } else {
            fields.push((*value).to_owned());
        }
    }
    if fields.len() > IGNORED_MAX {
        let message = format!("`ignore` holds more than {IGNORED_MAX} fields");
        section.findings.note(&list.place, message);
    }
    fields
}

fn once(mut section: Section<'_>) -> Option<Duration> {
    let every = section.duration("every", &ONCE_EVERY);
    section.finish();
    every.map(|found| found.value)
}

fn store(mut section: Section<'_>, base: &Base) -> StoreSettings {
    let path = section.text("path");
    if let Some(Found { value, place }) = &path
        && (value.starts_with(':') || value.starts_with("file:") || value.ends_with('/'))
    {
        let message = "`path` must be the path of a file, for example \"mirror.db\"";
        section.findings.note(place, message);
    }
    let retention = section.duration("log_retention", &RETENTION);
    section.finish();
    StoreSettings {
        path: base.store_path(path.map_or("mirror.db", |found| found.value)),
        log_retention: retention.map_or(Duration::from_secs(400 * 86_400), |found| found.value),
    }
}
