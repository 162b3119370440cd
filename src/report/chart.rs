//! The chart of an answer as SVG.
//!
//! A chart needs no script and loads nothing, so that it works in pages, mails and files. Text and
//! lines take the colour of the text around them, which fits light and dark pages. Every text is
//! escaped.

use maud::{Markup, html};

use super::answer::Answer;
use super::exactness::{Cell, Exactness};
use super::head::PERIOD;
use super::links::TableLinks;
use super::value::{day_of, displayed, shown};
use crate::text::document;
use crate::text::locale::Locale;

/// The width for a window or a sheet of paper, and for a phone.
pub(super) const WIDE: f64 = 720.0;
pub(super) const NARROW: f64 = 360.0;
/// The height of the plot of a chart over time.
const PLOT: f64 = 244.0;
/// The height of a line of the legend, and the room above the plot.
const LINE_HEIGHT: f64 = 18.0;
const TOP: f64 = 12.0;
/// Room below the plot for the labels.
const BOTTOM: f64 = 24.0;
/// Room beside the plot for the numbers of its axis.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
/// What one character of a label takes at most.
const CHARACTER: f64 = 7.0;
/// The height of one bar of a category, and the room between two categories.
const BAR: f64 = 12.0;
const BETWEEN: f64 = 8.0;
/// The most points, and the most categories, of a chart; further rows are in the table only.
const POINTS_MAX: usize = 1200;
const CATEGORIES_MAX: usize = 60;
/// The longest label, in characters, and the longest on a phone.
const LABEL_MAX: usize = 24;
const NARROW_LABEL_MAX: usize = 16;
/// The most parts of an axis.
const PARTS_MAX: f64 = 6.0;
const COLOURS: [&str; 5] = ["#2f8f78", "#c0831e", "#5b7fc7", "#b55a7c", "#808080"];
const LINE: &str = "#8a9691";

/// The chart of an answer, of this width; `None` if the report has none.
#[must_use]
pub(super) fn svg(answer: &Answer, width: f64, links: &impl TableLinks) -> Option<String> {
    let bars = &answer.report.chart.as_ref()?.bars;
    let data = Data::of(answer, bars, width, links)?;
    let drawn = if data.is_over_time {
        over_time(&data)
    } else {
        categories(&data)
    };
    Some(drawn.into_string())
}

/// The labels of the rows, and each series with its name.
struct Data<'a> {
    width: f64,
    locale: &'a Locale,
    is_over_time: bool,
    labels: Vec<String>,
    series: Vec<Series<'a>>,
}

/// The numbers of one colour.
struct Series<'a> {
    name: String,
    cells: Vec<&'a Cell>,
    /// For each the address of what it counts.
    addresses: Vec<Option<String>>,
}

impl<'a> Data<'a> {
    /// `None` if a column that it needs is not there.
    fn of(
        answer: &'a Answer,
        columns: &[String],
        width: f64,
        links: &impl TableLinks,
    ) -> Option<Self> {
        let index_of = |name: &String| answer.columns.iter().position(|known| known == name);
        let (x, series) = columns.split_first()?;
        let label_column = index_of(x)?;
        let is_over_time = x == PERIOD;
        let most = if is_over_time {
            POINTS_MAX
        } else {
            CATEGORIES_MAX
        };
        // The newest points, and the first categories.
        let skipped = if is_over_time {
            answer.rows.len().saturating_sub(most)
        } else {
            0
        };
        let mut rows: Vec<_> = answer.rows.iter().collect();
        if is_over_time && answer.listed.query.sort.is_some() {
            rows.sort_by_key(|row| shown(&row[label_column].value, None));
        }
        let rows: Vec<_> = rows.into_iter().skip(skipped).take(most).collect();
        let label = |row: &&Vec<Cell>| cut(&label_of(&row[label_column], answer), width);
        let labels = rows.iter().map(label).collect();
        let mut drawn = Vec::with_capacity(series.len());
        for name in series {
            let Some(column) = index_of(name) else {
                continue;
            };
            drawn.push(Series {
                name: cut(&name.replace('_', " "), width),
                cells: rows.iter().map(|row| &row[column]).collect(),
                addresses: rows
                    .iter()
                    .map(|row| links.rows_behind(row, column))
                    .collect(),
            });
        }
        Some(Self {
            width,
            locale: &answer.locale,
            is_over_time,
            labels,
            series: drawn,
        })
    }

