//! Tables of figures for people.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// An empty table with these columns, of which the first ones name a row and the others are figures.
pub(crate) fn columns(names: usize, headers: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(headers);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
