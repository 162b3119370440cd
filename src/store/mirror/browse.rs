//! The lists of records that people browse: which columns each has, and the SELECTs that sort them,
//! choose of them and go on in them.
//!
//! A page goes on after a key and not after a number of rows, so that it costs the same far down.
//! What is gone from its list is left out.

use jiff::ToSpan;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use rusqlite::named_params;
use rusqlite::types::Value;
use shopmirror_core::clock::second;
use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::list_query::{Filter, FilterWay, ListError, ListQuery, PageKey, Sort};
use crate::store::mirror::quoted;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The column of the last change, by which every list is sorted unless another one is asked for.
const CHANGED: &str = "changed";
/// The most values of a column that are offered as a choice.
const CHOICES_MAX: i64 = 30;

/// What reports write for a text that is absent or empty.
const NONE: [&str; 4] = ["(none)", "(no stage)", "(no status)", "(not assigned)"];

/// A column of a list of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordColumn {
    /// Its name in an address, and its heading.
    pub name: &'static str,
    /// What its values are.
    pub kind: RecordColumnKind,
    /// The value in SQL: `r` is the table of the route, and `s` that of the states of repairs.
    sql: &'static str,
    /// The column of the mirror that must exist.
    needs: Option<&'static str>,
    /// Whether an index has its order.
    pub is_indexed: bool,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordColumnKind {
    /// One of a few texts.
    Choice,
    /// A text.
    Text,
    /// An amount of money.
    Amount,
    /// A time.
    Moment,
    /// A day.
    Day,
}

use RecordColumnKind::{Amount, Choice, Day, Moment, Text};

const fn column(name: &'static str, kind: RecordColumnKind, sql: &'static str) -> RecordColumn {
    RecordColumn {
        name,
        kind,
        sql,
        needs: Some(name),
        is_indexed: false,
    }
}

/// One that every table has, or that has an index as soon as the table has it.
const fn indexed(column: RecordColumn) -> RecordColumn {
    RecordColumn {
        is_indexed: true,
        ..column
    }
}

/// One that every table has.
const fn own(column: RecordColumn) -> RecordColumn {
    RecordColumn {
        needs: None,
        ..column
    }
}

const CREATED: RecordColumn = indexed(own(column("created", Moment, "r._created_at")));
const LAST_CHANGED: RecordColumn = indexed(own(column(CHANGED, Moment, "r._changed_at")));
const NUMBER: RecordColumn = column("job_number", Text, "r.job_number");
const CUSTOMER: RecordColumn = column("customer_name", Text, "r.customer_name");

const JOBS: &[RecordColumn] = &[
    indexed(NUMBER),
    CUSTOMER,
    column("device_brand", Choice, "r.device_brand"),
    column("device_model", Text, "r.device_model"),
    indexed(own(column("status", Choice, "s.status"))),
    indexed(column("assigned_to", Choice, "r.assigned_to")),
    indexed(own(column("total_amount", Amount, "r._total_amount"))),
    CREATED,
    LAST_CHANGED,
];
const CUSTOMERS: &[RecordColumn] = &[
    column("name", Text, "r.name"),
    column("mobile_number", Text, "r.mobile_number"),
    column("email", Text, "r.email"),
    CREATED,
    LAST_CHANGED,
];
const LEADS: &[RecordColumn] = &[
    column("name", Text, "r.name"),
    column("device_model", Text, "r.device_model"),
    column("status", Choice, "r.status"),
    column("status_stage", Choice, "r.status_stage"),
    column("source", Choice, "r.source"),
    own(column("next_follow_up", Day, "r._next_follow_up")),
    CREATED,
    LAST_CHANGED,
];
const PAYMENTS: &[RecordColumn] = &[
    NUMBER,
    CUSTOMER,
    column("payment_mode", Choice, "r.payment_mode"),
    own(column("kind", Choice, "r._kind")),
    indexed(own(column("amount", Amount, "r._amount"))),
    CREATED,
    LAST_CHANGED,
];
const STATUS_CHANGES: &[RecordColumn] = &[
    NUMBER,
    CUSTOMER,
    column("status", Choice, "r.status"),
    column("status_stage", Choice, "r.status_stage"),
    column("changed_by", Choice, "r.changed_by"),
    CREATED,
    LAST_CHANGED,
];
const OUTSOURCED: &[RecordColumn] = &[
    NUMBER,
    CUSTOMER,
    column("vendor_name", Choice, "r.vendor_name"),
    column("status", Choice, "r.status"),
    column("status_stage", Choice, "r.status_stage"),
    own(column("created", Moment, "r._created_at")),
    LAST_CHANGED,
];

