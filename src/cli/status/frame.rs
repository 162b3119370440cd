//! One picture of `status --watch`: the status cut to the size of the terminal. Pure.

use jiff::Zoned;

use crate::cli::output::{cell, plain};
use crate::duration;
use crate::poll::PollerStatus;
use crate::status::{Health, WorkspaceStatus};

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// The first place, and the ends of a line and of the picture, which remove what was there.
const HOME: &str = "\x1b[H";
const LINE_END: &str = "\x1b[K\r\n";
const REST: &str = "\x1b[J";
/// Lines of reasons, at most.
const REASONS: usize = 6;

/// The picture with everything that draws it.
pub(super) fn drawn(
    status: anyhow::Result<WorkspaceStatus>,
    screen: Screen,
    now: &Zoned,
    has_colours: bool,
) -> String {
    let mut lines = match &status {
        Ok(status) => lines(status, screen.columns, now),
        Err(error) => {
            wrapped(&plain(&format!("the status cannot be read: {error:#}")), screen.columns)
        }
    };
    let room = screen.rows.saturating_sub(2);
    if lines.len() > room {
        lines.truncate(room.saturating_sub(1));
        lines.push("… the window is too low for the rest".to_owned());
    }
    lines.push(String::new());
    lines.push("q ends".to_owned());
    let colour = status.ok().filter(|_| has_colours).map(|status| colour(status.health));
    let mut picture = HOME.to_owned();
    for (index, line) in lines.iter().enumerate() {
        let line = cut(line, screen.columns);
        match colour.filter(|_| index == 0) {
            Some(colour) => picture.push_str(&format!("\x1b[{colour}m{line}\x1b[0m")),
            None => picture.push_str(&line),
        }
        picture.push_str(if index + 1 == lines.len() { "\x1b[K" } else { LINE_END });
    }
    picture + REST
}

fn colour(health: Health) -> &'static str {
    match health {
        Health::Ok => "32",
        Health::Degraded | Health::AtRisk => "33",
        Health::Failing => "1;31",
    }
}

fn lines(status: &WorkspaceStatus, columns: usize, now: &Zoned) -> Vec<String> {
    let health = match status.health {
        Health::Ok => "ok",
        Health::Degraded => "DEGRADED",
        Health::AtRisk => "AT RISK",
        Health::Failing => "FAILING",
    };
    let mut lines = vec![format!("health {health}, {}", now.strftime("%H:%M:%S"))];
    let mut reasons: Vec<String> =
        status.reasons.iter().flat_map(|reason| wrapped(&plain(reason), columns)).collect();
    if reasons.len() > REASONS {
        reasons.truncate(REASONS - 1);
        reasons.push("… `shopmirror status` shows the rest".to_owned());
    }
    lines.extend(reasons);
    if let Some(budget) = &status.budget {
        lines.push(format!(
            "budget {} of {} in the last minute, others about {:.0}",
            budget.used_last_60s, budget.limit, budget.others_per_minute
        ));
    }
    let records: i64 = status.records.values().sum();
    lines.push(format!("store  {records} records, {} changes in the log", status.last_seq));
    lines.push(String::new());
    lines.extend(pollers(&status.pollers, columns));
    if !status.sinks.is_empty() {
        lines.push(String::new());
        lines.extend(sinks(status, columns));
    }
    lines
}

fn pollers(pollers: &[PollerStatus], columns: usize) -> Vec<String> {
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), duration::seconds);
    let rows = pollers.iter().map(|poller| {
        vec![
            cell(&poller.name(), 24),
            poller.state.as_str().to_owned(),
            poller.last_read(duration::seconds),
            match poller.next_poll_s {
                Some(wait) if wait >= 0.5 => duration::seconds(wait),
                Some(_) => "now".to_owned(),
                None => "-".to_owned(),
            },
            poller.gaps.to_string(),
            seconds(poller.interval_s),
            seconds(poller.guarantee_s),
            poller.rate_per_hour.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
        ]
    });
    let heads = ["ROUTE", "STATE", "READ", "NEXT", "GAPS", "INTERVAL", "AT LATEST", "PER HOUR"];
    table(&heads, rows.collect(), columns)
}

fn sinks(status: &WorkspaceStatus, columns: usize) -> Vec<String> {
    let rows = status.sinks.iter().map(|sink| {
        vec![
            cell(&sink.name, 24),
            sink.state.to_string(),
            sink.behind.to_string(),
            sink.dead.to_string(),
            sink.delivered.to_string(),
            sink.retrying.to_string(),
        ]
    });
    let heads = ["SINK", "STATE", "BEHIND", "DEAD", "DELIVERED", "RETRYING"];
    table(&heads, rows.collect(), columns)
}

/// Aligned rows under their heads, without the last columns that have no room.
fn table(heads: &[&str], mut rows: Vec<Vec<String>>, columns: usize) -> Vec<String> {
    rows.insert(0, heads.iter().map(|head| (*head).to_owned()).collect());
    let width = |index: usize| rows.iter().map(|row| row[index].chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|index| width(index).unwrap_or(0)).collect();
    let mut shown = 0;
    let mut used = 0;
    for width in &widths {
        used += width + 2;
        if used > columns + 2 && shown > 0 {
            break;
        }
        shown += 1;
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).take(shown);
        let cells: Vec<String> = cells.map(|(text, width)| format!("{text:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A text in lines of at most so many characters, broken between words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let mut cut: String = line.chars().take(columns.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_cannot_command_the_terminal() {
        let error = anyhow::anyhow!("bad answer \x1b[31m\u{9b}2J");
        let screen = Screen { columns: 200, rows: 24 };
        let picture = drawn(Err(error), screen, &Zoned::now(), true);
        assert!(picture.contains("bad answer \\u{1b}[31m\\u{9b}2J"), "{picture:?}");
    }

    #[test]
    fn no_line_is_longer_and_no_picture_higher_than_the_screen() {
        let error = || Err(anyhow::anyhow!("why ".repeat(400)));
        for (columns, rows) in [(60, 24), (20, 5), (1, 1), (0, 0)] {
            let picture = drawn(error(), Screen { columns, rows }, &Zoned::now(), true);
            let lines: Vec<&str> = picture.split("\r\n").collect();
            assert!(lines.len() <= rows.max(3), "{columns} x {rows}: {picture:?}");
            for line in lines {
                let text = line.replace("\x1b[K", "").replace("\x1b[H", "").replace("\x1b[J", "");
                assert!(text.chars().count() <= columns.max(1), "{columns}: {text:?}");
            }
        }
    }
}
