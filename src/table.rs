//! Rows as lines of plain text, for the terminal, mails and files.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

/// The rows below their heading, one line each; `is_number` says of a column and a value whether it is
/// aligned to the right.
#[must_use]
pub fn aligned(
    heading: &[&str],
    rows: &[Vec<String>],
    is_number: &impl Fn(usize, &str) -> bool,
) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading.iter().map(|name| Cell::new(name.to_uppercase())));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(column, value)| {
            let alignment =
                if is_number(column, value) { CellAlignment::Right } else { CellAlignment::Left };
            Cell::new(value).set_alignment(alignment)
        }));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}