/// Which records of a list are in the sum of an amount; and of those whose amount is not known, which
/// can only make it more, which only less, and which may do either. All of them are conditions.
struct AmountDoubts {
    counts: &'static str,
    more: &'static str,
    less: &'static str,
    unsure: &'static str,
}

impl AmountDoubts {
    fn of(route: Route) -> Self {
        match route {
            // A payment without an amount may be a refund, unless its type says what it is.
            Route::Payments => Self {
                counts: "r._kind IS NOT 'void'",
                more: "r._kind IS 'payment'",
                less: "r._kind IS 'refund'",
                unsure: "r._kind IS NULL",
            },
            // A repair without a total may cost something.
            _ => Self {
                counts: "TRUE",
                more: "(r._total_amount_sign IS 1 OR NOT EXISTS (
                    SELECT 1 FROM json_each(r._unreadable) WHERE value = 'total_amount'))",
                less: "FALSE",
                unsure: "r._total_amount_sign IS NOT 1 AND EXISTS (
                    SELECT 1 FROM json_each(r._unreadable) WHERE value = 'total_amount')",
            },
        }
    }
}

/// Whether a filter asks for a range.
fn is_range(filter: &Filter) -> bool {
    matches!(filter.way, FilterWay::From | FilterWay::To)
}

/// Whether a filter asks for a status or a stage.
fn is_of_state(filter: &Filter) -> bool {
    matches!(filter.column.as_str(), "status" | "status_stage")
}

/// The condition that a value is this text, or none at all if reports write so. A number is compared
/// as text; written in two ways, so that an index finds either.
fn is_text(sql: &str, text: &str, values: &mut Vec<Value>) -> String {
    if NONE.contains(&text) {
        return format!("nullif({sql}, '') IS NULL");
    }
    values.push(text.to_owned().into());
    format!(
        "({sql} = :value
        OR {sql} = CAST(:value AS NUMERIC) AND CAST({sql} AS TEXT) = :value)"
    )
}

/// The list of a route with the columns that its table has, and what it is asked for.
#[derive(Debug, Clone)]
pub struct RecordList {
    /// The route.
    pub route: Route,
    /// The columns.
    pub columns: Vec<RecordColumn>,
    /// The order and the filters.
    pub query: ListQuery,
    /// Only records of this business, and the one of records that name none.
    pub business: Option<(String, Option<String>)>,
    /// The zone in which days are asked for.
    pub zone: TimeZone,
}

/// The conditions of a SELECT, and the values of the parameters in them.
struct Conditions {
    texts: Vec<String>,
    values: Vec<(String, Value)>,
}

/// A SELECT with the values of its parameters.
pub type RecordSelect = (String, Vec<(String, Value)>);

impl Reader {
    /// The columns that the list of a route has now.
    pub fn record_columns(&self, route: Route) -> Result<Vec<RecordColumn>, StoreError> {
        let all = match route {
            Route::Jobs => JOBS,
            Route::Customers => CUSTOMERS,
            Route::Leads => LEADS,
            Route::Payments => PAYMENTS,
            Route::JobStatusChanges => STATUS_CHANGES,
            Route::OutsourcedJobs => OUTSOURCED,
        };
        let table = self.columns(route)?;
        let mut columns = Vec::with_capacity(all.len());
        for column in all {
            let is_there = match column.needs {
                Some(needed) => table.iter().any(|name| name == needed),
                None => true,
            };
            if is_there {
                columns.push(*column);
            }
        }
        Ok(columns)
    }

