//! The tables that people read: that of an HTML document, which the page has too, and that of plain
//! text, which mails have. Their words say how sure a number is.

use std::collections::BTreeMap;

use super::{Mark, Number, Told};

/// A number as people read it: `7`, `≥ 7`, `3 to 5`, `about 1,310`, `unknown`. A text is none.
fn number_in(text: &str) -> Number {
    let plain = |text: &str| {
        let text = text.trim_end_matches(" %").replace(',', "");
        text.parse::<f64>().ok()
    };
    if text == "unknown" {
        return Number::of(None, Mark::Unknown);
    }
    for (word, mark) in [
        ("≥ ", Mark::AtLeast),
        ("≤ ", Mark::AtMost),
        ("about ", Mark::About),
    ] {
        if let Some(rest) = text.strip_prefix(word) {
            return Number::of(plain(rest), mark);
        }
    }
    if let Some((lower, upper)) = text.split_once(" to ")
        && let Some(upper) = plain(upper)
    {
        return Number::of(plain(lower), Mark::Between { upper });
    }
    Number::of(plain(text), Mark::Exact)
}

/// A table of texts, and its line of sums.
#[derive(Default)]
struct Grid {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    totals: Option<Vec<String>>,
}

impl Grid {
    fn numbers(&self, row: &[String]) -> BTreeMap<String, Number> {
        let mut numbers = BTreeMap::new();
        for (name, text) in self.heads.iter().zip(row) {
            numbers.insert(name.clone(), number_in(text));
        }
        numbers
    }

    fn told(&self, names: &[&str], notes: Vec<String>) -> Told {
        let mut told = Told {
            notes,
            totals: self.totals.as_ref().map(|row| self.numbers(row)),
            ..Told::default()
        };
        for row in &self.rows {
            let mut key = Vec::new();
            for name in names {
                let column = self.heads.iter().position(|head| head == name).unwrap();
                key.push(row[column].clone());
            }
            told.rows.insert(key, self.numbers(row));
        }
        told
    }
}

/// The texts of all elements of one name; the documents nest none in itself.
fn elements<'t>(html: &'t str, name: &str) -> Vec<&'t str> {
    let (begin, end) = (format!("<{name}"), format!("</{name}>"));
    let mut found = Vec::new();
    for part in html.split(&begin).skip(1) {
        // A longer name begins with the same letters.
        if part.starts_with(['>', ' '])
            && let Some((element, _)) = part.split_once(&end)
            && let Some((_, content)) = element.split_once('>')
        {
            found.push(content);
        }
    }
    found
}

fn unescaped(html: &str) -> String {
    let mut text = html.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    text
}

/// Reads the HTML document of a report.
pub(in crate::shops) fn html(document: &str, names: &[&str]) -> Told {
    let cells_of = |row: &str, name: &str| -> Vec<String> {
        let cells = elements(row, name).into_iter();
        cells.map(unescaped).collect()
    };
    let mut grid = Grid::default();
    for head in elements(document, "thead") {
        for name in cells_of(head, "th") {
            grid.heads.push(name.replace(' ', "_"));
        }
    }
    for body in elements(document, "tbody") {
        for row in elements(body, "tr") {
            grid.rows.push(cells_of(row, "td"));
        }
    }
    for foot in elements(document, "tfoot") {
        grid.totals = Some(cells_of(foot, "td"));
    }
    // What stands above the table says what the report is about.
    let (_, below) = document.rsplit_once("</table>").unwrap_or(("", document));
    let mut notes = Vec::new();
    for note in elements(below, "p") {
        notes.push(lower_first(&unescaped(note)));
    }
    grid.told(names, notes)
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Reads the plain text of a report, as mails have it.
pub(in crate::shops) fn text(text: &str, names: &[&str]) -> Told {
    let mut notes = Vec::new();
    for line in text.lines() {
        notes.extend(line.strip_prefix("note: ").map(str::to_owned));
    }
    let lines = text.lines().skip(2).take_while(|line| !line.is_empty());
    let table: Vec<Vec<char>> = lines.map(|line| line.chars().collect()).collect();
    let mut grid = Grid::default();
    if table.len() > 1 {
        let mut rows = rows_of(&table).into_iter();
        for name in rows.next().unwrap() {
            grid.heads.push(name.to_lowercase());
        }
        grid.rows = rows.collect();
        grid.totals = grid.rows.pop_if(|row| row[0] == "Total");
    }
    grid.told(names, notes)
}

/// The cells of lines whose columns stand below each other: two places that are empty in every line
/// end a column.
fn rows_of(lines: &[Vec<char>]) -> Vec<Vec<String>> {
    let width = lines.iter().map(Vec::len).max().unwrap_or_default();
    let is_empty = |place: usize| {
        let mut lines = lines.iter();
        lines.all(|line| line.get(place).is_none_or(|letter| *letter == ' '))
    };
    let mut columns: Vec<(usize, usize)> = Vec::new();
    let mut begun = None;
    for place in 0..width + 2 {
        let ends = is_empty(place) && is_empty(place + 1);
        match begun {
            None if !is_empty(place) => begun = Some(place),
            Some(from) if ends => {
                columns.push((from, place));
                begun = None;
            }
            _ => {}
        }
    }
    let mut rows = Vec::new();
    for line in lines {
        let mut row = Vec::new();
        for (from, to) in &columns {
            let cell = line.iter().skip(*from).take(to - from);
            row.push(cell.collect::<String>().trim().to_owned());
        }
        rows.push(row);
    }
    rows
}
