//! The small line of the last 30 days beside a number of Home, drawn on the server.

use maud::{Markup, html};

use super::text::money;
use crate::number::whole;
use crate::report::Cell;

/// The size of the picture, in its own units.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 32.0;

/// The days of a number.
pub(super) struct Spark<'a> {
    pub(super) days: &'a [Cell],
    /// Whether each day is a bar: it counts by itself.
    pub(super) are_bars: bool,
    pub(super) is_money: bool,
}

/// The pattern of days of which nothing is known; once on a page.
pub(super) fn hatch() -> Markup {
    html! {
        svg.unseen aria-hidden="true" width="0" height="0" {
            defs {
                pattern #hatch width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    path d="M0 0V4" stroke="currentColor" stroke-opacity="0.35" stroke-width="1.5" {}
                }
            }
        }
    }
}

impl Spark<'_> {
    /// The picture; what it shows is said in its label.
    pub(super) fn svg(&self) -> Markup {
        html! {
            svg.spark viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(self.label()) {
                @for (index, _) in self.days.iter().enumerate().filter(|(_, day)| day.number().is_none()) {
                    rect x=(at(self.x(index))) width=(at(self.step())) height=(HEIGHT) fill="url(#hatch)" {}
                }
                @if self.are_bars { (self.bars()) } @else { (self.line()) }
            }
        }
    }

    fn label(&self) -> String {
        let known = || self.days.iter().filter_map(|day| day.number());
        let written = |amount: f64| match self.is_money {
            true => money(amount, None),
            false => whole(amount.round() as i64),
        };
        let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
        match known().count() {
            0 => "Last 30 days: unknown".to_owned(),
            days if days == self.days.len() => {
                format!("Last 30 days: from {} to {} a day", written(low), written(high))
            }
            days => format!(
                "Last 30 days: {days} known, from {} to {} a day",
                written(low),
                written(high)
            ),
        }
    }

    fn step(&self) -> f64 {
        WIDTH / self.days.len().max(1) as f64
    }

    fn x(&self, index: usize) -> f64 {
        index as f64 * self.step()
    }

    /// Where a value lies; zero is at the bottom.
    fn y(&self, amount: f64) -> f64 {
        let highest = self.days.iter().filter_map(|day| day.number()).fold(0.0, f64::max);
        if highest <= 0.0 { HEIGHT } else { HEIGHT - (amount / highest).max(0.0) * (HEIGHT - 2.0) }
    }

    /// A bar for each day; today is not over.
    fn bars(&self) -> Markup {
        let today = self.days.len().saturating_sub(1);
        html! {
            @for (index, day) in self.days.iter().enumerate() {
                @if let Some(amount) = day.number() {
                    @let y = self.y(amount);
                    rect.today[index == today] x=(at(self.x(index))) y=(at(y)) width=(at(self.step() - 1.0)) height=(at(HEIGHT - y)) {}
                }
            }
        }
    }

    /// A line over the known days, with the area below it.
    fn line(&self) -> Markup {
        let points: Vec<(f64, f64)> = self
            .days
            .iter()
            .enumerate()
            .filter_map(|(index, day)| {
                Some((self.x(index) + self.step() / 2.0, self.y(day.number()?)))
            })
            .collect();
        let path: String = points.iter().map(|(x, y)| format!("L{x:.1} {y:.1}")).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return html! {} };
        html! {
            path.area d=(format!("M{:.1} {HEIGHT}{path}L{:.1} {HEIGHT}Z", first.0, last.0)) {}
            path.line d=(format!("M{:.1} {:.1}{path}h0", first.0, first.1)) {}
        }
    }
}

/// A coordinate, to a tenth of a unit.
fn at(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Exactness;
    use crate::store::SqlValue;

    #[test]
    fn a_day_of_which_nothing_is_known_is_hatched_and_is_no_zero() {
        let unknown = Cell { value: SqlValue::Null, exactness: Exactness::Unknown };
        let days = [unknown, SqlValue::Real(0.0).into(), SqlValue::Real(4.0).into()];
        let spark = Spark { days: &days, are_bars: true, is_money: false };
        let drawn = spark.svg().into_string();
        assert_eq!(drawn.matches("url(#hatch)").count(), 1, "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 3, "{drawn}");
        assert!(drawn.contains("Last 30 days: 2 known, from 0 to 4 a day"), "{drawn}");
        let line = Spark { are_bars: false, ..spark }.svg().into_string();
        assert!(line.contains("M60.0 32.0L60.0 32.0L100.0 2.0h0"), "{line}");
    }
}
