//! How the page writes numbers and foreign text.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::Value;

use crate::escape;
use crate::report;

/// The most characters of a text that the page did not write itself.
const LENGTH_MAX: usize = 300;

/// Foreign text on one line, cut at a bounded length.
pub(super) fn shown(text: &str) -> String {
    escape::shown(&escape::cut(text, LENGTH_MAX))
}

/// A message whose commands are between backticks.
pub(super) fn message(text: &str) -> Markup {
    let text = shown(text);
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

/// A number with commas between its thousands.
pub(super) fn number(number: i64) -> String {
    report::grouped(number as f64)
}

/// A number with its noun: `1 change`, `2 changes`.
pub(super) fn count(count: i64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

/// An amount of money with commas between its thousands, after its currency.
pub(super) fn money(amount: f64, currency: Option<&str>) -> String {
    let amount = report::money(amount);
    currency.map_or_else(|| amount.clone(), |currency| format!("{currency}\u{a0}{amount}"))
}

/// Bytes in binary units.
pub(super) fn bytes(bytes: u64) -> String {
    let amount = bytes as f64;
    match amount {
        b if b < 1024.0 => format!("{b:.0} B"),
        b if b < 1024.0 * 1024.0 => format!("{:.0} KiB", b / 1024.0),
        b if b < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", b / (1024.0 * 1024.0)),
        b => format!("{:.1} GiB", b / (1024.0 * 1024.0 * 1024.0)),
    }
}

/// A time stamp of the workspace or of the store in the shop's zone, as it came if one points at it; any
/// other text as it is.
pub(super) fn moment(text: &str, zone: &TimeZone, form: &str) -> Markup {
    let is_stamp = text.len() >= 20 && text.ends_with('Z') && text.starts_with(char::is_numeric);
    let at = is_stamp.then(|| text.parse::<Timestamp>().ok()).flatten();
    html! {
        @match at {
            Some(at) => time datetime=(text) title=(text) { (at.to_zoned(zone.clone()).strftime(form)) },
            None => (shown(text)),
        }
    }
}

/// The name of the zone.
pub(super) fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().map_or_else(|| "this machine's time zone".to_owned(), shown)
}

/// A value of a field for people: text without its quotation marks.
pub(super) fn plain(json: Option<&str>) -> String {
    match json.map(serde_json::from_str) {
        None => "(absent)".to_owned(),
        Some(Ok(Value::Null)) => "(empty)".to_owned(),
        Some(Ok(Value::String(text))) if !text.is_empty() => text,
        _ => json.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_as_text() {
        let hostile = "<script>alert(1)</script>`\"&\r\n\u{1b}[31m\u{202e}\u{200b}";
        let made = message(hostile).into_string();
        assert!(!made.contains("<script") && made.contains("&lt;script&gt;"), "{made}");
        assert!(!made.chars().any(escape::is_unsafe), "{made:?}");
        assert_eq!(shown(&"é".repeat(10_000)).chars().count(), LENGTH_MAX + 1);
    }

    #[test]
    fn times_are_those_of_the_shop_and_other_text_stays() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let made = |text: &str| moment(text, &zone, "%Y-%m-%d %H:%M").into_string();
        let stamp = "2026-07-01T22:30:05.123456Z";
        let told = format!("<time datetime=\"{stamp}\" title=\"{stamp}\">2026-07-02 00:30</time>");
        assert_eq!(made(stamp), told);
        for text in ["2026-07-01", "1Z", "99999999999999999999Z", "JOB-1"] {
            assert_eq!(made(text), text);
        }
        assert_eq!(zone_name(&zone), "Europe/Berlin");
    }

    #[test]
    fn numbers_are_grouped_and_sizes_have_a_unit() {
        assert_eq!((number(1_234_567), number(-12_345)), ("1,234,567".into(), "-12,345".into()));
        assert_eq!(number(0), "0");
        assert_eq!(count(1, "change", "changes"), "1 change");
        assert_eq!((bytes(1000), bytes(2048)), ("1000 B".into(), "2 KiB".into()));
        assert_eq!(bytes(3 * 1024 * 1024 * 1024 / 2), "1.5 GiB");
    }
}
