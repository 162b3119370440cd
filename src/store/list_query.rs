//! What a list is asked for: by which column it is sorted, which of its rows it shows, and after
//! which row it goes on. It is read once from the parameters of an address. Pure.
//!
//! `sort=due` puts the lowest first, `sort=-due` the highest. `status.is=Received` chooses rows by a
//! column; beside `is` there are `not`, `has`, `from` and `to`. Which columns there are, the list
//! itself knows.

use std::collections::BTreeMap;

use rusqlite::types::Value as SqlValue;
use serde_json::value::RawValue;

/// What a list is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListQuery {
    /// The order of the rows, unless it is the list's own.
    pub sort: Option<Sort>,
    /// All of these must hold for a row.
    pub filters: Vec<Filter>,
    /// The last row of the page before.
    pub after: Option<PageKey>,
}

/// The column by which a list is sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sort {
    /// Its name.
    pub column: String,
    /// Whether the highest value is first.
    pub is_descending: bool,
}

/// A condition for the rows of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The column that it is about.
    pub column: String,
    /// How its value is compared.
    pub way: FilterWay,
    /// What it is compared with.
    pub text: String,
}

/// How a value is compared.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
pub enum FilterWay {
    /// It is this.
    Is,
    /// It is not this.
    Not,
    /// It contains this, in any case.
    Has,
    /// It is this or more.
    From,
    /// It is this or less; of a day, all of its hours.
    To,
}

/// Where a page of a list ends: the value by which the list is sorted, and what tells rows of one
/// value apart.
#[derive(Debug, Clone, PartialEq)]
pub struct PageKey {
    /// The value of the column; NULL if the row has none.
    pub value: SqlValue,
    /// The row among those of the same value.
    pub row: SqlValue,
}

/// Why a list cannot be shown as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The list has no such column.
    #[error("there is no column `{column}` here: use one of {known}")]
    UnknownColumn {
        /// The column that was named.
        column: String,
        /// The columns that there are.
        known: String,
    },
    /// There is no such way to compare.
    #[error("`{0}` is no way to choose rows: write the column, then .is, .not, .has, .from or .to")]
    UnknownWay(String),
    /// What a number is compared with is none.
    #[error("`{column}` is a number, and {text:?} is none: write it as 1250.50")]
    NoNumber {
        /// The column.
        column: String,
        /// What was written.
        text: String,
    },
    /// What a day is compared with is none.
    #[error("`{column}` is a day, and {text:?} is none: write it as 2026-11-28")]
    NoDay {
        /// The column.
        column: String,
        /// What was written.
        text: String,
    },
    /// A range is asked for of a text.
    #[error("`{column}` is a text, which has no range: use .is, .not or .has")]
    NoRange {
        /// The column.
        column: String,
    },
    /// The place at which the list goes on is none.
    #[error("the list cannot go on at this place: begin at its first page")]
    NoPlace,
}

impl ListQuery {
    /// Takes what is about the list out of the parameters of an address. A parameter without a
    /// value, as a form sends it for an empty box, asks for nothing.
    ///
    /// # Errors
    /// If a parameter has no meaning for any list.
    pub fn take(parameters: &mut BTreeMap<String, String>) -> Result<Self, ListError> {
        let mut query = Self::default();
        let mut others = BTreeMap::new();
        for (name, text) in std::mem::take(parameters) {
            if name == "sort" {
                query.sort = Sort::read(&text);
            } else if name == "after" {
                query.after = PageKey::read(&text)?;
            } else if let Some((column, way)) = name.rsplit_once('.') {
                let Ok(way) = way.parse() else {
                    return Err(ListError::UnknownWay(name));
                };
                let column = column.to_owned();
                if !text.is_empty() {
                    query.filters.push(Filter { column, way, text });
                }
            } else {
                others.insert(name, text);
            }
        }
        *parameters = others;
        Ok(query)
    }

    /// The parameters that ask for the same, without the place at which the list goes on.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut parameters = Vec::new();
        if let Some(sort) = &self.sort {
            parameters.push(("sort".to_owned(), sort.text()));
        }
        for Filter { column, way, text } in &self.filters {
            let way: &str = way.into();
            parameters.push((format!("{column}.{way}"), text.clone()));
        }
        parameters
    }

    /// The same rows in the order of another column: the lowest first, and the highest first if
    /// they are in this order already.
    #[must_use]
    pub fn sorted_by(&self, column: &str) -> Self {
        let is_ascending_now = match &self.sort {
            Some(sort) => sort.column == column && !sort.is_descending,
            None => false,
        };
        Self {
            sort: Some(Sort {
                column: column.to_owned(),
                is_descending: is_ascending_now,
            }),
            filters: self.filters.clone(),
            after: None,
        }
    }

    /// What a column is compared with in this way; empty if it is not.
    #[must_use]
    pub fn compared_with(&self, column: &str, way: FilterWay) -> &str {
        for filter in &self.filters {
            if filter.column == column && filter.way == way {
                return &filter.text;
            }
        }
        ""
    }

    /// Checks that the list has every column that is named.
    ///
    /// # Errors
    /// [`ListError::UnknownColumn`] with the columns that there are.
    pub fn check_columns(&self, known: &[&str]) -> Result<(), ListError> {
        let sorted = self.sort.iter().map(|sort| &sort.column);
        let filtered = self.filters.iter().map(|filter| &filter.column);
        for column in sorted.chain(filtered) {
            if !known.contains(&column.as_str()) {
                return Err(ListError::UnknownColumn {
                    column: column.clone(),
                    known: known.join(", "),
                });
            }
        }
        Ok(())
    }
}

