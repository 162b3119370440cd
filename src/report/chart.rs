//! The chart of an answer as SVG, drawn by charts-rs.
//!
//! Colours that must fit light and dark pages are left to the page: text takes the colour of the
//! text around it.

use charts_rs::{BarChart, Color, HeatmapChart, LineChart, Series};

use super::answer::Answer;
use super::head::Chart;
use super::value::shown;
use crate::escape::is_unsafe;
use crate::store::SqlValue;

const WIDTH: f32 = 720.0;
const HEIGHT: f32 = 300.0;
/// The most labels of a chart; further rows are in the table only.
const LABELS_MAX: usize = 400;
/// The most squares of a heat map; with more of them none could be told from the next.
const CELLS_MAX: usize = 10_000;
/// The longest label, in characters.
const LABEL_MAX: usize = 24;
/// Stands after each name of the legend. charts-rs leaves room for its own font, and the reader's may be
/// wider: without this the next name would touch.
const LEGEND_ROOM: &str = "\u{a0}\u{a0}\u{a0}\u{a0}\u{a0}";
/// A colour that nothing else uses; it is replaced by that of the text.
const TEXT: Color = Color { r: 1, g: 2, b: 3, a: 255 };
/// As [`TEXT`], for lines.
const LINE: Color = Color { r: 3, g: 2, b: 1, a: 255 };
/// Fainter, so that bars and not lines are seen first.
const GRID: Color = Color { r: 3, g: 2, b: 1, a: 90 };
/// The most parts of the axis of values.
const PARTS_MAX: f64 = 6.0;
const SERIES: [Color; 5] = [
    Color { r: 0x2f, g: 0x8f, b: 0x78, a: 255 },
    Color { r: 0xc0, g: 0x83, b: 0x1e, a: 255 },
    Color { r: 0x5b, g: 0x7f, b: 0xc7, a: 255 },
    Color { r: 0xb5, g: 0x5a, b: 0x7c, a: 255 },
    Color { r: 0x80, g: 0x80, b: 0x80, a: 255 },
];
const COLD: Color = Color { r: 0x2f, g: 0x8f, b: 0x78, a: 20 };
const HOT: Color = Color { r: 0x2f, g: 0x8f, b: 0x78, a: 255 };

/// The chart of an answer; `None` if the report has none or there is nothing to draw.
#[must_use]
pub fn svg(answer: &Answer) -> Option<String> {
    let drawn = match answer.report.chart.as_ref()? {
        Chart::Bars { x, series } => {
            let (series, labels) = columns(answer, x, series)?;
            let scale = scale(&series);
            let mut chart = BarChart::new(series, labels);
            dress(&mut chart.base);
            chart.y_axis_configs.iter_mut().for_each(|axis| dress_axis(axis, scale));
            chart.svg()
        }
        Chart::Lines { x, series } => {
            let (series, labels) = columns(answer, x, series)?;
            let scale = scale(&series);
            let mut chart = LineChart::new(series, labels);
            dress(&mut chart.base);
            chart.y_axis_configs.iter_mut().for_each(|axis| dress_axis(axis, scale));
            chart.svg()
        }
        Chart::Heat { x, y, value } => heat(answer, x, y, value)?.svg(),
    };
    // A chart that cannot be drawn is left out: the table beside it has every number.
    Some(coloured(&drawn.ok()?))
}

fn index_of(answer: &Answer, name: &str) -> Option<usize> {
    answer.columns.iter().position(|column| column.name == name)
}

fn label(value: &SqlValue) -> String {
    let text = shown(value, None);
    let mut label: String =
        text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).take(LABEL_MAX).collect();
    if text.chars().nth(LABEL_MAX).is_some() {
        label.push('…');
    }
    label
}

fn number(value: &SqlValue) -> Option<f32> {
    match value {
        SqlValue::Integer(number) => Some(*number as f32),
        SqlValue::Real(number) => Some(*number as f32),
        _ => None,
    }
}

/// The labels and the values of each series.
fn columns(answer: &Answer, x: &str, series: &[String]) -> Option<(Vec<Series>, Vec<String>)> {
    let x = index_of(answer, x)?;
    let rows: Vec<_> = answer.rows.iter().take(LABELS_MAX).collect();
    if rows.is_empty() {
        return None;
    }
    let labels = rows.iter().map(|row| label(&row[x])).collect();
    let series: Vec<Series> = series
        .iter()
        .filter_map(|name| {
            let index = index_of(answer, name)?;
            let values = rows.iter().map(|row| number(&row[index])).collect();
            Some(Series::new_nullable(name.replace('_', " ") + LEGEND_ROOM, values))
        })
        .collect();
    (!series.is_empty()).then_some((series, labels))
}

