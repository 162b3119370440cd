//! Rows as lines of plain text, for the terminal, mails and files.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

/// The rows below their heading, one line each. A cell is aligned to the right if `is_number` is
/// true for its column and value. If the table is wider than `width`, its last columns are left out
/// and named; the first column stays.
#[must_use]
pub fn fitted(
    heading: &[&str],
    rows: &[Vec<String>],
    width: usize,
    is_number: &impl Fn(usize, &str) -> bool,
) -> String {
    let mut shown = heading.len();
    loop {
        let lines = aligned(&heading[..shown], rows, is_number);
        let is_too_wide = lines.iter().any(|line| line.chars().count() > width);
        if is_too_wide && shown > 1 {
            shown -= 1;
            continue;
        }
        let mut text = lines.join("\n") + "\n";
        if shown < heading.len() {
            let names = heading[shown..].join(", ").to_uppercase();
            text += &format!("  … also {names}: add --wide to see them\n");
        }
        return text;
    }
}

/// The first columns of the rows below their heading.
fn aligned(
    heading: &[&str],
    rows: &[Vec<String>],
    is_number: &impl Fn(usize, &str) -> bool,
) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.iter().map(|name| Cell::new(name.to_uppercase())));
    for row in rows {
        let mut cells = Vec::new();
        for (column, value) in row.iter().take(heading.len()).enumerate() {
            let alignment = if is_number(column, value) {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            };
            cells.push(Cell::new(value).set_alignment(alignment));
        }
        table.add_row(cells);
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_the_first_columns_and_the_names_of_the_others() {
        let rows = [["leads", "12", "5m"], ["jobs", "3", "1h"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let fitted = |width| {
            fitted(&["route", "records", "interval"], &rows, width, &|at, _| {
                at == 1
            })
        };
        let narrow = fitted(16);
        let shown: Vec<&str> = narrow.lines().map(|line| line.trim()).collect();
        let left_out = "… also INTERVAL: add --wide to see them";
        assert_eq!(
            shown,
            [
                "ROUTE  RECORDS",
                "leads       12",
                "jobs         3",
                left_out
            ]
        );
        assert_eq!(fitted(80).lines().count(), 3);
        assert!(fitted(1).contains("also RECORDS, INTERVAL"));
    }
}
