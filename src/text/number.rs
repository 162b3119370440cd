//! Writes numbers for people: with a comma between thousands, with their noun, as an amount of
//! money. Pure.

/// A number with a comma between thousands, without the noise of binary fractions.
#[must_use]
pub fn grouped(number: f64) -> String {
    separated(&plain(number))
}

/// A whole number with a comma between thousands.
#[must_use]
pub fn whole(number: i64) -> String {
    separated(&number.to_string())
}

/// A number with its noun: `1 change`, `2,000 changes`.
#[must_use]
pub fn count(number: impl TryInto<i64>, one: &str, many: &str) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    format!("{} {}", whole(number), if number == 1 { one } else { many })
}

/// An amount after its currency: `EUR 1,234.50`.
#[must_use]
pub fn money(amount: f64, currency: Option<&str>) -> String {
    let amount = separated(&decimals(amount));
    match currency {
        Some(currency) => format!("{currency} {amount}"),
        None => amount,
    }
}

/// Two decimals; up to four if the amount has them. Money of a sum of fractions is rounded.
#[must_use]
pub fn decimals(amount: f64) -> String {
    let exact = format!("{amount:.4}");
    let shown = match exact.strip_suffix("00") {
        Some(short) => short.to_owned(),
        None => exact.trim_end_matches('0').to_owned(),
    };
    if shown == "-0.00" {
        "0.00".to_owned()
    } else {
        shown
    }
}

/// The shortest text that reads as the same number, without the noise of binary fractions.
#[must_use]
pub fn plain(number: f64) -> String {
    let rounded = (number * 1e9).round() / 1e9;
    if rounded.is_finite() {
        format!("{rounded}")
    } else {
        format!("{number}")
    }
}

/// The text of a number with a comma between thousands of its whole part.
#[must_use]
pub fn separated(text: &str) -> String {
    let unsigned = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let fraction = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let sign = &text[..text.len() - unsigned.len()];
    let digits = &unsigned[..unsigned.len() - fraction.len()];
    let mut separated = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated + fraction
}
