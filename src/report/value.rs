//! How one value of a report is written.

use serde_json::{Map, Value};

use super::answer::Answer;
use super::head::ColumnFormat;
use crate::store::SqlValue;

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
        Some(ColumnFormat::Money) => money(number),
        Some(ColumnFormat::Percent) => format!("{number:.1} %"),
        None => plain(number),
    }
}

/// A value as a number for programs, or its text.
pub(super) fn exact(value: &SqlValue, format: Option<ColumnFormat>) -> String {
    match (value, format) {
        (SqlValue::Real(number), Some(ColumnFormat::Money)) => money(*number),
        (SqlValue::Integer(number), Some(ColumnFormat::Money)) => money(*number as f64),
        _ => shown(value, None),
    }
}

/// The rows as objects; amounts without the noise of binary fractions.
#[must_use]
pub fn objects(answer: &Answer) -> Vec<Map<String, Value>> {
    let value = |value: &SqlValue| match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => (*number).into(),
        SqlValue::Real(number) => ((number * 1e9).round() / 1e9).into(),
        SqlValue::Text(text) => text.as_str().into(),
        SqlValue::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
    };
    let names = || answer.columns.iter().map(|column| column.name.clone());
    answer.rows.iter().map(|row| names().zip(row.iter().map(value)).collect()).collect()
}

/// Two decimals; up to four if the amount has them. Money of a sum of fractions is rounded.
fn money(amount: f64) -> String {
    let exact = format!("{amount:.4}");
    let shown = match exact.strip_suffix("00") {
        Some(short) => short.to_owned(),
        None => exact.trim_end_matches('0').to_owned(),
    };
    if shown == "-0.00" { "0.00".to_owned() } else { shown }
}

/// The shortest text that reads as the same number, without the noise of binary fractions.
fn plain(number: f64) -> String {
    let rounded = (number * 1e9).round() / 1e9;
    if rounded.is_finite() { format!("{rounded}") } else { format!("{number}") }
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
        assert_eq!(shown(&SqlValue::Integer(7), Some(ColumnFormat::Money)), "7.00");
        assert_eq!(shown(&SqlValue::Real(0.1 + 0.2), None), "0.3");
        assert_eq!(shown(&SqlValue::Real(12.5), Some(ColumnFormat::Percent)), "12.5 %");
        assert_eq!(exact(&SqlValue::Real(12.5), Some(ColumnFormat::Percent)), "12.5");
        assert_eq!(shown(&SqlValue::Null, Some(ColumnFormat::Money)), "");
    }
}