    /// Whether not all is known of a label.
    fn is_unknown(&self, index: usize) -> bool {
        self.series
            .iter()
            .any(|series| series.cells[index].exactness != Exactness::Exact)
    }

    /// Every number with the places of its label and of its series.
    fn cells(&self) -> impl Iterator<Item = (usize, usize, &Cell)> {
        let series = self.series.iter().enumerate();
        series.flat_map(|(place, series)| {
            series
                .cells
                .iter()
                .enumerate()
                .map(move |(index, cell)| (index, place, *cell))
        })
    }

    fn names(&self) -> Vec<&str> {
        self.series
            .iter()
            .map(|series| series.name.as_str())
            .collect()
    }

    fn values(&self) -> Vec<f64> {
        let mut values = Vec::new();
        for (_, _, cell) in self.cells() {
            values.extend(number(cell));
            values.extend(upper(cell));
        }
        values
    }

    /// The room of the longest label.
    fn widest(&self) -> f64 {
        let lengths = self.labels.iter().map(|label| label.chars().count());
        lengths.max().unwrap_or(1) as f64 * CHARACTER
    }

    /// The text of a bar under the pointer.
    fn title(&self, index: usize, place: usize, cell: &Cell) -> Markup {
        html! { title { (self.labels[index]) ": " (text_of(cell, self.locale)) " " (self.series[place].name) } }
    }

    /// A bar that leads to what it counts. The table has the same links for who uses the keyboard.
    fn leading(&self, index: usize, place: usize, bar: &Markup) -> Markup {
        html! {
            @match &self.series[place].addresses[index] {
                Some(address) => a href=(address) tabindex="-1" { (bar) },
                None => (bar),
            }
        }
    }
}

/// The label of a row; a day as the country writes it.
fn label_of(cell: &Cell, answer: &Answer) -> String {
    let text = shown(&cell.value, None);
    match day_of(&text) {
        Some(day) => answer.locale.day(day),
        None => text,
    }
}

/// A number in words.
fn text_of(cell: &Cell, locale: &Locale) -> String {
    displayed(cell, "", None, None, locale)
}

/// A text that fits beside a chart of this width.
fn cut(text: &str, width: f64) -> String {
    let most = if width < WIDE {
        NARROW_LABEL_MAX
    } else {
        LABEL_MAX
    };
    document::cell(text, most)
}

fn number(cell: &Cell) -> Option<f64> {
    cell.number().filter(|number| number.is_finite())
}

/// The upper bound of a range.
fn upper(cell: &Cell) -> Option<f64> {
    match cell.exactness {
        Exactness::Between { upper } if upper.is_finite() => Some(upper),
        _ => None,
    }
}

/// An axis of values: from `low` to `high` in steps of 1, 2 or 5 times a power of ten, and zero on
/// it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    fn of(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(0.0, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        let width = if high > low { high - low } else { 1.0 };
        let power = 10.0_f64.powf((width / PARTS_MAX).log10().floor());
        // A hair more, because a quotient such as 5.0000005 is five parts.
        let fits = |step: &f64| width <= step * PARTS_MAX * 1.000_001;
        let step = [1.0, 2.0, 5.0]
            .map(|times| times * power)
            .into_iter()
            .find(fits);
        let step = step.unwrap_or(10.0 * power);
        // What is counted has no parts.
        let step = if values.iter().all(|value| value.fract() == 0.0) {
            step.max(1.0)
        } else {
            step
        };
        let parts = |value: f64| value / step / 1.000_001;
        let (low, high) = (parts(low).floor() * step, parts(high).ceil() * step);
        Self {
            low,
            high: if high > low { high } else { step },
            step,
        }
    }

    /// Where a value lies, from 0 at the low end to 1 at the high end.
    fn place(self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    fn steps(self) -> impl Iterator<Item = f64> {
        let parts = ((self.high - self.low) / self.step).round() as usize;
        (0..=parts).map(move |part| self.low + part as f64 * self.step)
    }
}

