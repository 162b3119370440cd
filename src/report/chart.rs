//! The chart of an answer as SVG.
//!
//! A chart needs no script and loads nothing, so that it works in pages, mails and files. Text and lines take the
//! colour of the text around them, which fits light and dark pages. Every text is escaped.

use maud::{Markup, html};

use super::answer::{Answer, PERIOD};
use super::completeness::{Cell, Exactness};
use super::head::Chart;
use super::value::shown;
use crate::escape::{self, is_unsafe};
use crate::number::grouped;

/// The width for a window or a sheet of paper, and for a phone.
const WIDE: f64 = 720.0;
const NARROW: f64 = 360.0;
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

/// The chart of an answer; `None` if the report has none.
#[must_use]
pub fn svg(answer: &Answer) -> Option<String> {
    drawn(answer, WIDE)
}

/// The same for a phone.
#[must_use]
pub fn narrow_svg(answer: &Answer) -> Option<String> {
    drawn(answer, NARROW)
}

fn drawn(answer: &Answer, width: f64) -> Option<String> {
    let drawn = match answer.report.chart.as_ref()? {
        Chart::Bars(columns) => match Data::of(answer, columns, width) {
            Some(data) if data.is_over_time => over_time(&data),
            Some(data) => categories(&data),
            None => no_data(width),
        },
        Chart::Heat(columns) => heat(answer, columns, width).unwrap_or_else(|| no_data(width)),
    };
    Some(drawn.into_string())
}

/// The labels of the rows, and each series with its name.
struct Data<'a> {
    width: f64,
    is_over_time: bool,
    labels: Vec<String>,
    series: Vec<(String, Vec<&'a Cell>)>,
}

impl<'a> Data<'a> {
    /// `None` if there is nothing to draw.
    fn of(answer: &'a Answer, columns: &[String], width: f64) -> Option<Self> {
        let (x, series) = columns.split_first()?;
        let label_column = index_of(answer, x)?;
        let is_over_time = x == PERIOD;
        let most = if is_over_time { POINTS_MAX } else { CATEGORIES_MAX };
        // The newest points, and the first categories.
        let skipped = if is_over_time { answer.rows.len().saturating_sub(most) } else { 0 };
        let rows: Vec<_> = answer.rows.iter().skip(skipped).take(most).collect();
        let labels = rows.iter().map(|row| label(&row[label_column], width)).collect();
        let series = series.iter().filter_map(|name| {
            let column = index_of(answer, name)?;
            let cells = rows.iter().map(|row| &row[column]).collect();
            Some((cut(&name.replace('_', " "), width), cells))
        });
        let data = Self { width, is_over_time, labels, series: series.collect() };
        (!data.values().is_empty()).then_some(data)
    }

    /// Whether not all is known of a label.
    fn is_unknown(&self, index: usize) -> bool {
        self.series.iter().any(|(_, cells)| cells[index].exactness != Exactness::Exact)
    }

    fn values(&self) -> Vec<f64> {
        self.series.iter().flat_map(|(_, cells)| cells).filter_map(|cell| number(cell)).collect()
    }
}

fn index_of(answer: &Answer, name: &str) -> Option<usize> {
    answer.columns.iter().position(|column| column.name == name)
}

fn label(cell: &Cell, width: f64) -> String {
    cut(&shown(&cell.value, None), width)
}

/// A number in words.
fn told(cell: &Cell, value: f64) -> String {
    format!("{}{}", cell.exactness.mark(), tick(value))
}

/// A text that fits beside a chart of this width.
fn cut(text: &str, width: f64) -> String {
    let most = if width < WIDE { NARROW_LABEL_MAX } else { LABEL_MAX };
    escape::cut(&text.replace(is_unsafe, "\u{fffd}"), most).into_owned()
}

fn number(cell: &Cell) -> Option<f64> {
    cell.number().filter(|number| number.is_finite())
}

/// An axis of values: from `low` to `high` in steps of 1, 2 or 5 times a power of ten, and zero on it.
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
        let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(fits);
        let step = step.unwrap_or(10.0 * power);
        // What is counted has no parts.
        let step =
            if values.iter().all(|value| value.fract() == 0.0) { step.max(1.0) } else { step };
        let parts = |value: f64| value / step / 1.000_001;
        let (low, high) = (parts(low).floor() * step, parts(high).ceil() * step);
        Self { low, high: if high > low { high } else { step }, step }
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

