//! `trace`: prints when records arrived, as input for `simulate --trace`.

use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};

use super::exit::{DATA, ExitError};
use super::output;
use crate::config::Config;
use crate::escape::is_unsafe;
use crate::record::{Change, Kind, field};
use crate::store::Reader;

/// Rows of the log read at once.
const LOG_STEP: usize = 1_000;

/// How long before it was seen a record can have arrived: a daemon that was off for a night sees it
/// late. An older `created_at` was copied from another system with the record.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);

/// Prints the arrivals the log holds, with the name of their poller. What was there before the first
/// poll is left out.
pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let mut arrivals = Vec::new();
    let mut position = 0;
    loop {
        let rows = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = rows.last() else { break };
        position = last.seq;
        for change in rows.iter().filter(|change| change.kind == Kind::Created) {
            let poller = poller(change);
            if let (Some(at), Some(id)) = (arrived(change), &change.record_id) {
                arrivals.push((at, change.route, poller, id.clone()));
            }
        }
    }
    arrivals.sort();
    let Some(first) = arrivals.first().map(|(at, ..)| *at) else {
        let text = "the log holds no new record yet: let the daemon run for a while".to_owned();
        return Err(ExitError { code: DATA, text }.into());
    };
    let mut text = String::from("seconds,route,id\n");
    for (at, _, poller, id) in &arrivals {
        let seconds = at.duration_since(first).as_secs_f64();
        text.push_str(&format!("{seconds:.3},{},{}\n", field_of(poller), field_of(id)));
    }
    output::raw(text.as_bytes())
}

/// The poller that saw a change: its route, and the business if one is configured.
fn poller(change: &Change) -> String {
    match &change.business {
        Some(business) => format!("{}@{business}", change.route),
        None => change.route.to_string(),
    }
}

/// When a record arrived: its own `created_at` if that can be, else when it was seen.
fn arrived(change: &Change) -> Option<Timestamp> {
    let seen: Timestamp = change.observed_at.parse().ok()?;
    let shown = field(&change.body, "created_at")
        .and_then(|text| serde_json::from_str::<String>(text).ok())
        .and_then(|text| text.parse::<Timestamp>().ok());
    let is_possible =
        |at: &Timestamp| (SignedDuration::ZERO..=OLDEST).contains(&seen.duration_since(*at));
    Some(shown.filter(is_possible).unwrap_or(seen))
}

/// An id or the name of a poller as a CSV field (RFC 4180). Characters that would break the line or
/// control a terminal are escaped, so that different ids stay different.
fn field_of(id: &str) -> String {
    let mut shown = String::new();
    for c in id.chars() {
        match c {
            '"' => shown.push_str("\"\""),
            // Else a text that looks like an escaped character would be the same as that character.
            '\\' => shown.push_str("\\\\"),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    if shown.contains(['"', ',']) || shown.trim() != shown { format!("\"{shown}\"") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Traffic;

    fn change(created_at: &str, seen: &str, business: Option<&str>) -> Change {
        Change {
            seq: 1,
            event_id: String::new(),
            route: crate::record::Route::Jobs,
            record_id: Some("7".to_owned()),
            kind: Kind::Created,
            version: 1,
            observed_at: seen.to_owned(),
            business: business.map(str::to_owned),
            body: format!("{{\"id\":7,\"created_at\":{created_at}}}"),
            before: None,
        }
    }

    fn created(created_at: &str, seen: &str) -> String {
        arrived(&change(created_at, seen, None)).unwrap().to_string()
    }

    #[test]
    fn businesses_are_named_and_simulated_apart_whatever_their_ids_are() {
        let seen = "2026-03-01T12:00:00Z";
        let businesses = [None, Some("7"), Some("a,b"), Some("a,c"), Some("\"q\""), Some("x@y")];
        let pollers = businesses.map(|business| poller(&change("null", seen, business)));
        assert_eq!(pollers[..2], ["jobs", "jobs@7"]);
        let line = |poller: &String| format!("1.000,{},7\n", field_of(poller));
        let text: String = pollers.iter().map(line).collect();
        let traffic = Traffic::from_trace(&text, None).unwrap();
        let busy = traffic.routes.iter().filter(|route| !route.arrivals.is_empty());
        let mut named: Vec<&String> = busy.map(|route| &route.name).collect();
        let mut wanted: Vec<&String> = pollers.iter().collect();
        named.sort();
        wanted.sort();
        assert_eq!(named, wanted);
        assert_eq!(traffic.routes.len(), 6 * pollers.len());
    }

    #[test]
    fn a_time_of_creation_that_cannot_be_the_arrival_is_not_taken_for_it() {
        let seen = "2026-03-01T12:00:00Z";
        for possible in ["2026-03-01T11:59:57Z", "2026-02-28T12:00:01Z", "2026-03-01T12:00:00Z"] {
            assert_eq!(created(&format!("\"{possible}\""), seen), possible);
        }
        for odd in [
            "\"2019-03-01T11:59:57Z\"",
            "\"2026-03-01T12:00:01Z\"",
            "\"01/03/2026\"",
            "null",
            "17",
            "\"9999-12-31T23:59:59Z\"",
            "\"-009999-01-01T00:00:00Z\"",
        ] {
            assert_eq!(created(odd, seen), seen, "{odd}");
        }
    }

    #[test]
    fn ids_with_commas_quotes_and_line_breaks_survive_the_trace() {
        let ids = [
            "7",
            "a,b",
            "a,c",
            "say \"x\"",
            "say \"y\"",
            "one\ntwo",
            "one\nthree",
            "one\\u{a}two",
            " 7",
        ];
        let line = |(place, id): (usize, &&str)| format!("{place}.000,jobs,{}\n", field_of(id));
        let text: String = ids.iter().enumerate().map(line).collect();
        assert_eq!(text.lines().count(), ids.len(), "{text}");
        let traffic = Traffic::from_trace(&text, None).unwrap();
        assert_eq!(traffic.routes[0].arrivals.len(), ids.len(), "{text}");
    }
}
