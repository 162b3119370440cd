//! The reader of amounts: numbers, and texts that leave one reading.
//!
//! A text may have a sign, spaces, one currency sign or code, thousands and a fraction. `1.234` has
//! two readings; which one is meant is a fact of its field.

use super::text::JsonValue;
use super::{AmountReading, ReadAs, Reading, Rule};

/// The codes of currencies (ISO 4217).
const CURRENCIES: &str = "\
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN \
BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS \
GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW \
KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD \
NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD \
SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED \
VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG";

/// Reads an amount from its JSON text; `None` is a field that was not sent.
#[must_use]
pub fn read_amount(json: Option<&str>) -> AmountReading {
    match JsonValue::of(json) {
        JsonValue::Absent => ReadAs::ABSENT,
        JsonValue::Number(number) => match number.parse::<f64>() {
            Ok(number) if number.is_finite() => ReadAs::certain(number),
            _ => ReadAs::UNREADABLE,
        },
        JsonValue::Text(text) => of_text(&text),
        JsonValue::Other => ReadAs::UNREADABLE,
    }
}

fn of_text(text: &str) -> AmountReading {
    let Some((is_negative, digits)) = bare_digits(text) else {
        return ReadAs::UNREADABLE;
    };
    let mut read = of_digits(&digits);
    if is_negative {
        match &mut read.reading {
            Reading::Certain(amount) => *amount = 0.0 - *amount,
            Reading::Ambiguous(amounts) => {
                for (_, amount) in amounts {
                    *amount = 0.0 - *amount;
                }
            }
            Reading::Absent | Reading::Unreadable => {}
        }
    }
    read
}

/// Whether the amount is negative, and what is left without its sign and currency; `None` if one of
/// them stands there twice.
fn bare_digits(text: &str) -> Option<(bool, String)> {
    let mut rest = text;
    let mut negative = None;
    let mut has_currency = false;
    loop {
        rest = rest.trim();
        if let Some(inner) = in_parentheses(rest) {
            if negative.replace(true).is_some() {
                return None;
            }
            rest = inner;
        } else if let Some((is_negative, other)) = without_sign(rest) {
            if negative.replace(is_negative).is_some() {
                return None;
            }
            rest = other;
        } else if let Some(other) = without_currency(rest) {
            if std::mem::replace(&mut has_currency, true) {
                return None;
            }
            rest = other;
        } else {
            return Some((negative.unwrap_or(false), plain_separators(rest)));
        }
    }
}

fn in_parentheses(text: &str) -> Option<&str> {
    text.strip_prefix('(')?.strip_suffix(')')
}

/// Whether a sign at one end says minus, and the text without it.
fn without_sign(text: &str) -> Option<(bool, &str)> {
    for (sign, is_negative) in [('-', true), ('\u{2212}', true), ('+', false)] {
        let other = text.strip_prefix(sign).or_else(|| text.strip_suffix(sign));
        if let Some(other) = other {
            return Some((is_negative, other));
        }
    }
    None
}

fn without_currency(text: &str) -> Option<&str> {
    if let Some(other) = text.strip_prefix(is_currency_sign) {
        return Some(other);
    }
    if let Some(other) = text.strip_suffix(is_currency_sign) {
        return Some(other);
    }
    if let Some((code, other)) = text.split_at_checked(3)
        && is_currency_code(code)
    {
        return Some(other);
    }
    let (other, code) = text.split_at_checked(text.len().checked_sub(3)?)?;
    is_currency_code(code).then_some(other)
}

/// The signs of currencies in Unicode.
fn is_currency_sign(c: char) -> bool {
    matches!(
        c,
        '$' | '\u{a2}'..='\u{a5}'
            | '\u{58f}'
            | '\u{60b}'
            | '\u{e3f}'
            | '\u{17db}'
            | '\u{20a0}'..='\u{20cf}'
            | '\u{fdfc}'
    )
}

fn is_currency_code(text: &str) -> bool {
    // Most amounts are digits, for which the list need not be searched.
    let is_in_capitals = text.bytes().all(|c| c.is_ascii_uppercase());
    is_in_capitals && CURRENCIES.split(' ').any(|code| code == text)
}

