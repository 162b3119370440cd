//! From the text of the file to the checked [`Config`], every problem at once.
//!
//! Nothing stops at the first problem; a value that cannot be used is replaced by its default
//! while the rest is read, and the whole is refused at the end.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use toml::de::{DeTable, DeValue};

use super::findings::Findings;
use super::problem::{Problem, Problems, Quote, repeated};
use super::section::{Found, Section};
use super::{Auth, Base, Budget, Config, KeySource, Poll, RouteSettings, Status, Store, Workspace};
use super::{address, sinks};
use crate::record::Route;

const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);
const RETENTION: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(100 * 31_557_600);
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
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(Problems::new(file_name, problems)),
    }
}

/// Where a document says the store is, as far as it can be read.
pub(super) fn store_path(text: &str, base: &Base) -> PathBuf {
    let (table, _) = DeTable::parse_recoverable(text);
    let findings = Findings::new(text);
    store(Section::root(&findings, table.get_ref()).section("store"), base).path
}

/// The sections of a document; `None` only when a problem was noted.
pub(super) fn root(mut root: Section<'_>, base: &Base) -> Option<Config> {
    let workspace = workspace(root.section("workspace"), base);
    let budget = budget(root.section("budget"));
    let (poll, intervals) = poll(root.section("poll"));
    let routes = routes(root.section("routes"), intervals);
    let store = store(root.section("store"), base);
    let status = status(root.section("status"));
    let sinks = sinks::read(root.section("sinks"), base, &store.path);
    root.finish();
    Some(Config { workspace: workspace?, budget, routes, poll, store, status, sinks })
}

fn workspace(mut section: Section<'_>, base: &Base) -> Option<Workspace> {
    if !section.holds("base_url") {
        let advice = "the shop's address, as base_url = \"https://myshop.example.com/api\"";
        section.missing("base_url", advice);
    }
    let base_url = checked_address(&mut section, "base_url", address::workspace);
    let auth = section.word("auth", &[("bearer", Auth::Bearer), ("x-api-key", Auth::XApiKey)]);
    let businesses = businesses(&mut section);
    let proxy = checked_address(&mut section, "proxy", address::proxy);
    let ca_file = section.text("ca_file").map(|file| base.dir.join(file.value));
    let key = key_source(&mut section, base);
    section.finish();
    Some(Workspace {
        base_url: base_url?,
        key: key?,
        auth: auth.unwrap_or(Auth::Bearer),
        businesses,
        proxy,
        ca_file,
    })
}

/// An address that `check` makes a value of; one that may hold a password is not repeated.
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
    if let Some(file) = section.text("api_key_file") {
        return Some(KeySource::File(base.dir.join(file.value)));
    }
    if section.holds("api_key") {
        // The unknown key is reported with its place by `finish`; this says why there is none.
        section.missing("api_key_file", "a key is never written into this file");
        return None;
    }
    let credential = base.credentials_dir.as_ref().map(|dir| dir.join("api-key"));
    if let Some(path) = credential.filter(|path| path.is_file()) {
        return Some(KeySource::File(path));
    }
    if let Some(key) = &base.env_key {
        return Some(KeySource::Environment(key.clone()));
    }
    if !given {
        section.missing(
            "api_key_file",
            "the file that holds the API key; or give the systemd credential `api-key`, \
             or the variable SHOPMIRROR_API_KEY",
        );
    }
    None
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
                let wanted = "a list of branch ids";
                section.wrong_type("businesses", wanted, other, &place, Quote::Shown);
                continue;
            }
        };
        let fits = (1..=BUSINESS_LEN_MAX).contains(&id.len());
        if !fits || !id.bytes().all(|b| b.is_ascii_graphic()) {
            findings.note(&place, format!(
                "{} is not a branch id: use 1 to {BUSINESS_LEN_MAX} letters and digits, no white space",
                repeated(&id)
            ));
        } else if ids.contains(&id) {
            findings.note(&place, format!("branch {id} stands in `businesses` twice"));
        } else {
            ids.push(id);
        }
    }
    if ids.len() > BUSINESSES_MAX {
        let message = format!("`businesses` holds more than {BUSINESSES_MAX} branches");
        findings.note(&list.place, message);
    }
    ids
}

