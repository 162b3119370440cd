//! Writes numbers in messages, which are English: with a comma between thousands, with their noun.
//! What belongs to a country is in [`super::locale`]. Pure.

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

/// As many decimals as `least`, and up to four if the amount has them. Money of a sum of fractions
/// is rounded.
#[must_use]
pub fn decimals(amount: f64, least: usize) -> String {
    let mut shown = format!("{amount:.4}");
    while shown.ends_with('0') && fraction_of(&shown) > least {
        shown.pop();
    }
    if fraction_of(&shown) == 0 {
        shown = shown.trim_end_matches('.').to_owned();
    }
    // A sum of fractions may be a little less than nothing.
    let is_nothing = shown.chars().all(|c| "-0.".contains(c));
    if is_nothing {
        shown = shown.trim_start_matches('-').to_owned();
    }
    shown
}

/// How many digits follow the point.
fn fraction_of(number: &str) -> usize {
    match number.split_once('.') {
        Some((_, fraction)) => fraction.len(),
        None => 0,
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
fn separated(text: &str) -> String {
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