/// A coordinate, to a tenth of a unit.
fn at(value: f64) -> String {
    format!("{value:.1}")
}

fn frame(width: f64, height: f64, content: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}"))
            font-family="system-ui, Arial, sans-serif" font-size="12" fill="currentColor" {
            (content)
        }
    }
}

fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// The names of the series, one below the other, and how high they are. The one that stands for
/// what is not known is grey.
fn legend(names: &[&str], left: f64) -> (Markup, f64) {
    let drawn = html! {
        @for (index, name) in names.iter().enumerate() {
            @let y = 4.0 + LINE_HEIGHT * index as f64;
            @if *name == UNKNOWN {
                (grey(left, y, 10.0, 10.0))
            } @else {
                rect x=(at(left)) y=(at(y)) width="10" height="10" rx="2" fill=(colour(index)) {}
            }
            text x=(at(left + 14.0)) y=(at(y + 9.0)) { (name) }
        }
    };
    (drawn, TOP + LINE_HEIGHT * names.len() as f64)
}

/// The word in the legend for what is grey.
const UNKNOWN: &str = "not all known";

/// The grey of what is not all known.
fn grey(x: f64, y: f64, width: f64, height: f64) -> Markup {
    html! {
        rect x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height))
            fill=(LINE) fill-opacity="0.3" {}
    }
}

/// Bars side by side for each label. The areas of what is not all known are grey.
fn over_time(data: &Data<'_>) -> Markup {
    let width = data.width;
    let room = (width - LEFT - RIGHT) / data.labels.len() as f64;
    let mut names: Vec<&str> = data.names();
    let unknown: Vec<usize> = (0..data.labels.len())
        .filter(|i| data.is_unknown(*i))
        .collect();
    names.extend((!unknown.is_empty()).then_some(UNKNOWN));
    let (legend, top) = legend(&names, LEFT);
    let axis = Axis::of(&data.values());
    let y = |value: f64| top + (1.0 - axis.place(value)) * PLOT;
    // As many labels as fit beside each other.
    let widest = data.widest();
    let every = ((widest + 2.0 * CHARACTER) / room).ceil().max(1.0) as usize;
    let height = top + PLOT + BOTTOM;
    // The middle of a label's room; a label there must not be cut at the sides.
    let x = |index: usize| LEFT + (index as f64 + 0.5) * room;
    let label_x = |index: usize| x(index).clamp(widest / 2.0, width - widest / 2.0);
    let bar = (room * 0.8 / data.series.len() as f64).min(28.0);
    let left = |index: usize, place: usize| {
        x(index) + bar * (place as f64 - data.series.len() as f64 / 2.0)
    };
    frame(
        width,
        height,
        &html! {
            (legend)
            @for index in unknown { (grey(LEFT + index as f64 * room, top, room, PLOT)) }
            @for value in axis.steps() {
                @let y = y(value);
                @let opacity = if value == 0.0 { "1" } else { "0.35" };
                line x1=(at(LEFT)) x2=(at(width - RIGHT)) y1=(at(y)) y2=(at(y))
                    stroke=(LINE) stroke-opacity=(opacity) {}
                text x=(at(LEFT - 6.0)) y=(at(y + 4.0)) text-anchor="end" { (data.locale.grouped(value)) }
            }
            @for (index, place, cell) in data.cells() {
                @if let Some(value) = number(cell) {
                    @let (high, low) = (y(value.max(0.0)), y(value.min(0.0)));
                    @let x = left(index, place);
                    @let width = (bar - 1.0).max(0.5);
                    (data.leading(index, place, &html! {
                        rect x=(at(x)) y=(at(high)) width=(at(width)) height=(at(low - high))
                            fill=(colour(place)) {
                            (data.title(index, place, cell))
                        }
                    }))
                }
            }
            @for (index, label) in data.labels.iter().enumerate().step_by(every) {
                text x=(at(label_x(index))) y=(at(height - 6.0)) text-anchor="middle" { (label) }
            }
        },
    )
}

