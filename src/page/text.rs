//! How the page writes numbers, times and foreign text.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};

use crate::text::document;
use crate::text::escape;
use crate::text::locale::Locale;
pub(super) use crate::text::names::{label, list_title, nouns};

/// The most characters of a text from outside.
pub(super) const LENGTH_MAX: usize = 300;

/// Foreign text on one line, cut at a bounded length. Its element has `dir="auto"`, or is `bdi`
/// inside of a line: so the text has the direction of its first letter and turns nothing around it.
pub(super) fn shown(text: &str) -> String {
    document::cell(text, LENGTH_MAX)
}

/// A message whose commands are between backticks. It may quote what reverses a line, as an escape.
pub(super) fn message(text: &str) -> Markup {
    let text = escape::cell(text, LENGTH_MAX);
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

/// An amount of money with its currency, which is not broken.
pub(super) fn money(amount: f64, currency: Option<&str>, locale: &Locale) -> String {
    locale.money(amount, currency).replace(' ', "\u{a0}")
}

/// A time stamp of the workspace or of the store in the shop's zone, as the country writes it, with
/// the stamp itself as its tooltip; any other text as it is.
pub(super) fn moment(text: &str, zone: &TimeZone, locale: &Locale) -> Markup {
    html! {
        @match text.parse::<Timestamp>() {
            Ok(at) => {
                @let local = at.to_zoned_datetime(zone.clone());
                time datetime=(text) title=(text) { (locale.moment(&local)) }
            }
            Err(_) => bdi { (shown(text)) },
        }
    }
}

/// The name of the zone.
pub(super) fn zone_name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => shown(name),
        None => "this machine's time zone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_shown_as_text() {
        let hostile = "<script>alert(1)</script>`\"&\r\n\u{1b}[31m\u{202e}\u{200b}";
        let html = message(hostile).into_string();
        assert!(
            !html.contains("<script") && html.contains("&lt;script&gt;"),
            "{html}"
        );
        assert!(!html.chars().any(escape::is_unsafe), "{html:?}");
        assert!(!shown(hostile).contains(char::is_control));
        let name = "علی\u{200c}رضا";
        assert_eq!(shown(name), name);
        let isolated = moment(name, &TimeZone::UTC, &Locale::default()).into_string();
        assert_eq!(isolated, format!("<bdi>{name}</bdi>"));
        assert_eq!(shown(&"é".repeat(10_000)).chars().count(), LENGTH_MAX + 1);
    }

    #[test]
    fn times_are_those_of_the_shop_and_other_text_stays() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let plain = Locale::default();
        let written = |text: &str| moment(text, &zone, &plain).into_string();
        let stamp = "2026-07-01T22:30:05.123456Z";
        let expected =
            format!("<time datetime=\"{stamp}\" title=\"{stamp}\">2026-07-02 00:30</time>");
        assert_eq!(written(stamp), expected);
        for text in ["2026-07-01", "1Z", "99999999999999999999Z", "JOB-1"] {
            assert_eq!(written(text), format!("<bdi>{text}</bdi>"));
        }
        assert_eq!(zone_name(&zone), "Europe/Berlin");
    }
}
