//! How a country writes numbers, days and amounts of money: one value, which is passed to what
//! writes. Pure.
//!
//! The rules are those of the C library's locales. Without a locale, numbers are written as in
//! English and days as ISO 8601 has them.

use std::sync::LazyLock;

use jiff::ZonedDateTime;
use jiff::civil::{Date, Weekday};
use pure_rust_locales::{Locale as Source, locale_match};

use super::number::{decimals, plain};

/// The countries of languages whose names do not say it: `en` is read as `en-US`.
const COUNTRIES: [(&str, &str); 22] = [
    ("ar", "EG"),
    ("bn", "BD"),
    ("ca", "ES"),
    ("cs", "CZ"),
    ("da", "DK"),
    ("el", "GR"),
    ("en", "US"),
    ("et", "EE"),
    ("fa", "IR"),
    ("ga", "IE"),
    ("he", "IL"),
    ("hi", "IN"),
    ("ja", "JP"),
    ("ko", "KR"),
    ("nb", "NO"),
    ("nn", "NO"),
    ("sl", "SI"),
    ("sq", "AL"),
    ("sv", "SE"),
    ("uk", "UA"),
    ("vi", "VN"),
    ("zh", "CN"),
];
/// The currencies without cents (ISO 4217).
const WITHOUT_CENTS: [&str; 17] = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND",
    "VUV", "XAF", "XOF", "XPF",
];
/// The currencies whose smallest part is a thousandth (ISO 4217).
const WITH_THOUSANDTHS: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];

/// How a country writes numbers, days and amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locale {
    decimal: &'static str,
    thousands: &'static str,
    /// The digits of each group, from the right; the last one repeats.
    grouping: &'static [i64],
    day: DayForm,
    first_weekday: Weekday,
    is_currency_first: bool,
    /// Whether a sign such as `$` stands apart from the amount.
    is_sign_apart: bool,
}

/// The order of a day's parts, each with the text after it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DayForm([(DayPart, String); 3]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DayPart {
    Day,
    Month,
    Year,
}

impl Default for Locale {
    fn default() -> Self {
        PLAIN.clone()
    }
}

/// Numbers as in English, days as ISO 8601 has them, weeks from Monday on.
static PLAIN: LazyLock<Locale> = LazyLock::new(|| Locale {
    decimal: ".",
    thousands: ",",
    grouping: &[3, 3],
    day: DayForm::iso(),
    first_weekday: Weekday::Monday,
    is_currency_first: true,
    is_sign_apart: true,
});

