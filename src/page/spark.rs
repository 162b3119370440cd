//! The small bars of the last 30 days beside a number of Home, drawn on the server.

use maud::{Markup, html};

use crate::report::Cell;
use crate::text::number::grouped;

/// The size of the picture, in its own units.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 32.0;
/// The least height of a bar, so that a 0 is seen.
const LEAST: f64 = 1.0;

/// A bar for each day, grey in full height if nothing is known of it; what the picture shows is
/// said in its label.
pub(super) fn spark(days: &[Cell]) -> Markup {
    let known = || days.iter().filter_map(Cell::number);
    let (low, high) = (
        known().fold(f64::MAX, f64::min),
        known().fold(f64::MIN, f64::max),
    );
    let label = match known().count() {
        0 => "Last 30 days: unknown".to_owned(),
        count => {
            format!(
                "Last 30 days: {count} known, from {} to {} a day",
                grouped(low),
                grouped(high)
            )
        }
    };
    let step = WIDTH / days.len().max(1) as f64;
    let share = |amount: f64| {
        if high > 0.0 {
            (amount / high).max(0.0)
        } else {
            0.0
        }
    };
    html! {
        svg.spark viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (index, day) in days.iter().enumerate() {
                @let x = format!("{:.1}", index as f64 * step);
                @if let Some(amount) = day.number() {
                    @let height = LEAST + share(amount) * (HEIGHT - LEAST);
                    rect x=(x) y=(format!("{:.1}", HEIGHT - height)) width=(format!("{:.1}", step - 1.0)) height=(format!("{height:.1}")) {}
                } @else {
                    rect x=(x) width=(format!("{step:.1}")) height=(HEIGHT) fill="currentColor" fill-opacity="0.25" {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Exactness;
    use crate::store::SqlValue;

    #[test]
    fn a_day_of_which_nothing_is_known_is_grey_and_is_no_zero() {
        let unknown = Cell {
            value: SqlValue::Null,
            exactness: Exactness::Unknown,
        };
        let known = |number| Cell {
            value: SqlValue::Real(number),
            exactness: Exactness::Exact,
        };
        let days = [unknown, known(0.0), known(4.0)];
        let drawn = spark(&days).into_string();
        assert_eq!(drawn.matches("fill-opacity").count(), 1, "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 3, "{drawn}");
        assert!(
            drawn.contains("Last 30 days: 2 known, from 0 to 4 a day"),
            "{drawn}"
        );
    }
}