    /// Whether a route has more than `most` records.
    pub fn has_more_records(&self, route: Route, most: i64) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT count(*) > :most
            FROM (SELECT 1 FROM main.\"{route}\" LIMIT :most + 1)"
        );
        Ok(self
            .connection
            .value(&sql, named_params! { ":most": most })?)
    }

    /// How many records of a route are gone from their list.
    pub fn gone_records(&self, route: Route) -> Result<i64, StoreError> {
        let sql = format!("SELECT count(*) FROM main.\"{route}\" WHERE _vanished_at IS NOT NULL");
        Ok(self.connection.value(&sql, [])?)
    }

    /// The values of a column in their order; none if there are too many for a choice. By an index,
    /// each is found at once, however many records have it.
    pub fn record_choices(
        &self,
        route: Route,
        column: RecordColumn,
    ) -> Result<Vec<String>, StoreError> {
        // The states are those of repairs in their list.
        let (table, field, is_there) = match column.sql.split_once('.') {
            Some(("s", field)) => ("_job_states".to_owned(), field, "TRUE"),
            Some((_, field)) => {
                let table = format!("main.\"{route}\"");
                (table, field, "_vanished_at IS NULL")
            }
            None => return Ok(Vec::new()),
        };
        let sql = if column.is_indexed {
            format!(
                "WITH RECURSIVE choice(value) AS (
                    SELECT min({field}) FROM {table} WHERE {is_there}
                    UNION ALL
                    SELECT (
                        SELECT min({field}) FROM {table} WHERE {field} > value AND {is_there}
                    )
                    FROM choice
                    WHERE value IS NOT NULL
                    LIMIT {CHOICES_MAX} + 2
                )
                SELECT CAST(value AS TEXT)
                FROM choice
                WHERE value IS NOT NULL"
            )
        } else {
            format!(
                "SELECT DISTINCT CAST({field} AS TEXT)
                FROM {table}
                WHERE {field} IS NOT NULL AND {is_there}
                ORDER BY 1
                LIMIT {CHOICES_MAX} + 1"
            )
        };
        let mut choices: Vec<String> = self.connection.values(&sql, [])?;
        // An empty text is no value, and would ask for every record.
        choices.retain(|choice| !choice.is_empty());
        if i64::try_from(choices.len()).unwrap_or(i64::MAX) > CHOICES_MAX {
            choices.clear();
        }
        Ok(choices)
    }

    /// The rows of a route's table in the order of their last change: the number of that change,
    /// and the values of [`Reader::columns`].
    pub fn record_rows_after(
        &self,
        route: Route,
        after: i64,
        limit: i64,
    ) -> Result<Vec<(i64, Vec<Value>)>, StoreError> {
        let sql = format!(
            "SELECT *
            FROM \"{route}\"
            WHERE _seq > :after
            ORDER BY _seq
            LIMIT :limit"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let width = statement.column_count();
        let mut rows = statement.query(named_params! { ":after": after, ":limit": limit })?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(width);
            for place in 0..width {
                values.push(row.get(place)?);
            }
            found.push((row.get("_seq")?, values));
        }
        Ok(found)
    }
}

impl RecordList {
    /// Checks that the list can be shown as it is asked for.
    ///
    /// # Errors
    /// [`ListError`] with what is allowed.
    pub fn check(&self) -> Result<(), ListError> {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        self.query.check_columns(&names)?;
        for filter in &self.query.filters {
            self.condition(filter, &mut Vec::new())?;
        }
        Ok(())
    }

    /// The column by which the list is sorted.
    #[must_use]
    pub fn sort(&self) -> Sort {
        self.query.sort.clone().unwrap_or(Sort {
            column: CHANGED.to_owned(),
            is_descending: true,
        })
    }

    /// Whether an index gives its first rows, however many records there are.
    #[must_use]
    pub fn is_light(&self) -> bool {
        let sort = self.sort();
        let is_indexed = self.named(&sort.column).is_indexed;
        is_indexed && self.query.filters.is_empty() && self.business.is_none()
    }

