//! One screen of a mirror table for the records browser: filtered, sorted and paged within limits.

use super::quoted;
use crate::record::Route;
use crate::store::error::StoreError;
use crate::store::query::{QueryError, QueryLimits, QueryRows};
use crate::store::reader::Reader;
use rusqlite::types::Value;

/// Which records a screen shows.
#[derive(Debug, Clone)]
pub struct RecordPage {
    /// The table.
    pub route: Route,
    /// A column and a text that its value must contain; letter case does not matter.
    pub contains: Option<(String, String)>,
    /// The column to sort by, and whether the highest comes first; else the last changed.
    pub sort: Option<(String, bool)>,
    /// How many records come before this screen.
    pub offset: u32,
    /// The most records.
    pub limit: u32,
}

impl Reader {
    /// The rows of a screen with all columns of the table. A column that does not exist is ignored.
    ///
    /// # Errors
    /// [`QueryError`], for example if sorting takes too long.
    pub fn browse(
        &mut self,
        page: &RecordPage,
        limits: QueryLimits,
    ) -> Result<QueryRows, QueryError> {
        let columns = self.columns(page.route)?;
        let exists = |name: &String| columns.contains(name);
        let mut parameters = vec![
            ("limit".to_owned(), Value::Integer(page.limit.into())),
            ("offset".to_owned(), Value::Integer(page.offset.into())),
        ];
        let mut filter = String::new();
        if let Some((column, text)) = page.contains.as_ref().filter(|(column, _)| exists(column)) {
            filter =
                format!(" WHERE instr(lower(CAST({} AS TEXT)), lower(:text)) > 0", quoted(column));
            parameters.push(("text".to_owned(), Value::Text(text.clone())));
        }
        let order = match page.sort.as_ref().filter(|(column, _)| exists(column)) {
            Some((column, true)) => format!("{} DESC, _seq DESC", quoted(column)),
            Some((column, false)) => format!("{}, _seq DESC", quoted(column)),
            None => "_seq DESC".to_owned(),
        };
        let sql = format!(
            "SELECT * FROM \"{}\"{filter} ORDER BY {order} LIMIT :limit OFFSET :offset",
            page.route
        );
        self.query(&sql, &parameters, limits)
    }

    /// The rows of a route's table in the order of their last change: the number of that change, and the values of
    /// [`Reader::columns`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn record_rows_after(
        &self,
        route: Route,
        after: i64,
        limit: i64,
    ) -> Result<Vec<(i64, Vec<Value>)>, StoreError> {
        let sql = format!("SELECT * FROM \"{route}\" WHERE _seq > ?1 ORDER BY _seq LIMIT ?2");
        let mut statement = self.connection.prepare(&sql)?;
        let width = statement.column_count();
        let rows = statement.query_map([after, limit], |row| {
            let values = (0..width).map(|index| row.get(index));
            Ok((row.get("_seq")?, values.collect::<rusqlite::Result<Vec<Value>>>()?))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