/// The text with one kind of space and of apostrophe.
fn plain_separators(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        plain.push(match c {
            '\u{a0}' | '\u{2009}' | '\u{202f}' => ' ',
            '\u{2019}' => '\'',
            other => other,
        });
    }
    plain
}

/// Reads digits with at most two kinds of separators.
fn of_digits(text: &str) -> AmountReading {
    let is_known = |c: char| c.is_ascii_digit() || ['.', ',', '\'', ' '].contains(&c);
    if !text.contains(|c: char| c.is_ascii_digit()) || !text.chars().all(is_known) {
        return ReadAs::UNREADABLE;
    }
    let mut separators = text.chars().filter(|c| !c.is_ascii_digit());
    let Some(first) = separators.next() else {
        return number(text, "").map_or(ReadAs::UNREADABLE, ReadAs::certain);
    };
    let others: Vec<char> = separators.collect();
    match others.last() {
        None => of_one_separator(text, first),
        // The same one several times: thousands.
        Some(last) if *last == first => of_thousands(text, first),
        Some(last) => of_both(text, first, *last),
    }
}

/// `1.234`, `12,50`, `1 234`.
fn of_one_separator(text: &str, separator: char) -> AmountReading {
    let Some(decimal) = decimal_rule(separator) else {
        return of_thousands(text, separator);
    };
    let Some((whole, fraction)) = text.split_once(separator) else {
        return ReadAs::UNREADABLE;
    };
    let Some(as_fraction) = number(whole, fraction).filter(|_| !fraction.is_empty()) else {
        return ReadAs::UNREADABLE;
    };
    let Some(as_thousands) = thousands(text, separator) else {
        return ReadAs::evident(as_fraction, decimal);
    };
    ReadAs::plain(Reading::Ambiguous([
        (decimal, as_fraction),
        (thousands_rule(separator), as_thousands),
    ]))
}

/// `1.234.567`, `1 234 567`.
fn of_thousands(text: &str, separator: char) -> AmountReading {
    let Some(amount) = thousands(text, separator) else {
        return ReadAs::UNREADABLE;
    };
    match decimal_rule(separator) {
        // What divides thousands stands before no fraction.
        Some(_) => ReadAs::evident(amount, thousands_rule(separator)),
        None => ReadAs::certain(amount),
    }
}

/// `1.234,50`: thousands, then a fraction.
fn of_both(text: &str, first: char, last: char) -> AmountReading {
    let Some(decimal) = decimal_rule(last) else {
        return ReadAs::UNREADABLE;
    };
    let Some((whole, fraction)) = text.split_once(last) else {
        return ReadAs::UNREADABLE;
    };
    let is_whole = thousands(whole, first).is_some();
    if !is_whole || fraction.is_empty() {
        return ReadAs::UNREADABLE;
    }
    match number(&whole.replace(first, ""), fraction) {
        Some(amount) => ReadAs::evident(amount, decimal),
        None => ReadAs::UNREADABLE,
    }
}

/// The rule that a sign before a fraction follows; `None` for one that only divides thousands.
fn decimal_rule(separator: char) -> Option<Rule> {
    match separator {
        '.' => Some(Rule::DecimalPoint),
        ',' => Some(Rule::DecimalComma),
        _ => None,
    }
}

/// The rule of a field in which this sign divides thousands.
fn thousands_rule(separator: char) -> Rule {
    match separator {
        '.' => Rule::DecimalComma,
        _ => Rule::DecimalPoint,
    }
}

/// A whole number in groups: of three digits, or of two and then three as in India (`1,23,456`).
fn thousands(text: &str, separator: char) -> Option<f64> {
    let groups: Vec<&str> = text.split(separator).collect();
    let [first, middle @ .., last] = groups.as_slice() else {
        return None;
    };
    if first.is_empty() || first.len() > 3 || first.starts_with('0') || last.len() != 3 {
        return None;
    }
    let by_three = middle.iter().all(|group| group.len() == 3);
    let by_two = separator == ',' && first.len() < 3 && middle.iter().all(|group| group.len() == 2);
    if !by_three && !by_two {
        return None;
    }
    number(&groups.concat(), "")
}

/// The number with these digits before and after the point.
fn number(whole: &str, fraction: &str) -> Option<f64> {
    let are_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    format!("0{whole}.{fraction}0").parse().ok()
}