fn budget(mut section: Section<'_>) -> Budget {
    let limit = section.integer("requests_per_minute", &(1..=1_000_000));
    let requests_per_minute = limit.map_or(60, |found| found.value);
    let usual = if requests_per_minute <= 20 { requests_per_minute / 4 } else { 15 };
    let reserve = section.integer("reserve", &(0..=999_999));
    if let Some(Found { value, place }) = &reserve
        && *value >= requests_per_minute
    {
        section.findings.note(place, format!(
            "`reserve` must be less than requests_per_minute, which is {requests_per_minute}, or nothing is left to poll with"
        ));
    }
    section.finish();
    Budget { requests_per_minute, reserve: reserve.map_or(usual, |found| found.value) }
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
    let read = Intervals {
        min: min.as_ref().map_or(otherwise.min, |found| found.value),
        max: max.as_ref().map_or(otherwise.max, |found| found.value),
    };
    if let Some(Found { place, .. }) = min.or(max)
        && read.min > read.max
    {
        let show = humantime::format_duration;
        section.findings.note(
            &place,
            format!(
                "min_interval is {} and max_interval is {}: the first must not be the longer",
                show(read.min),
                show(read.max)
            ),
        );
    }
    read
}

fn poll(mut section: Section<'_>) -> (Poll, Intervals) {
    // A client that creates a record a second, all that the key's limit lets it, brings 90 in this
    // time: they fit a page beside records that are known, even on a route thought to be asleep.
    let usual = Intervals { min: Duration::from_secs(2), max: Duration::from_secs(90) };
    let intervals = intervals(&mut section, usual);
    let limit = section.integer("limit", &(1..=100)).map_or(100, |found| found.value);
    let timeout = section.duration("timeout", &TIMEOUT);
    section.finish();
    (
        Poll { limit, timeout: timeout.map_or(Duration::from_secs(20), |found| found.value) },
        intervals,
    )
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
            let message = "`every` fixes the interval: remove it, or min_interval and max_interval";
            own.findings.note(place, message);
        }
        let intervals = intervals(&mut own, usual);
        let weight = own.positive("weight", 1000.0).unwrap_or(1.0);
        own.finish();
        if on {
            enabled.push(RouteSettings {
                route,
                min_interval: intervals.min,
                max_interval: intervals.max,
                every: fixed.map(|found| found.value),
                weight,
            });
        }
    }
    if enabled.is_empty() {
        section.note("every route has enabled = false: enable at least one");
    }
    section.finish();
    enabled
}

fn store(mut section: Section<'_>, base: &Base) -> Store {
    let path = section.text("path");
    if let Some(Found { value, place }) = &path
        && (value.starts_with(':') || value.starts_with("file:") || value.ends_with('/'))
    {
        let message = "`path` must be the path of a file, as \"mirror.db\"";
        section.findings.note(place, message);
    }
    let retention = section.duration("log_retention", &RETENTION);
    section.finish();
    Store {
        path: state_path(base, path.map_or("mirror.db", |found| found.value)),
        log_retention: retention.map_or(Duration::from_secs(400 * 86_400), |found| found.value),
    }
}

/// Where a relative path of something this process writes points to.
pub(super) fn state_path(base: &Base, path: &str) -> PathBuf {
    base.state_dir.as_deref().unwrap_or(&base.dir).join(Path::new(path))
}

fn status(mut section: Section<'_>) -> Option<Status> {
    let found = section.text("listen");
    let listen = found.and_then(|Found { value, place }| {
        address::loopback(value)
            .map_err(|why| section.findings.note(&place, format!("`listen` {why}")))
            .ok()
    });
    section.finish();
    listen.map(|listen| Status { listen })
}

/// What the environment of the process adds to a file, for [`Config::load`].
pub(super) fn base_of(
    path: &Path,
    credentials_dir: Option<&Path>,
    env_key: Option<SecretString>,
) -> Base {
    // systemd names every folder of StateDirectory=, separated by colons; the first is ours.
    let state_dir = std::env::var("STATE_DIRECTORY")
        .ok()
        .and_then(|dirs| dirs.split(':').next().map(PathBuf::from))
        .filter(|dir| dir.is_absolute())
        .or_else(|| installed_state_dir(path));
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = parent.unwrap_or(Path::new(".")).to_owned();
    Base { dir, state_dir, credentials_dir: credentials_dir.map(Path::to_owned), env_key }
}

/// The state folder of the shipped units, so that a command typed by hand finds the database of
/// the service whose file it is given.
fn installed_state_dir(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    (path.parent()? == Path::new("/etc/shopmirror")).then(|| {
        let state = Path::new("/var/lib/shopmirror");
        match path.file_stem() {
            Some(name) if name != "config" => state.join(name),
            _ => state.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_typed_by_hand_finds_the_database_of_the_service() {
        let state = |path: &str| installed_state_dir(Path::new(path));
        assert_eq!(state("/etc/shopmirror/config.toml"), Some("/var/lib/shopmirror".into()));
        assert_eq!(state("/etc/shopmirror/north.toml"), Some("/var/lib/shopmirror/north".into()));
        assert_eq!(state("/etc/shopmirror/old/config.toml"), None);
        assert_eq!(state("config.toml"), None);
    }
}
