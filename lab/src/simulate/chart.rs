//! The comparison drawn as SVG: mean delay, loss, and requests by the hour. Plain markup, no
//! script.

use maud::{Markup, html};

use super::{ScheduleComparison, ScheduleResult};

const WIDTH: f64 = 720.0;
const LABEL: f64 = 110.0;
const BAR: f64 = 22.0;
const GAP: f64 = 8.0;
const HOURS_HEIGHT: f64 = 90.0;
const COLOURS: [&str; 4] = ["#1b7f5c", "#8a8f98", "#b9a44c", "#b0584a"];

/// Draws the comparison.
pub(crate) fn svg(comparison: &ScheduleComparison) -> String {
    let results = &comparison.schedules;
    let rows = results.len() as f64 * (BAR + GAP);
    let height = 40.0 + rows + 40.0 + HOURS_HEIGHT + 30.0;
    let longest = results
        .iter()
        .map(|result| result.mean_delay_s)
        .fold(1e-9, f64::max);
    let hours_top = 40.0 + rows + 40.0;
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height:.0}"))
            font-family="sans-serif" font-size="12" role="img"
        {
            title { "Mean delay and requests of each schedule" }
            rect width="100%" height="100%" fill="#ffffff" {}
            text x="10" y="22" font-size="14" { "Mean delay from arrival to the poll that saw it" }
            @for (place, result) in results.iter().enumerate() {
                (bar(place, result, longest))
            }
            text x="10" y=(format!("{:.0}", hours_top - 12.0)) font-size="14" {
                "Requests in each hour (adaptive)"
            }
            @if let Some(adaptive) = results.first() {
                (hours(&adaptive.requests_by_hour, hours_top))
            }
        }
    };
    drawing.into_string()
}

fn bar(place: usize, result: &ScheduleResult, longest: f64) -> Markup {
    let top = 36.0 + place as f64 * (BAR + GAP);
    let full_width = WIDTH - LABEL - 230.0;
    let width = (result.mean_delay_s / longest * full_width).max(1.0);
    let words = format!(
        "{:.2} s, p99 {:.1} s, {} lost, {} gaps",
        result.mean_delay_s, result.p99_s, result.lost, result.gaps
    );
    let middle = format!("{:.1}", top + BAR * 0.7);
    html! {
        text x="10" y=(middle) { (result.name) }
        rect x=(LABEL) y=(format!("{top:.1}")) width=(format!("{width:.1}")) height=(BAR)
            fill=(COLOURS[place % COLOURS.len()]) {}
        text x=(format!("{:.1}", LABEL + width + 8.0)) y=(middle) { (words) }
    }
}

/// At most one column for two pixels: longer runs show the mean of several hours in each.
fn hours(requests: &[u64], top: f64) -> Markup {
    let full_width = WIDTH - 20.0;
    let hours_a_column = requests.len().div_ceil((full_width / 2.0) as usize).max(1);
    let columns: Vec<f64> = requests
        .chunks(hours_a_column)
        .map(|hours| hours.iter().sum::<u64>() as f64 / hours.len() as f64)
        .collect();
    let most = columns.iter().copied().fold(1.0, f64::max);
    let step = full_width / columns.len().max(1) as f64;
    html! {
        @for (place, column) in columns.iter().enumerate() {
            @let height = column / most * HOURS_HEIGHT;
            rect x=(format!("{:.2}", 10.0 + place as f64 * step))
                y=(format!("{:.2}", top + HOURS_HEIGHT - height))
                width=(format!("{:.2}", (step * 0.9).max(0.5))) height=(format!("{height:.2}"))
                fill=(COLOURS[0]) {}
        }
        text x="10" y=(format!("{:.0}", top + HOURS_HEIGHT + 18.0)) {
            (format!("{} hours, most {most:.0} requests in one", requests.len()))
        }
    }
}