impl Locale {
    /// The locale of a name such as `de-DE`, `de`, or `de_DE.UTF-8`; `None` if it is not known.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.split(['.', '@']).next().unwrap_or_default();
        let mut parts = name.split(['-', '_']);
        let mut language = parts.next()?.to_ascii_lowercase();
        // Norwegian has this name among the locales, and the other one in some browsers.
        if language == "no" {
            language = "nb".to_owned();
        }
        // Of `zh-Hant-TW`, the country is the last part.
        let country = match parts.next_back() {
            Some(country) => country.to_ascii_uppercase(),
            None => country_of(&language),
        };
        let source = Source::try_from(format!("{language}_{country}").as_str()).ok()?;
        Some(Self::of(source))
    }

    /// The first language of a browser's `Accept-Language` that is known; plain if there is none.
    #[must_use]
    pub fn accepted(header: &str) -> Self {
        let mut best = None;
        let mut best_weight = 0.0;
        for item in header.split(',') {
            let (name, weight) = match item.split_once(';') {
                Some((name, parameter)) => (name, weight_of(parameter)),
                None => (item, 1.0),
            };
            if weight > best_weight
                && let Some(locale) = Self::named(name.trim())
            {
                best = Some(locale);
                best_weight = weight;
            }
        }
        best.unwrap_or_default()
    }

    /// The locale of the machine, by its variable `LANG`; plain if that is `C` or not set.
    #[must_use]
    pub fn of_machine(lang: Option<&str>) -> Self {
        lang.and_then(Self::named).unwrap_or_default()
    }

    fn of(source: Source) -> Self {
        let mut decimal = locale_match!(source => LC_MONETARY::MON_DECIMAL_POINT);
        let mut thousands = locale_match!(source => LC_MONETARY::MON_THOUSANDS_SEP);
        let mut grouping = locale_match!(source => LC_MONETARY::MON_GROUPING);
        if decimal.is_empty() {
            decimal = locale_match!(source => LC_NUMERIC::DECIMAL_POINT);
            thousands = locale_match!(source => LC_NUMERIC::THOUSANDS_SEP);
            grouping = locale_match!(source => LC_NUMERIC::GROUPING);
        }
        let first = locale_match!(source => LC_TIME::FIRST_WEEKDAY).unwrap_or(1);
        let first_weekday = Weekday::from_sunday_one_offset(first as i8);
        Self {
            decimal,
            thousands,
            grouping,
            day: DayForm::parse(locale_match!(source => LC_TIME::D_FMT)),
            first_weekday: first_weekday.unwrap_or(Weekday::Monday),
            is_currency_first: locale_match!(source => LC_MONETARY::P_CS_PRECEDES) == 1,
            is_sign_apart: locale_match!(source => LC_MONETARY::P_SEP_BY_SPACE) != 0,
        }
    }

    /// The same numbers, with days as ISO 8601 has them.
    #[must_use]
    pub fn with_iso_days(mut self) -> Self {
        self.day = DayForm::iso();
        self
    }

    /// The sign before the fraction of a number.
    #[must_use]
    pub fn decimal_sign(&self) -> &'static str {
        self.decimal
    }

    /// The day on which a week begins.
    #[must_use]
    pub fn first_weekday(&self) -> Weekday {
        self.first_weekday
    }

    /// A number with its groups, without the noise of binary fractions.
    #[must_use]
    pub fn grouped(&self, number: f64) -> String {
        self.separated(&plain(number))
    }

    /// A whole number with its groups.
    #[must_use]
    pub fn whole(&self, number: i64) -> String {
        self.separated(&number.to_string())
    }

    /// The text of a number, such as `-1234.5 %`, with groups and with the sign of the country.
    #[must_use]
    pub fn separated(&self, text: &str) -> String {
        let unsigned = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        let fraction = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
        let sign = &text[..text.len() - unsigned.len()];
        let digits = &unsigned[..unsigned.len() - fraction.len()];
        let fraction = match fraction.strip_prefix('.') {
            Some(fraction) => format!("{}{fraction}", self.decimal),
            None => fraction.to_owned(),
        };
        format!("{sign}{}{fraction}", self.groups(digits))
    }

    /// Digits with the sign between their groups.
    fn groups(&self, digits: &str) -> String {
        let mut groups = Vec::new();
        let mut rest = digits;
        let mut sizes = self.grouping.iter();
        let mut size = 0;
        while !rest.is_empty() {
            size = *sizes.next().unwrap_or(&size);
            let length = usize::try_from(size).unwrap_or(0);
            if length == 0 || length >= rest.len() {
                break;
            }
            let (before, group) = rest.split_at(rest.len() - length);
            groups.push(group);
            rest = before;
        }
        groups.push(rest);
        groups.reverse();
        groups.join(self.thousands)
    }

    /// An amount with its currency: `EUR 1,234.50`, `1.234,50 EUR`.
    #[must_use]
    pub fn money(&self, amount: f64, currency: Option<&str>) -> String {
        let Some(currency) = currency else {
            return self.separated(&decimals(amount, cents(None)));
        };
        let amount = self.separated(&decimals(amount, cents(Some(currency))));
        let space = if self.is_apart(currency) { " " } else { "" };
        if self.is_currency_first {
            format!("{currency}{space}{amount}")
        } else {
            format!("{amount}{space}{currency}")
        }
    }

    /// Whether a space stands between an amount and its currency: always beside letters.
    fn is_apart(&self, currency: &str) -> bool {
        self.is_sign_apart || currency.chars().any(char::is_alphabetic)
    }

    /// A day: `2026-03-01`, `01.03.2026`.
    #[must_use]
    pub fn day(&self, day: Date) -> String {
        let mut text = String::new();
        for (part, after) in &self.day.0 {
            text += &match part {
                DayPart::Day => format!("{:02}", day.day()),
                DayPart::Month => format!("{:02}", day.month()),
                DayPart::Year => format!("{:04}", day.year()),
            };
            text += after;
        }
        text
    }

    /// A day with its time: `2026-03-01 08:00`.
    #[must_use]
    pub fn moment(&self, at: &ZonedDateTime) -> String {
        format!("{} {}", self.day(at.date()), at.strftime("%H:%M"))
    }

    /// The form of a day in a spreadsheet: `dd\.mm\.yyyy`.
    #[must_use]
    pub fn day_code(&self) -> String {
        let mut code = String::new();
        for (part, after) in &self.day.0 {
            code += match part {
                DayPart::Day => "dd",
                DayPart::Month => "mm",
                DayPart::Year => "yyyy",
            };
            for character in after.chars() {
                code.push('\\');
                code.push(character);
            }
        }
        code
    }

    /// The form of an amount in a spreadsheet, which has its own separators: `#,##0.00\ [$EUR]`.
    /// What could end the name of the currency is left out of it.
    #[must_use]
    pub fn money_code(&self, currency: Option<&str>) -> String {
        let mut name = currency.unwrap_or_default().to_owned();
        name.retain(|c| c.is_alphanumeric() || "€$£¥₹.".contains(c));
        let mut code = "#,##0".to_owned();
        let digits = cents(currency);
        if digits > 0 {
            code = format!("{code}.{}", "0".repeat(digits));
        }
        let space = if self.is_apart(&name) { "\\ " } else { "" };
        if name.is_empty() {
            code
        } else if self.is_currency_first {
            format!("[${name}]{space}{code}")
        } else {
            format!("{code}{space}[${name}]")
        }
    }
}