    /// The SELECTs whose rows, one after the other, are the next `most` records: `_value` and `_row`
    /// of each are its key, then come `_id` and the columns. Records without a value are the last
    /// ones in both orders.
    ///
    /// # Errors
    /// [`ListError`] as [`Self::check`].
    pub fn pages(&self, most: usize) -> Result<Vec<RecordSelect>, ListError> {
        let is_past_values = match &self.query.after {
            Some(key) => key.value == Value::Null,
            None => false,
        };
        let mut selects = Vec::new();
        if !is_past_values {
            selects.push(self.select(self.query.after.as_ref(), true, most)?);
        }
        let key = self.query.after.as_ref().filter(|_| is_past_values);
        if self.sort().column != CHANGED {
            selects.push(self.select(key, false, most)?);
        }
        Ok(selects)
    }

    /// The records with a value in the column of the order, or those without one.
    fn select(
        &self,
        after: Option<&PageKey>,
        has_value: bool,
        most: usize,
    ) -> Result<RecordSelect, ListError> {
        let sort = self.sort();
        let by_status = sort.column == "status" && self.route == Route::Jobs;
        let (value, row) = if sort.column == CHANGED {
            ("r._seq", "r._seq")
        } else if by_status {
            ("s.status", "s.id")
        } else {
            (self.named(&sort.column).sql, "r.rowid")
        };
        let (direction, beyond) = if sort.is_descending {
            ("DESC", "<")
        } else {
            ("ASC", ">")
        };
        let Conditions {
            texts: mut conditions,
            mut values,
        } = self.conditions(|_| true)?;
        conditions.push(format!(
            "{value} IS {}NULL",
            if has_value { "NOT " } else { "" }
        ));
        if let Some(key) = after {
            if has_value {
                conditions.push(format!(
                    "({value}, {row}) {beyond} (:after_value, :after_row)"
                ));
                values.push(("after_value".to_owned(), key.value.clone()));
            } else {
                conditions.push(format!("{row} {beyond} :after_row"));
            }
            values.push(("after_row".to_owned(), key.row.clone()));
        }
        let mut columns = String::new();
        for column in &self.columns {
            columns.push_str(&format!(",\n    {} AS {}", column.sql, quoted(column.name)));
        }
        let sql = format!(
            "SELECT {value} AS _value, {row} AS _row, r.id AS _id{columns}
            FROM {}
            WHERE {}
            ORDER BY {value} {direction}, {row} {direction}
            LIMIT {most}",
            self.tables(by_status),
            conditions.join("\n    AND ")
        );
        Ok((sql, values))
    }