/// A horizontal bar for each value, below each other, with every label and every number.
fn categories(data: &Data<'_>) -> Markup {
    let axis = Axis::of(&data.values());
    let left = (data.widest() + 16.0).max(LEFT);
    // Room for the number behind the longest bar.
    let width = data.width - left - LEFT;
    let names = data.names();
    let (legend, top) = legend(&names, left);
    let group = BAR * data.series.len() as f64 + BETWEEN;
    let height = top + group * data.labels.len() as f64;
    let x = |value: f64| left + axis.place(value) * width;
    let y = |index: usize| top + group * index as f64;
    frame(
        data.width,
        height,
        &html! {
            (legend)
            @for (index, label) in data.labels.iter().enumerate() {
                @let y = y(index) + (group - BETWEEN) / 2.0 + 4.0;
                text x=(at(left - 8.0)) y=(at(y)) text-anchor="end" { (label) }
            }
            @for (index, place, cell) in data.cells().filter(|(_, _, cell)| cell.is_number()) {
                @let y = y(index) + BAR * place as f64;
                @let value = number(cell).unwrap_or_default();
                @let upper = upper(cell).unwrap_or(value);
                @let (low, high) = (x(value.min(0.0)), x(value.max(0.0)));
                @if upper > value {
                    rect x=(at(high)) y=(at(y)) width=(at(x(upper) - high)) height=(at(BAR - 1.0))
                        fill=(colour(place)) fill-opacity="0.35" {}
                }
                (data.leading(index, place, &html! {
                    rect x=(at(low)) y=(at(y)) width=(at(high - low)) height=(at(BAR - 1.0)) rx="2"
                        fill=(colour(place)) {
                        (data.title(index, place, cell))
                    }
                }))
                text x=(at(x(upper.max(value).max(0.0)) + 4.0)) y=(at(y + BAR - 2.0)) font-size="10" { (text_of(cell, data.locale)) }
            }
            line x1=(at(x(0.0))) x2=(at(x(0.0))) y1=(at(top - 4.0)) y2=(at(height)) stroke=(LINE) {}
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps_no_parts_of_what_is_counted_and_zero_on_it() {
        for (values, low, high, step) in [
            (&[] as &[f64], 0.0, 1.0, 1.0),
            (&[0.0], 0.0, 1.0, 1.0),
            (&[1.0, 0.0], 0.0, 1.0, 1.0),
            (&[14.0, 3.0], 0.0, 15.0, 5.0),
            (&[7113.55, 0.0], 0.0, 8000.0, 2000.0),
            (&[0.5], 0.0, 0.5, 0.1),
            (&[-3.0, 9.0], -4.0, 10.0, 2.0),
            (&[-0.5], -0.5, 0.0, 0.1),
        ] {
            let axis = Axis::of(values);
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(
                near(axis.low, low) && near(axis.high, high) && near(axis.step, step),
                "{values:?}: {axis:?}"
            );
        }
    }

    #[test]
    fn a_label_is_cut_where_it_would_leave_the_chart() {
        let long = "Diagnosed – awaiting approval";
        assert_eq!(cut(long, WIDE), "Diagnosed – awaiting app…");
        assert_eq!(cut(long, NARROW), "Diagnosed – awai…");
        assert_eq!(cut("Ready", NARROW), "Ready");
    }
}