impl DayForm {
    fn iso() -> Self {
        let dash = || "-".to_owned();
        Self([
            (DayPart::Year, dash()),
            (DayPart::Month, dash()),
            (DayPart::Day, String::new()),
        ])
    }

    /// Reads the form of the C library, such as `%d.%m.%Y`; ISO 8601 if it names another part or a
    /// month by its word.
    fn parse(form: &str) -> Self {
        let form = form.replace("%D", "%m/%d/%y").replace("%F", "%Y-%m-%d");
        let mut parts = Vec::new();
        for piece in form.split('%').skip(1) {
            let piece = piece.trim_start_matches(['-', 'E', 'O']);
            let mut characters = piece.chars();
            let part = match characters.next() {
                Some('d' | 'e') => DayPart::Day,
                Some('m') => DayPart::Month,
                Some('y' | 'Y' | 'G') => DayPart::Year,
                _ => return Self::iso(),
            };
            parts.push((part, characters.as_str().to_owned()));
        }
        let has = |part| parts.iter().any(|(own, _)| *own == part);
        if !(has(DayPart::Day) && has(DayPart::Month) && has(DayPart::Year)) {
            return Self::iso();
        }
        match parts.try_into() {
            Ok(parts) => Self(parts),
            Err(_) => Self::iso(),
        }
    }
}

/// The digits of the smallest part of a currency; two if it is not known.
fn cents(currency: Option<&str>) -> usize {
    let name = currency.unwrap_or_default().trim().to_ascii_uppercase();
    if WITHOUT_CENTS.contains(&name.as_str()) {
        0
    } else if WITH_THOUSANDTHS.contains(&name.as_str()) {
        3
    } else {
        2
    }
}

/// The weight in a parameter such as `q=0.7` of `Accept-Language`.
fn weight_of(parameter: &str) -> f64 {
    match parameter.trim().strip_prefix(['q', 'Q']) {
        Some(weight) => weight.trim_start_matches('=').parse().unwrap_or(0.0),
        None => 1.0,
    }
}