    /// The names of the columns that have a sum.
    #[must_use]
    pub fn summed(&self) -> Vec<&'static str> {
        let mut summed = Vec::new();
        for column in &self.columns {
            if column.kind == Amount {
                summed.push(column.name);
            }
        }
        summed
    }

    /// The SELECT of the number of `records` and of the sums of [`Self::summed`], as a report has it:
    /// hidden columns count what cannot be read. Void payments are in no sum.
    ///
    /// # Errors
    /// [`ListError`] as [`Self::check`].
    pub fn totals(&self) -> Result<RecordSelect, ListError> {
        let Conditions { texts, values } = self.conditions(|_| true)?;
        let mut sums = String::new();
        for column in &self.columns {
            if column.kind != Amount {
                continue;
            }
            let RecordColumn { name, sql, .. } = column;
            let AmountDoubts {
                counts,
                more,
                less,
                unsure,
            } = AmountDoubts::of(self.route);
            // In ten-thousandths, because sums of fractions would not be exact.
            sums.push_str(&format!(
                ",
                total(round({sql} * 10000)) FILTER (WHERE {counts}) / 10000.0 AS {name},
                count(*) FILTER (WHERE {sql} IS NULL AND {more}) AS _more_{name},
                count(*) FILTER (WHERE {sql} IS NULL AND {less}) AS _less_{name},
                count(*) FILTER (WHERE {sql} IS NULL AND {unsure}) AS _unsure_{name}"
            ));
        }
        let sql = format!(
            "SELECT count(*) AS records, {} AS _more_records, {} AS _unsure_records{sums}
            FROM {}
            WHERE {}",
            self.has_unread()?,
            self.has_old_state()?,
            self.tables(false),
            texts.join("\n    AND ")
        );
        Ok((sql, values))
    }

    /// Whether a record that fulfils the other conditions has no value that can be read in a column
    /// of which a range is asked for. One without an amount may have any.
    fn has_unread(&self) -> Result<String, ListError> {
        let mut unread = Vec::new();
        for filter in self.query.filters.iter().filter(|filter| is_range(filter)) {
            let RecordColumn { kind, sql, .. } = self.named(&filter.column);
            if kind == Amount {
                unread.push(format!("{sql} IS NULL"));
            } else if let Some(field) = sql.strip_prefix("r._") {
                unread.push(format!(
                    "EXISTS (SELECT 1 FROM json_each(r._unreadable) WHERE value = '{field}')"
                ));
            }
        }
        if unread.is_empty() {
            return Ok("0".to_owned());
        }
        self.exists(|filter| !is_range(filter), &unread.join(" OR "))
    }

    /// Whether a record that fulfils the other conditions may have another status or stage by now
    /// than the one that is asked for, because it has left the newest page. (What is known of the
    /// status of a repair, its status changes say.)
    fn has_old_state(&self) -> Result<String, ListError> {
        let may_change = matches!(self.route, Route::Leads | Route::OutsourcedJobs);
        if !may_change || !self.query.filters.iter().any(is_of_state) {
            return Ok("0".to_owned());
        }
        self.exists(|filter| !is_of_state(filter), "r._last_seen_at IS NOT NULL")
    }

    /// Whether the list asks for a status or a stage.
    #[must_use]
    pub fn is_of_state(&self) -> bool {
        self.query.filters.iter().any(is_of_state)
    }

    /// Whether there is a record that fulfils some of the conditions and another one.
    fn exists(&self, is_kept: fn(&Filter) -> bool, other: &str) -> Result<String, ListError> {
        let Conditions { texts, .. } = self.conditions(is_kept)?;
        Ok(format!(
            "EXISTS (
                SELECT 1
                FROM {}
                WHERE {}
                    AND ({other})
            )",
            self.tables(false),
            texts.join("\n    AND ")
        ))
    }

    /// The SELECT of whole rows of the mirror in the order of the list.
    ///
    /// # Errors
    /// [`ListError`] as [`Self::check`].
    pub fn whole_rows(&self, most: i64) -> Result<RecordSelect, ListError> {
        self.rows("r.*", most)
    }

    /// The same with the id and the columns of the list only.
    ///
    /// # Errors
    /// [`ListError`] as [`Self::check`].
    pub fn listed_rows(&self, most: i64) -> Result<RecordSelect, ListError> {
        let mut columns = "r.id".to_owned();
        for column in &self.columns {
            columns.push_str(&format!(", {} AS {}", column.sql, quoted(column.name)));
        }
        self.rows(&columns, most)
    }

    fn rows(&self, columns: &str, most: i64) -> Result<RecordSelect, ListError> {
        let sort = self.sort();
        let value = if sort.column == CHANGED {
            "r._seq"
        } else {
            self.named(&sort.column).sql
        };
        let direction = if sort.is_descending { "DESC" } else { "ASC" };
        let Conditions { texts, values } = self.conditions(|_| true)?;
        let sql = format!(
            "SELECT {columns}
            FROM {}
            WHERE {}
            ORDER BY {value} {direction} NULLS LAST
            LIMIT {most}",
            self.tables(false),
            texts.join("\n    AND ")
        );
        Ok((sql, values))
    }

    /// The tables of the list; the states of repairs only if a column of them is used.
    fn tables(&self, by_status: bool) -> String {
        let route = self.route;
        if route != Route::Jobs {
            format!("main.\"{route}\" r")
        } else if by_status {
            "_job_states s CROSS JOIN main.jobs r ON r.id = s.id".to_owned()
        } else {
            "main.jobs r CROSS JOIN _job_states s ON s.id = r.id".to_owned()
        }
    }

    /// The conditions for the records of the list, and the values in them. A filter that is not kept
    /// gives none, and the others have the same names as with it.
    fn conditions(&self, is_kept: fn(&Filter) -> bool) -> Result<Conditions, ListError> {
        let mut conditions = vec!["r._vanished_at IS NULL".to_owned()];
        let mut values = Vec::new();
        if let Some((business, default)) = &self.business {
            conditions.push("coalesce(r._business, :default_business) = :business".to_owned());
            values.push(("business".to_owned(), business.clone().into()));
            values.push(("default_business".to_owned(), default.clone().into()));
        }
        for (place, filter) in self.query.filters.iter().enumerate() {
            if !is_kept(filter) {
                continue;
            }
            let mut own_values = Vec::new();
            let condition = self.condition(filter, &mut own_values)?;
            let name = format!("filter_{place}");
            conditions.push(condition.replace(":value", &format!(":{name}")));
            values.extend(own_values.into_iter().map(|value| (name.clone(), value)));
        }
        Ok(Conditions {
            texts: conditions,
            values,
        })
    }

    /// One condition; `:value` stands for the one value that it adds.
    fn condition(&self, filter: &Filter, values: &mut Vec<Value>) -> Result<String, ListError> {
        let column = self.named(&filter.column);
        let sql = column.sql;
        let sign = match filter.way {
            FilterWay::Is => return Ok(is_text(sql, &filter.text, values)),
            FilterWay::Not => {
                let is_text = is_text(sql, &filter.text, values);
                return Ok(format!("({is_text}) IS NOT TRUE"));
            }
            FilterWay::Has => {
                let mut pattern = filter.text.clone();
                for mark in ["\\", "%", "_"] {
                    pattern = pattern.replace(mark, &format!("\\{mark}"));
                }
                values.push(format!("%{pattern}%").into());
                return Ok(format!("CAST({sql} AS TEXT) LIKE :value ESCAPE '\\'"));
            }
            FilterWay::From => ">=",
            FilterWay::To => "<=",
        };
        let is_from = filter.way == FilterWay::From;
        match column.kind {
            Amount => values.push(filter.number()?.into()),
            Moment if is_from => values.push(self.start_of(filter.day()?).into()),
            Moment => {
                values.push(self.start_of(filter.day()?.saturating_add(1.day())).into());
                return Ok(format!("{sql} < :value"));
            }
            Day => values.push(filter.day()?.to_string().into()),
            Choice | Text => {
                let column = filter.column.clone();
                return Err(ListError::NoRange { column });
            }
        }
        Ok(format!("{sql} {sign} :value"))
    }

    /// The first moment of a day in UTC, as the mirror writes it.
    fn start_of(&self, day: Date) -> String {
        let midnight = day.to_datetime(Time::midnight());
        match midnight.to_zoned_datetime(self.zone.clone()) {
            Ok(start) => second(start.timestamp()),
            Err(_) => day.to_string(),
        }
    }

    /// What the values of a column are.
    #[must_use]
    pub fn kind_of(&self, column: &str) -> RecordColumnKind {
        self.named(column).kind
    }

    /// The column of a name that was checked; that of the last change for another one.
    fn named(&self, name: &str) -> RecordColumn {
        let mut columns = self.columns.iter();
        match columns.find(|column| column.name == name) {
            Some(column) => *column,
            None => LAST_CHANGED,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rusqlite::Connection;

    use super::*;
    use crate::store::fixtures::{self, Poll, open};
    use crate::store::query::QueryLimits;

    const LIMITS: QueryLimits = QueryLimits {
        time: std::time::Duration::from_secs(30),
        bytes: 1_000_000,
        value_bytes: 10_000,
    };

    fn list(reader: &Reader, route: Route, asked: &[(&str, &str)]) -> RecordList {
        let owned = asked
            .iter()
            .map(|(name, text)| ((*name).into(), (*text).into()));
        let mut parameters: BTreeMap<String, String> = owned.collect();
        RecordList {
            route,
            columns: reader.record_columns(route).unwrap(),
            query: ListQuery::take(&mut parameters).unwrap(),
            business: None,
            zone: TimeZone::UTC,
        }
    }

    /// Every id of a list, two on a page.
    fn ids(reader: &mut Reader, mut list: RecordList) -> String {
        let mut ids = Vec::new();
        loop {
            let mut last = None;
            let mut on_page = 0;
            for (sql, values) in list.pages(2).unwrap() {
                for row in reader.query(&sql, &values, LIMITS).unwrap().rows {
                    if on_page == 2 {
                        break;
                    }
                    on_page += 1;
                    let Value::Text(id) = &row[2] else {
                        panic!("{row:?}")
                    };
                    ids.push(id.clone());
                    let [value, row] = [0, 1].map(|place| row[place].clone());
                    last = Some(PageKey { value, row });
                }
            }
            if on_page < 2 {
                return ids.join(" ");
            }
            list.query.after = last;
        }
    }

    #[tokio::test]
    async fn a_list_goes_on_after_each_page_until_every_record_was_shown_once() {
        let (dir, store) = open();
        let mut leads = Vec::new();
        for (id, name, created) in [
            (1, "Bo", r#""2026-11-03T10:00:00Z""#),
            (2, "Ann", r#""2026-11-02T10:00:00Z""#),
            (3, "Ann", "null"),
            (4, "Cy", r#""2026-11-02T10:00:00Z""#),
            (5, "A_n", "null"),
        ] {
            leads.push(format!(
                r#"{{"id":{id},"name":"{name}","created_at":{created}}}"#
            ));
        }
        Poll::USUAL.shows(&store, &leads).await;
        let mut reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
        for (asked, wanted) in [
            (vec![("sort", "name")], "5 3 2 1 4"),
            (vec![("sort", "-name")], "4 1 2 3 5"),
            (vec![("sort", "created")], "4 2 1 5 3"),
            (vec![("sort", "-created")], "1 2 4 3 5"),
            (vec![("sort", "changed")], "5 4 3 2 1"),
            (vec![], "1 2 3 4 5"),
            (vec![("name.has", "N"), ("sort", "changed")], "5 3 2"),
            (vec![("name.has", "a_n"), ("sort", "changed")], "5"),
            (vec![("name.not", "Ann"), ("sort", "changed")], "5 4 1"),
            (vec![("created.from", "2026-11-03")], "1"),
            (vec![("created.to", "2026-11-02")], "2 4"),
        ] {
            let list = list(&reader, Route::Leads, &asked);
            assert_eq!(ids(&mut reader, list), wanted, "{asked:?}");
        }
    }

    #[tokio::test]
    async fn the_first_rows_of_an_indexed_order_are_read_without_the_rest() {
        let (dir, store) = open();
        let jobs = r#"{"id":1,"job_number":"J1","assigned_to":"Tim","total_amount":1,
            "status":"In repair","status_stage":"open","created_at":"2026-11-03T10:00:00Z"}"#;
        let payments = r#"{"id":1,"amount":1,"created_at":"2026-11-03T10:00:00Z"}"#;
        Poll::USUAL
            .shows_of(&store, Route::Jobs, &[jobs.to_owned()])
            .await;
        Poll::USUAL
            .shows_of(&store, Route::Payments, &[payments.to_owned()])
            .await;
        let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        for route in Route::ALL {
            for column in reader.record_columns(route).unwrap() {
                if !column.is_indexed {
                    continue;
                }
                for sort in [column.name.to_owned(), format!("-{}", column.name)] {
                    let mut list = list(&reader, route, &[("sort", &sort)]);
                    for after in [None, Some("a"), None] {
                        list.query.after = after.map(|value| PageKey {
                            value: Value::Text(value.to_owned()),
                            row: Value::Integer(1),
                        });
                        for (sql, _) in list.pages(51).unwrap() {
                            let steps = fixtures::plan(&connection, &sql);
                            // Those of one moment of creation are sorted among themselves.
                            let are_sorted = steps.iter().any(|step| {
                                step.contains("TEMP B-TREE")
                                    && !step.contains("LAST TERM OF ORDER BY")
                            });
                            let is_by_index = steps[0].contains("INDEX");
                            assert!(is_by_index && !are_sorted, "{sort}: {steps:?}\n{sql}");
                        }
                    }
                }
            }
        }
    }
}