impl Sort {
    /// The order that a text asks for; `None` if it is empty.
    fn read(text: &str) -> Option<Self> {
        let column = text.strip_prefix('-').unwrap_or(text);
        if column.is_empty() {
            return None;
        }
        Some(Self {
            column: column.to_owned(),
            is_descending: text.starts_with('-'),
        })
    }

    fn text(&self) -> String {
        let mark = if self.is_descending { "-" } else { "" };
        format!("{mark}{}", self.column)
    }
}

impl Filter {
    /// The number that a column is compared with.
    ///
    /// # Errors
    /// [`ListError::NoNumber`]
    pub fn number(&self) -> Result<f64, ListError> {
        let number = self.text.trim().parse::<f64>();
        match number {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(ListError::NoNumber {
                column: self.column.clone(),
                text: self.text.clone(),
            }),
        }
    }

    /// The day that a column is compared with.
    ///
    /// # Errors
    /// [`ListError::NoDay`]
    pub fn day(&self) -> Result<jiff::civil::Date, ListError> {
        self.text.trim().parse().map_err(|_| ListError::NoDay {
            column: self.column.clone(),
            text: self.text.clone(),
        })
    }
}

impl PageKey {
    /// The place that a text names; `None` if it is empty.
    fn read(text: &str) -> Result<Option<Self>, ListError> {
        if text.is_empty() {
            return Ok(None);
        }
        let pair: Result<[&RawValue; 2], _> = serde_json::from_str(text);
        let Ok([value, row]) = pair else {
            return Err(ListError::NoPlace);
        };
        match (sql_of(value.get()), sql_of(row.get())) {
            (Some(value), Some(row)) => Ok(Some(Self { value, row })),
            _ => Err(ListError::NoPlace),
        }
    }

    /// The text that names this place in an address.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::json!([json_of(&self.value), json_of(&self.row)]).to_string()
    }
}

/// A value of a key as SQLite has it, from its JSON; `None` for a list or an object. The last bit of
/// a number counts, which serde_json may lose.
fn sql_of(json: &str) -> Option<SqlValue> {
    if json == "null" {
        return Some(SqlValue::Null);
    }
    if json.starts_with('"') {
        let text: Option<String> = serde_json::from_str(json).ok();
        return text.map(SqlValue::Text);
    }
    if let Ok(whole) = json.parse() {
        return Some(SqlValue::Integer(whole));
    }
    json.parse().ok().map(SqlValue::Real)
}

fn json_of(value: &SqlValue) -> serde_json::Value {
    match value {
        SqlValue::Null => serde_json::Value::Null,
        SqlValue::Integer(number) => (*number).into(),
        SqlValue::Real(number) => (*number).into(),
        SqlValue::Text(text) => text.as_str().into(),
        SqlValue::Blob(bytes) => String::from_utf8_lossy(bytes).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pairs: &[(&str, &str)]) -> (Result<ListQuery, ListError>, Vec<String>) {
        let owned = pairs
            .iter()
            .map(|(name, text)| ((*name).into(), (*text).into()));
        let mut parameters: BTreeMap<String, String> = owned.collect();
        let query = ListQuery::take(&mut parameters);
        (query, parameters.into_keys().collect())
    }

    #[test]
    fn what_is_about_the_list_is_taken_out_of_an_address_and_written_the_same_again() {
        let (query, others) = taken(&[
            ("name", "repairs"),
            ("sort", "-due"),
            ("status", "Received"),
            ("status.is", "In repair"),
            ("total.from", "10"),
            ("total.to", ""),
        ]);
        let query = query.unwrap();
        assert_eq!(others, ["name", "status"]);
        let written = [
            ("sort".to_owned(), "-due".to_owned()),
            ("status.is".to_owned(), "In repair".to_owned()),
            ("total.from".to_owned(), "10".to_owned()),
        ];
        assert_eq!(query.parameters(), written);
        assert_eq!(query.filters[1].number(), Ok(10.0));
        assert!(query.filters[0].number().is_err() && query.filters[1].day().is_err());
        assert!(query.check_columns(&["due", "status", "total"]).is_ok());
        let error = query.check_columns(&["due", "status"]).unwrap_err();
        let said = "there is no column `total` here: use one of due, status";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn a_click_on_a_head_sorts_and_the_second_one_turns_the_order() {
        let mut query = ListQuery::default();
        for wanted in ["due", "-due", "due"] {
            query = query.sorted_by("due");
            assert_eq!(query.parameters()[0].1, wanted);
        }
        assert_eq!(query.sorted_by("id").parameters()[0].1, "id");
    }

    #[test]
    fn a_place_in_a_list_is_read_as_it_was_written_and_no_other_text_is_one() {
        for (value, row) in [
            (SqlValue::Null, SqlValue::Integer(7)),
            (
                SqlValue::Text("A \"b\"".into()),
                SqlValue::Text("00123".into()),
            ),
            (SqlValue::Real(10.5), SqlValue::Integer(-1)),
            // Their last bits tell them apart.
            (SqlValue::Real(0.1 + 0.2), SqlValue::Real(2.0)),
            (SqlValue::Real(8.41e-21), SqlValue::Real(9007199254740993.0)),
            (
                SqlValue::Real(1.0715660391267532e17),
                SqlValue::Real(5e-324),
            ),
        ] {
            let key = PageKey { value, row };
            assert_eq!(PageKey::read(&key.text()), Ok(Some(key)));
        }
        for text in ["7", "[1]", "[1,2,3]", "[[1],2]", "a"] {
            assert_eq!(PageKey::read(text), Err(ListError::NoPlace), "{text}");
        }
        let wrong = taken(&[("status.like", "a")]).0.unwrap_err();
        assert!(wrong.to_string().contains("`status.like`"), "{wrong}");
    }
}
