//! The small bars of the last 30 days beside a number of Home, drawn on the server.

use maud::{Markup, html};

use crate::report::{Cell, Exactness};
use crate::text::locale::Locale;

/// The size of the picture, in its own units.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 32.0;
/// The least height of a bar, so that a 0 is seen.
const LEAST: f64 = 1.0;
/// How many times the second highest day the highest one is at least, to be drawn shorter.
const FAR: f64 = 3.0;

/// A bar for each day; grey in full height behind it for a day of which not all is known. The label
/// says the same in words.
pub(super) fn spark(days: &[Cell], locale: &Locale) -> Markup {
    let numbers: Vec<f64> = days.iter().filter_map(Cell::number).collect();
    let low = numbers.iter().copied().fold(f64::MAX, f64::min);
    let high = numbers.iter().copied().fold(f64::MIN, f64::max);
    let top = top_of(&numbers);
    let label = if numbers.is_empty() {
        "Last 30 days: unknown".to_owned()
    } else {
        let known = days.iter().filter(|day| is_known(day)).count();
        let unsure = numbers.len() - known;
        let mut label = format!("Last 30 days: {known} known");
        if unsure > 0 {
            label.push_str(&format!(", {unsure} in part"));
        }
        label.push_str(&format!(
            ", from {} to {} a day",
            locale.grouped(low),
            locale.grouped(high)
        ));
        label
    };
    let step = WIDTH / days.len().max(1) as f64;
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    html! {
        svg.spark viewBox=(view) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (index, day) in days.iter().enumerate() {
                @let x = one_decimal(index as f64 * step);
                @if !is_known(day) {
                    rect x=(x) width=(one_decimal(step)) height=(HEIGHT) fill="currentColor"
                        fill-opacity="0.25" {}
                }
                @if let Some(amount) = day.number() {
                    @let height = LEAST + share(amount, top) * (HEIGHT - LEAST);
                    rect x=(x) y=(one_decimal(HEIGHT - height)) width=(one_decimal(step - 1.0))
                        height=(one_decimal(height))
                    {
                        title { (when(days.len() - 1 - index)) ": " (locale.grouped(amount)) }
                    }
                }
            }
        }
    }
}

/// Whether the number of a day is right as far as the mirror can tell.
fn is_known(day: &Cell) -> bool {
    day.number().is_some() && day.exactness == Exactness::Exact
}

/// The amount that is drawn in full height: the highest, or twice the second one if that is far
/// below it. So one day does not flatten the others.
fn top_of(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let highest = sorted.pop().unwrap_or_default();
    match sorted.pop() {
        Some(second) if second > 0.0 && highest > FAR * second => 2.0 * second,
        _ => highest,
    }
}

/// When a day was, in words.
fn when(days_ago: usize) -> String {
    match days_ago {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

/// An amount as a share of the one in full height, from 0 to 1.
fn share(amount: f64, top: f64) -> f64 {
    if top > 0.0 {
        (amount / top).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

fn one_decimal(number: f64) -> String {
    format!("{number:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SqlValue;

    #[test]
    fn one_high_day_does_not_flatten_the_others() {
        assert!(top_of(&[4.0, 3.0, 100.0]) < 9.0);
        assert!(top_of(&[4.0, 9.0]) > 8.0 && top_of(&[0.0, 9.0]) > 8.0);
        assert!(share(100.0, 8.0) <= 1.0 && share(-3.0, 8.0) >= 0.0);
    }

    #[test]
    fn a_day_without_a_known_number_is_grey_and_is_no_zero() {
        let unknown = Cell {
            value: SqlValue::Null,
            exactness: Exactness::Unknown,
        };
        let known = |number| Cell {
            value: SqlValue::Real(number),
            exactness: Exactness::Exact,
        };
        let in_part = Cell {
            exactness: Exactness::AtLeast,
            ..known(2.0)
        };
        let days = [unknown, known(0.0), in_part, known(4.0)];
        let drawn = spark(&days, &Locale::default()).into_string();
        assert_eq!(drawn.matches("fill-opacity").count(), 2, "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 5, "{drawn}");
        assert!(
            drawn.contains("Last 30 days: 2 known, 1 in part, from 0 to 4 a day"),
            "{drawn}"
        );
    }
}
