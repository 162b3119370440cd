//! How the page writes numbers and foreign text.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::text::escape;
use crate::text::number;

/// The most characters of a text that the page did not write itself.
const LENGTH_MAX: usize = 300;

/// Foreign text on one line, cut at a bounded length.
pub(super) fn shown(text: &str) -> String {
    escape::cell(text, LENGTH_MAX)
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

/// An amount of money after its currency, which is not broken.
pub(super) fn money(amount: f64, currency: Option<&str>) -> String {
    number::money(amount, currency).replace(' ', "\u{a0}")
}

/// A time stamp of the workspace or of the store in the shop's zone, as it came if one points at
/// it; any other text as it is.
pub(super) fn moment(text: &str, zone: &TimeZone, form: &str) -> Markup {
    html! {
        @match text.parse::<Timestamp>() {
            Ok(at) => time datetime=(text) title=(text) { (at.to_zoned_datetime(zone.clone()).strftime(form)) },
            Err(_) => (shown(text)),
        }
    }
}

/// The name of the zone.
pub(super) fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name()
        .map_or_else(|| "this machine's time zone".to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_as_text() {
        let hostile = "<script>alert(1)</script>`\"&\r\n\u{1b}[31m\u{202e}\u{200b}";
        let made = message(hostile).into_string();
        assert!(
            !made.contains("<script") && made.contains("&lt;script&gt;"),
            "{made}"
        );
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
}