/// The shortest text of a number on an axis, with a comma between thousands.
fn tick(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    // Steps such as 0.1 add up to 0.30000000000000004.
    format!("{sign}{}", grouped((value.abs() * 1e6).round() / 1e6))
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

fn no_data(width: f64) -> Markup {
    let text = html! { text x=(at(width / 2.0)) y="52" text-anchor="middle" { "no data" } };
    frame(width, 96.0, &text)
}

fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// The names of the series, one below the other, and how high they are. The one that stands for what is not known
/// is grey.
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
        rect x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height)) fill=(LINE) fill-opacity="0.3" {}
    }
}

/// Where the marks of a chart over time lie.
struct Plot<'a> {
    data: &'a Data<'a>,
    axis: Axis,
    /// The upper end of the plot.
    top: f64,
    /// The room of one label.
    room: f64,
}

impl Plot<'_> {
    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.axis.place(value)) * PLOT
    }

    /// The middle of a label's room.
    fn x(&self, index: usize) -> f64 {
        LEFT + (index as f64 + 0.5) * self.room
    }
}

fn over_time(data: &Data<'_>) -> Markup {
    let width = data.width;
    let room = (width - LEFT - RIGHT) / data.labels.len() as f64;
    let mut names: Vec<&str> = data.series.iter().map(|(name, _)| name.as_str()).collect();
    let unknown: Vec<usize> = (0..data.labels.len()).filter(|i| data.is_unknown(*i)).collect();
    names.extend((!unknown.is_empty()).then_some(UNKNOWN));
    let (legend, top) = legend(&names, LEFT);
    let plot = Plot { data, axis: Axis::of(&data.values()), top, room };
    // As many labels as fit beside each other.
    let widest = data.labels.iter().map(|label| label.chars().count()).max().unwrap_or(1);
    let every = ((widest + 2) as f64 * CHARACTER / room).ceil().max(1.0) as usize;
    let height = plot.top + PLOT + BOTTOM;
    // A label in the middle of its room must not be cut at the sides.
    let half = widest as f64 * CHARACTER / 2.0;
    let label_x = |index: usize| plot.x(index).clamp(half, width - half);
    frame(
        width,
        height,
        &html! {
            (legend)
            @for index in unknown { (grey(LEFT + index as f64 * room, plot.top, room, PLOT)) }
            @for value in plot.axis.steps() {
                @let y = at(plot.y(value));
                line x1=(at(LEFT)) x2=(at(width - RIGHT)) y1=(y) y2=(y) stroke=(LINE) stroke-opacity=(if value == 0.0 { "1" } else { "0.35" }) {}
                text x=(at(LEFT - 6.0)) y=(at(plot.y(value) + 4.0)) text-anchor="end" { (tick(value)) }
            }
            (bars(&plot))
            @for (index, label) in data.labels.iter().enumerate().filter(|(index, _)| index.is_multiple_of(every)) {
                text x=(at(label_x(index))) y=(at(height - 6.0)) text-anchor="middle" { (label) }
            }
        },
    )
}

fn bars(plot: &Plot<'_>) -> Markup {
    let series = &plot.data.series;
    let width = (plot.room * 0.8 / series.len() as f64).min(28.0);
    let zero = plot.y(0.0);
    html! {
        @for (place, (name, cells)) in series.iter().enumerate() {
            @for (index, cell) in cells.iter().enumerate() {
                @if let Some(value) = number(cell) {
                    @let x = plot.x(index) + width * (place as f64 - series.len() as f64 / 2.0);
                    @let y = plot.y(value);
                    rect x=(at(x)) y=(at(y.min(zero))) width=(at((width - 1.0).max(0.5))) height=(at((zero - y).abs())) fill=(colour(place)) {
                        title { (plot.data.labels[index]) ": " (told(cell, value)) " " (name) }
                    }
                }
            }
        }
    }
}

/// A horizontal bar for each value, below each other, with every label and every number.
fn categories(data: &Data<'_>) -> Markup {
    let axis = Axis::of(&data.values());
    let widest = data.labels.iter().map(|label| label.chars().count()).max().unwrap_or(1);
    let left = (widest as f64 * CHARACTER + 16.0).max(LEFT);
    // Room for the number behind the longest bar.
    let width = data.width - left - LEFT;
    let names: Vec<&str> = data.series.iter().map(|(name, _)| name.as_str()).collect();
    let (legend, top) = legend(&names, left);
    let group = BAR * data.series.len() as f64 + BETWEEN;
    let height = top + group * data.labels.len() as f64;
    let x = |value: f64| left + axis.place(value) * width;
    frame(
        data.width,
        height,
        &html! {
            (legend)
            @for (row, label) in data.labels.iter().enumerate() {
                @let y = top + group * row as f64;
                text x=(at(left - 8.0)) y=(at(y + (group - BETWEEN) / 2.0 + 4.0)) text-anchor="end" { (label) }
                @for (place, (name, cells)) in data.series.iter().enumerate() {
                    @let y = y + BAR * place as f64;
                    @if let Some(value) = number(cells[row]) {
                        @let end = x(value.max(0.0));
                        rect x=(at(x(value.min(0.0)))) y=(at(y)) width=(at(end - x(value.min(0.0)))) height=(at(BAR - 1.0)) rx="2" fill=(colour(place)) {
                            title { (label) ": " (told(cells[row], value)) " " (name) }
                        }
                        text x=(at(end + 4.0)) y=(at(y + BAR - 2.0)) font-size="10" { (told(cells[row], value)) }
                    } @else if cells[row].exactness == Exactness::Unknown {
                        text x=(at(x(0.0) + 4.0)) y=(at(y + BAR - 2.0)) font-size="10" { "unknown" }
                    }
                }
            }
            line x1=(at(x(0.0))) x2=(at(x(0.0))) y1=(at(top - 4.0)) y2=(at(height)) stroke=(LINE) {}
        },
    )
}