/// The country of a language: the one of the table, or the one of its own name.
fn country_of(language: &str) -> String {
    for (own, country) in COUNTRIES {
        if own == language {
            return country.to_owned();
        }
    }
    language.to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn named(name: &str) -> Locale {
        Locale::named(name).unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn numbers_amounts_and_days_are_those_of_the_country() {
        let day = date(2026, 3, 1);
        for (name, number, amount, written_day) in [
            ("de-DE", "1.234.567,5", "1.234,50 EUR", "01.03.2026"),
            ("en-US", "1,234,567.5", "EUR 1,234.50", "03/01/2026"),
            ("en-GB", "1,234,567.5", "EUR 1,234.50", "01/03/2026"),
            ("en-IN", "12,34,567.5", "EUR 1,234.50", "01/03/2026"),
            (
                "fr-FR",
                "1\u{202f}234\u{202f}567,5",
                "1\u{202f}234,50 EUR",
                "01/03/2026",
            ),
            (
                "sv-SE",
                "1\u{202f}234\u{202f}567,5",
                "1\u{202f}234,50 EUR",
                "2026-03-01",
            ),
            ("ja-JP", "1,234,567.5", "EUR 1,234.50", "2026年03月01日"),
            ("de-CH", "1’234’567.5", "EUR 1’234.50", "01.03.2026"),
        ] {
            let locale = named(name);
            assert_eq!(locale.grouped(1_234_567.5), number, "{name}");
            assert_eq!(locale.money(1234.5, Some("EUR")), amount, "{name}");
            assert_eq!(locale.day(day), written_day, "{name}");
        }
        let plain = Locale::default();
        assert_eq!(plain.grouped(-1_234_567.5), "-1,234,567.5");
        assert_eq!(plain.money(1234.5, Some("EUR")), "EUR 1,234.50");
        assert_eq!(plain.day(day), "2026-03-01");
        assert_eq!(named("de").separated("12.5 %"), "12,5 %");
        assert_eq!(named("en-US").money(5.0, Some("$")), "$5.00");
    }

    #[test]
    fn an_amount_has_the_cents_of_its_currency() {
        let german = named("de-DE");
        assert_eq!(german.money(1234.0, Some("JPY")), "1.234 JPY");
        assert_eq!(german.money(1234.5, Some("CLP")), "1.234,5 CLP");
        assert_eq!(german.money(1234.5, Some("KWD")), "1.234,500 KWD");
        assert_eq!(german.money(1234.5, None), "1.234,50");
        assert_eq!(german.money_code(Some("JPY")), "#,##0\\ [$JPY]");
        assert_eq!(named("en-US").money_code(Some("$")), "[$$]#,##0.00");
        let plain = Locale::default();
        assert_eq!(plain.money_code(Some("]0;\"x\"")), "[$0x]\\ #,##0.00");
        assert_eq!(plain.money_code(None), "#,##0.00");
        assert_eq!(german.day_code(), "dd\\.mm\\.yyyy");
    }

    #[test]
    fn a_locale_is_known_by_the_names_of_browsers_and_of_machines() {
        for name in ["de-DE", "de_DE.UTF-8", "de_DE@euro", "de", "DE-de"] {
            assert_eq!(named(name), named("de-DE"), "{name}");
        }
        assert_eq!(named("zh-Hant-TW"), named("zh-TW"));
        for name in ["", "C", "POSIX", "C.UTF-8", "xx-XX", "*", "../de"] {
            assert_eq!(Locale::named(name), None, "{name}");
        }
        let accepted = Locale::accepted;
        assert_eq!(accepted("de-DE,de;q=0.9,en;q=0.8"), named("de-DE"));
        assert_eq!(accepted("xx, en;q=0.5, de;q=0.7"), named("de"));
        assert_eq!(accepted("en; q=0.5, de ; Q=0.7"), named("de"));
        assert_eq!(accepted("no, en;q=0.5"), named("nb-NO"));
        assert_eq!(named("no-NO"), named("nb-NO"));
        assert_eq!(accepted("tlh;q=1, *;q=0.1"), Locale::default());
        assert_eq!(accepted(""), Locale::default());
        assert_eq!(Locale::of_machine(Some("C.UTF-8")), Locale::default());
        assert_eq!(Locale::of_machine(Some("de_DE.UTF-8")), named("de"));
        assert_eq!(Locale::of_machine(None), Locale::default());
        assert_eq!(named("en-US").first_weekday(), Weekday::Sunday);
        assert_eq!(named("de").first_weekday(), Weekday::Monday);
    }
}
