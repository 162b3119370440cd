//! How one value of a report is written.

use jiff::civil::Date;
use serde_json::Value;

use super::exactness::{Cell, Exactness, number};
use super::head::ColumnFormat;
use crate::store::SqlValue;
use crate::text::locale::Locale;
use crate::text::number::{decimals, plain};

/// The ends of the names of fields that hold an amount.
const AMOUNTS: [&str; 4] = ["amount", "cost", "price", "total"];

/// A value as text for people; nothing for NULL. Text is not escaped.
#[must_use]
pub fn shown(value: &SqlValue, format: Option<ColumnFormat>) -> String {
    let number = match value {
        SqlValue::Null => return String::new(),
        SqlValue::Text(text) => return text.clone(),
        SqlValue::Blob(bytes) => return String::from_utf8_lossy(bytes).into_owned(),
        SqlValue::Integer(number) if format.is_none() => return number.to_string(),
        SqlValue::Integer(number) => *number as f64,
        SqlValue::Real(number) => *number,
    };
    match format {
        Some(ColumnFormat::Money) => decimals(number, 2),
        Some(ColumnFormat::Percent) => format!("{number:.1} %"),
        None => plain(number),
    }
}

/// A value for people: numbers with separators, amounts with the currency, and how sure it is.
pub(super) fn displayed(
    cell: &Cell,
    column: &str,
    format: Option<ColumnFormat>,
    currency: Option<&str>,
    locale: &Locale,
) -> String {
    // Of one value that cannot be read nothing is known, though a sum may say how it counts.
    if cell.value == SqlValue::Null && cell.exactness != Exactness::Exact {
        return "unknown".to_owned();
    }
    let number = counted(&cell.value, column, format, currency, locale);
    match cell.exactness {
        Exactness::Exact => number,
        Exactness::Unknown => "unknown".to_owned(),
        Exactness::AtLeast => format!("≥ {number}"),
        Exactness::AtMost => format!("≤ {number}"),
        Exactness::Between { upper } => {
            let upper = counted(&upper.into(), column, format, currency, locale);
            format!("{number} to {upper}")
        }
        Exactness::About => format!("about {number}"),
    }
}

/// A number of records for people, with how sure it is.
#[must_use]
pub fn marked_count(count: &Cell, locale: &Locale) -> String {
    displayed(count, "records", None, None, locale)
}

/// An amount for people, with how sure it is.
#[must_use]
pub fn marked_amount(amount: &Cell, currency: Option<&str>, locale: &Locale) -> String {
    let format = Some(ColumnFormat::Money);
    displayed(amount, "amount", format, currency, locale)
}

/// A value for people: numbers with separators, amounts with the currency.
fn counted(
    value: &SqlValue,
    column: &str,
    format: Option<ColumnFormat>,
    currency: Option<&str>,
    locale: &Locale,
) -> String {
    if let SqlValue::Text(text) = value
        && let Some(day) = day_of(text)
    {
        return locale.day(day);
    }
    match (number(value), format) {
        (Some(number), Some(ColumnFormat::Money)) => locale.money(number, currency),
        (Some(_), format) if format.is_some() || !is_a_name(column) => {
            locale.separated(&shown(value, format))
        }
        _ => shown(value, None),
    }
}

/// The head of a column of a report for people.
#[must_use]
pub(super) fn heading(column: &str) -> String {
    column.replace('_', " ")
}

/// Whether a field of a record holds an amount, by the end of its name.
#[must_use]
pub fn is_amount(field: &str) -> bool {
    AMOUNTS.iter().any(|end| field.ends_with(end))
}

/// The day that is written as `2026-03-01`.
pub(super) fn day_of(text: &str) -> Option<Date> {
    if text.len() != "2026-03-01".len() || text.as_bytes()[4] != b'-' {
        return None;
    }
    text.parse().ok()
}

/// Whether the numbers of a column stand for something, as an id does: they are not counted.
pub(super) fn is_a_name(column: &str) -> bool {
    ["id", "number", "year", "hour"].iter().any(|word| {
        column
            .strip_suffix(word)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    })
}

/// A value for programs, without the noise of binary fractions.
#[must_use]
pub(super) fn json_of(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => (*number).into(),
        SqlValue::Real(number) => ((number * 1e9).round() / 1e9).into(),
        SqlValue::Text(text) => text.as_str().into(),
        SqlValue::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_of_binary_fractions_is_visible() {
        let money = |amount: f64| shown(&SqlValue::Real(amount), Some(ColumnFormat::Money));
        assert_eq!(money(0.1 + 0.2), "0.30");
        assert_eq!(money(1234.5), "1234.50");
        assert_eq!(money(-0.000_000_1), "0.00");
        assert_eq!(money(2.345), "2.345");
        assert_eq!(
            shown(&SqlValue::Integer(7), Some(ColumnFormat::Money)),
            "7.00"
        );
        assert_eq!(shown(&SqlValue::Real(0.1 + 0.2), None), "0.3");
        assert_eq!(
            shown(&SqlValue::Real(12.5), Some(ColumnFormat::Percent)),
            "12.5 %"
        );
        assert_eq!(shown(&SqlValue::Null, Some(ColumnFormat::Money)), "");
    }

    #[test]
    fn people_see_separators_the_currency_and_how_sure_a_number_is() {
        let of = |name: &str, format, value: SqlValue, exactness| {
            let cell = Cell { value, exactness };
            displayed(&cell, name, format, Some("EUR"), &Locale::default())
        };
        let (exact, money) = (Exactness::Exact, Some(ColumnFormat::Money));
        assert_eq!(
            of("net", money, (-1_234_567.5).into(), exact),
            "EUR -1,234,567.50"
        );
        assert_eq!(
            of("jobs", None, 1_310.into(), Exactness::AtLeast),
            "≥ 1,310"
        );
        assert_eq!(of("jobs", None, 999.into(), exact), "999");
        assert_eq!(of("days", None, 1234.5678.into(), exact), "1,234.5678");
        assert_eq!(
            of("net", money, SqlValue::Null, Exactness::Unknown),
            "unknown"
        );
        assert_eq!(of("net", money, SqlValue::Null, exact), "");
        assert_eq!(of("job_id", None, 123_456.into(), exact), "123456");
        assert_eq!(of("paid", None, 123_456.into(), exact), "123,456");
        assert_eq!(of("note", None, "2026".to_owned().into(), exact), "2026");
    }
}
