//! Where the parts of a table and of a chart lead: the page says it, a document leads nowhere.

use shopmirror_core::record::Route;

use super::exactness::Cell;

/// The addresses to which the parts of a table lead; nowhere, unless a method says more.
pub trait TableLinks {
    /// Of a record.
    fn record(&self, _route: Route, _id: &str) -> Option<String> {
        None
    }

    /// Of the same table in the order of a column.
    fn sorted(&self, _column: &str) -> Option<String> {
        None
    }

    /// Of the records that a number counts, or of a name.
    fn rows_behind(&self, _row: &[Cell], _column: usize) -> Option<String> {
        None
    }
}

/// A document of its own leads nowhere.
pub(super) struct NoLinks;

impl TableLinks for NoLinks {}