/// A square for each pair of labels, darker the larger its value is. `None` if there is nothing to draw.
fn heat(answer: &Answer, [x, y, value]: &[String; 3], chart_width: f64) -> Option<Markup> {
    let (x, y, value) = (index_of(answer, x)?, index_of(answer, y)?, index_of(answer, value)?);
    let (across, down) = (axis_labels(answer, x, chart_width), axis_labels(answer, y, chart_width));
    let place = |labels: &[String], cell: &Cell| {
        let label = label(cell, chart_width);
        labels.iter().position(|known| *known == label)
    };
    let square = |row: &Vec<Cell>| {
        Some((place(&across, &row[x])?, place(&down, &row[y])?, number(&row[value])?))
    };
    let cells: Vec<(usize, usize, f64)> = answer.rows.iter().filter_map(square).collect();
    let most = cells.iter().fold(0.0_f64, |most, cell| most.max(cell.2));
    if most <= 0.0 {
        return None;
    }
    let longest = |labels: &[String]| {
        labels.iter().map(|label| label.chars().count()).max().unwrap_or(1) as f64 * CHARACTER
    };
    let left = longest(&down) + 16.0;
    let (width, side) = ((chart_width - left - RIGHT) / across.len() as f64, 26.0);
    let every = ((longest(&across) + 3.0) / width).ceil().max(1.0) as usize;
    let top = TOP + LINE_HEIGHT;
    let height = top + side * down.len() as f64;
    Some(frame(
        chart_width,
        height,
        &html! {
            @for (column, label) in across.iter().enumerate().filter(|(column, _)| column.is_multiple_of(every)) {
                text x=(at(left + (column as f64 + 0.5) * width)) y=(at(top - 8.0)) text-anchor="middle" font-size="10" { (label) }
            }
            @for (line, label) in down.iter().enumerate() {
                text x=(at(left - 8.0)) y=(at(top + (line as f64 + 0.65) * side)) text-anchor="end" { (label) }
            }
            @for (column, line, amount) in cells {
                rect x=(at(left + column as f64 * width)) y=(at(top + line as f64 * side)) width=(at(width - 1.0)) height=(at(side - 1.0))
                    fill=(COLOURS[0]) fill-opacity=(format!("{:.2}", 0.08 + 0.92 * amount.max(0.0) / most)) {
                    title { (across[column]) ", " (down[line]) ": " (tick(amount)) }
                }
            }
        },
    ))
}

/// The labels of an axis of a heat map; numbers, such as hours, in their order and without a break.
fn axis_labels(answer: &Answer, column: usize, width: f64) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for row in &answer.rows {
        let label = label(&row[column], width);
        if !labels.contains(&label) && labels.len() < CATEGORIES_MAX {
            labels.push(label);
        }
    }
    labels.sort_by_key(|label| label.parse::<i64>().ok());
    match [labels.first(), labels.last()].map(|label| label?.parse::<i64>().ok()) {
        [Some(first), Some(last)] if last - first < CATEGORIES_MAX as i64 => {
            (first..=last).map(|number| number.to_string()).collect()
        }
        _ => labels,
    }
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
    fn a_tick_is_the_shortest_number_with_grouped_thousands() {
        let ticks = [0.0, 0.1 + 0.2, 1_234_567.0, -5000.0].map(tick);
        assert_eq!(ticks, ["0", "0.3", "1,234,567", "−5,000"]);
    }

    #[test]
    fn a_label_is_cut_where_it_would_leave_the_chart() {
        let long = "Diagnosed – awaiting approval";
        assert_eq!(cut(long, WIDE), "Diagnosed – awaiting app…");
        assert_eq!(cut(long, NARROW), "Diagnosed – awai…");
        assert_eq!(cut("Ready", NARROW), "Ready");
    }
}