fn heat(answer: &Answer, x: &str, y: &str, value: &str) -> Option<HeatmapChart> {
    let (x, y, value) = (index_of(answer, x)?, index_of(answer, y)?, index_of(answer, value)?);
    let distinct = |index: usize| {
        let mut labels: Vec<String> = Vec::new();
        for row in &answer.rows {
            let label = label(&row[index]);
            if !labels.contains(&label) && labels.len() < LABELS_MAX {
                labels.push(label);
            }
        }
        // Hours and other numbers in their order, without a hole.
        let numbers: Option<Vec<i64>> = labels.iter().map(|label| label.parse().ok()).collect();
        match numbers.as_deref() {
            Some([first, rest @ ..]) => {
                let low = rest.iter().fold(*first, |low, n| low.min(*n));
                let high = rest.iter().fold(*first, |high, n| high.max(*n));
                let most = i64::try_from(LABELS_MAX).unwrap_or(i64::MAX);
                if high.checked_sub(low).is_some_and(|width| width < most) {
                    (low..=high).map(|n| n.to_string()).collect()
                } else {
                    labels
                }
            }
            _ => labels,
        }
    };
    // The first line stands at the top; charts-rs begins at the bottom.
    let (across, mut down) = (distinct(x), distinct(y));
    down.reverse();
    if across.len() * down.len() > CELLS_MAX {
        return None;
    }
    let mut amounts = vec![0.0; across.len() * down.len()];
    for row in &answer.rows {
        let place = |labels: &[String], index: usize| {
            let label = label(&row[index]);
            labels.iter().position(|known| *known == label)
        };
        if let (Some(column), Some(line), Some(amount)) =
            (place(&across, x), place(&down, y), number(&row[value]))
        {
            amounts[line * across.len() + column] = amount;
        }
    }
    let most = amounts.iter().fold(0.0_f32, |most, amount| most.max(*amount));
    if most <= 0.0 {
        return None;
    }
    let cells = amounts.into_iter().enumerate().collect();
    let mut chart = HeatmapChart::new(cells, across, down);
    dress(&mut chart.base);
    chart.heatmap_series.min = 0.0;
    chart.heatmap_series.max = most;
    chart.heatmap_series.min_color = COLD;
    chart.heatmap_series.max_color = HOT;
    chart.heatmap_series.min_font_color = TEXT;
    chart.heatmap_series.max_font_color = TEXT;
    Some(chart)
}

fn dress(base: &mut charts_rs::ChartBase) {
    base.width = WIDTH;
    base.height = HEIGHT;
    base.background_color = Color::transparent();
    base.series.colors = SERIES.to_vec();
    base.x_axis.font.color = TEXT;
    base.x_axis.stroke_color = LINE;
    base.legend.font.color = TEXT;
    base.grid.stroke_color = GRID;
    base.title.font.color = TEXT;
}

fn dress_axis(axis: &mut charts_rs::YAxisConfig, scale: Option<(usize, f32)>) {
    axis.font.color = TEXT;
    axis.stroke_color = LINE;
    if let Some((parts, top)) = scale {
        axis.split_number = parts;
        axis.max = Some(top);
    }
}

/// The parts of an axis from zero and its upper end, in steps of 1, 2 or 5 times a power of ten, and in
/// whole steps if all values are whole; `None` leaves values below zero, and a chart without values, to charts-rs.
fn scale(series: &[Series]) -> Option<(usize, f32)> {
    let values = || series.iter().flat_map(|one| &one.data).copied().flatten().map(f64::from);
    let most = values().fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() || values().any(|value| value < 0.0) {
        return None;
    }
    let power = 10.0_f64.powf((most / PARTS_MAX).log10().floor());
    // A hair more, because a quotient such as 5.0000005 is five parts.
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    let step = step.into_iter().find(|step| most <= step * PARTS_MAX * 1.000_001)?;
    let step = if values().all(|value| value.fract() == 0.0) { step.max(1.0) } else { step };
    let parts = (most / step / 1.000_001).ceil();
    Some((parts as usize, (parts * step) as f32))
}

/// Leaves the colours of text and lines to the page, and the width as well.
fn coloured(svg: &str) -> String {
    let text = svg.replace("#010203", "currentColor").replace("rgb(1,2,3)", "currentColor");
    text.replace("#030201", "#8a9691")
        .replace("rgb(3,2,1)", "#8a9691")
        .replace("#6E7079", "currentColor")
        .replace("font-family=\"Roboto\"", "font-family=\"Roboto, Arial, sans-serif\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps_and_no_parts_of_what_is_counted() {
        let scale_of = |values: &[f32]| {
            scale(&[Series::new_nullable("a".into(), values.iter().copied().map(Some).collect())])
        };
        assert_eq!(scale_of(&[1.0, 0.0]), Some((1, 1.0)));
        assert_eq!(scale_of(&[5.0]), Some((5, 5.0)));
        assert_eq!(scale_of(&[14.0, 3.0]), Some((3, 15.0)));
        assert_eq!(scale_of(&[7113.55, 0.0]), Some((4, 8000.0)));
        assert_eq!(scale_of(&[0.5]), Some((5, 0.5)));
        for left_to_charts_rs in [&[][..], &[0.0], &[-1.0, 4.0], &[f32::INFINITY]] {
            assert_eq!(scale_of(left_to_charts_rs), None, "{left_to_charts_rs:?}");
        }
    }
}
