//! Queries of reports: read-only, with a limit on time and bytes.
//!
//! An authorizer refuses everything but reading, so that a query of the operator can neither change
//! the file nor open another one. SQLite names each table and column to it, so it also knows what a
//! query reads.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Error, ErrorCode, Statement, named_params};
use shopmirror_core::clock::second;
use shopmirror_core::reading::{JOB_DEVICE, PAYMENT_METHOD, fields_of};
use shopmirror_core::record::Route;

use super::error::StoreError;
use super::mirror::{field_columns, field_rules, quoted};
use super::reader::{Reader, stop_at};
use super::sql::Sql;
use crate::text::duration;

/// How long a query may take and how much it may return.
#[derive(Debug, Clone, Copy)]
pub struct QueryLimits {
    /// The longest time. It is looked at between the steps of a query, and one call of a function
    /// is one step.
    pub time: Duration,
    /// The most memory of all rows, in bytes.
    pub bytes: usize,
    /// The longest value that a function may get or return, in bytes: it bounds how long one call
    /// takes.
    pub value_bytes: usize,
}

/// The longest pattern of LIKE and GLOB: each may take its length times that of the text.
const PATTERN_MAX: i32 = 1_000;
/// What a row and each of its values need beside their text: their place, and of a text what the
/// allocator adds.
const ROW_BYTES: usize = size_of::<Vec<Value>>() + ALLOCATION;
const CELL_BYTES: usize = size_of::<Value>();
const ALLOCATION: usize = 16;

/// The rows of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows in the order of the query.
    pub rows: Vec<Vec<Value>>,
}

/// What a query reads, as SQLite says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryReads {
    /// The tables and views that its own text names, each with its columns, in lower case.
    /// What a view reads itself is not among them.
    pub tables: BTreeMap<String, BTreeSet<String>>,
    /// The names of its parameters, without the `:`.
    pub parameters: BTreeSet<String>,
}

impl QueryReads {
    /// Whether it reads one of these columns of a table or view.
    #[must_use]
    pub fn reads(&self, table: &str, columns: &[&str]) -> bool {
        let Some(read) = self.tables.get(table) else {
            return false;
        };
        columns.iter().any(|column| read.contains(*column))
    }
}

/// Why a query returned nothing.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// SQLite does not accept the text.
    #[error("{0}")]
    Invalid(String),
    /// The query does more than read.
    #[error("a report may only read: use one SELECT")]
    NotReading,
    /// The query uses a parameter that has no value.
    #[error("the query uses the parameter {0}, which the comment at its start does not declare")]
    UnknownParameter(String),
    /// The query took too long.
    #[error(
        "the query was stopped after {}: ask for a shorter time, or make an index",
        duration::text(*.0)
    )]
    TooLong(Duration),
    /// The rows of the query are too large in total.
    #[error("the query returns more than {0} bytes: choose fewer columns or rows")]
    TooLarge(usize),
    /// One value is too long.
    #[error("the query makes or reads a value of more than {0} bytes: shorten it by substr()")]
    ValueTooLong(usize),
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One day, in UTC, as the query of a report uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportDay {
    /// The day, `2026-03-29`.
    pub day: String,
    /// The day, week or month that it is counted in.
    pub period: String,
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub to: Timestamp,
}

impl Reader {
    /// Creates the table `days` for the queries of this connection, which from now on see only the
    /// records that are in their list: a view of the name of each table leaves out what is gone.
    /// SQLite reads the table behind it by the same indexes.
    pub fn set_days(&self, days: &[ReportDay]) -> Result<(), StoreError> {
        for route in Route::ALL {
            self.connection.execute_batch(&format!(
                "CREATE TEMP VIEW IF NOT EXISTS \"{route}\" AS
                SELECT * FROM main.\"{route}\" WHERE _vanished_at IS NULL"
            ))?;
        }
        self.connection.execute_batch(
            "DROP TABLE IF EXISTS temp.days;
            CREATE TEMP TABLE days (
                day     TEXT PRIMARY KEY,
                period  TEXT NOT NULL,
                from_at TEXT NOT NULL,
                to_at   TEXT NOT NULL
            ) STRICT, WITHOUT ROWID;
            CREATE INDEX temp.days_from ON days (from_at);
            SAVEPOINT days",
        )?;
        for day in days {
            self.connection.run(
                "INSERT INTO days (day, period, from_at, to_at)
                VALUES (:day, :period, :from, :to)",
                named_params! {
                    ":day": day.day,
                    ":period": day.period,
                    ":from": second(day.from),
                    ":to": second(day.to),
                },
            )?;
        }
        Ok(self.connection.execute_batch("RELEASE days")?)
    }

    /// Runs several reads that see one state of the store, whatever is written meanwhile.
    ///
    /// # Errors
    /// That of `read`, or if the store cannot be read.
    pub fn at_one_moment<T, E: From<StoreError>>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.connection
            .execute_batch("BEGIN")
            .map_err(StoreError::from)?;
        let outcome = read(self);
        self.connection
            .execute_batch("ROLLBACK")
            .map_err(StoreError::from)?;
        outcome
    }

    /// Whether the mirror has a record of a route, be it one that is gone from its list.
    pub fn has_records(&self, route: Route) -> Result<bool, StoreError> {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM main.\"{route}\")");
        Ok(self.connection.value(&sql, [])?)
    }

    /// Whether a record of a route has left the newest page.
    pub fn has_left_pages(&self, route: Route) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM main.\"{route}\" WHERE _last_seen_at IS NOT NULL)"
        );
        Ok(self.connection.value(&sql, [])?)
    }

    /// Which of the fields that a report needs no record of a route has shown.
    pub fn lacking_fields(
        &self,
        route: Route,
        needed: &[String],
    ) -> Result<Vec<String>, StoreError> {
        let settings = field_rules::settings(&self.connection)?;
        let sent = field_columns(&self.connection, route)?;
        let mut lacking = Vec::new();
        for field in needed {
            let is_sent = match fields_of(route).iter().find(|read| read.name == field) {
                Some(read) => match settings.source(route, read.name) {
                    Some(source) => sent.iter().any(|column| column == source),
                    None => false,
                },
                None => sent.contains(field) || self.has_worded(route, field)?,
            };
            if !is_sent {
                lacking.push(field.clone());
            }
        }
        Ok(lacking)
    }

    /// Whether a field is one that the views `worded_` add, and the records of the route have it.
    fn has_worded(&self, route: Route, name: &str) -> Result<bool, StoreError> {
        for field in [PAYMENT_METHOD, JOB_DEVICE] {
            if field.route == route && field.name == name {
                return Ok(self.word_source(field)?.is_some());
            }
        }
        Ok(false)
    }

    /// Gives the table of a route without records these columns, for the queries of this connection.
    pub fn add_empty_columns(&self, route: Route, fields: &[String]) -> Result<(), StoreError> {
        let mut empty = String::new();
        for field in fields {
            empty.push_str(&format!(", NULL AS {}", quoted(field)));
        }
        Ok(self.connection.execute_batch(&format!(
            "DROP VIEW IF EXISTS temp.\"{route}\";
            CREATE TEMP VIEW \"{route}\" AS SELECT *{empty} FROM main.\"{route}\""
        ))?)
    }

    /// Runs one SELECT; `parameters` are the values of `:name`.
    ///
    /// # Errors
    /// [`QueryError`] if it is not a SELECT, is malformed, or passes a limit.
    pub fn query(
        &mut self,
        sql: &str,
        parameters: &[(String, Value)],
        limits: QueryLimits,
    ) -> Result<QueryRows, QueryError> {
        let mut end = Instant::now() + limits.time;
        if let Some(deadline) = self.deadline {
            end = end.min(deadline);
        }
        self.connection
            .authorizer(Some(|context: AuthContext<'_>| only_reading(&context)))
            .map_err(StoreError::from)?;
        stop_at(&mut self.connection, Some(end)).map_err(StoreError::from)?;
        // Before a value is made, not after: one call such as zeroblob(1000000000) asks for all of
        // it, and no time limit ends a call such as instr() of two long texts.
        let longest = i32::try_from(limits.value_bytes).unwrap_or(i32::MAX);
        let length = self.limit_to(Limit::SQLITE_LIMIT_LENGTH, longest)?;
        let pattern = self.limit_to(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX)?;
        let outcome = run(self, sql, parameters, limits);
        self.limit_to(Limit::SQLITE_LIMIT_LENGTH, length)?;
        self.limit_to(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, pattern)?;
        self.connection
            .authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
            .map_err(StoreError::from)?;
        stop_at(&mut self.connection, self.deadline).map_err(StoreError::from)?;
        outcome
    }

    /// Sets a limit of SQLite; returns the one before.
    fn limit_to(&self, limit: Limit, most: i32) -> Result<i32, StoreError> {
        Ok(self.connection.set_limit(limit, most)?)
    }

    /// What one SELECT reads. It is not run.
    ///
    /// # Errors
    /// [`QueryError`] if it is not a SELECT or is malformed.
    pub fn reads(&mut self, sql: &str, limits: QueryLimits) -> Result<QueryReads, QueryError> {
        let accesses = Arc::new(Mutex::new(Accesses::default()));
        let seen = Arc::clone(&accesses);
        self.connection
            .authorizer(Some(move |context: AuthContext<'_>| {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.add(&context);
                only_reading(&context)
            }))
            .map_err(StoreError::from)?;
        let parameters = parameters_of(self, sql, limits);
        self.connection
            .authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
            .map_err(StoreError::from)?;
        let parameters = parameters?;
        let accesses = mem::take(&mut *accesses.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(QueryReads {
            tables: accesses.of_text(&self.views().map_err(StoreError::from)?),
            parameters,
        })
    }

    /// The names of the views.
    fn views(&self) -> rusqlite::Result<Vec<String>> {
        let sql = "
            SELECT lower(name) FROM main.sqlite_schema WHERE type = 'view'
            UNION ALL
            SELECT lower(name) FROM temp.sqlite_schema WHERE type = 'view'";
        self.connection.values(sql, [])
    }
}

/// The tables and views that were read, each with its columns, in lower case.
type Tables = BTreeMap<String, BTreeSet<String>>;

/// Who reads which tables: the text of the query itself has no name, and each of its views and each
/// named part of it has one.
#[derive(Debug, Default)]
struct Accesses(BTreeMap<String, Tables>);

impl Accesses {
    fn add(&mut self, context: &AuthContext<'_>) {
        let AuthAction::Read {
            table_name,
            column_name,
        } = context.action
        else {
            return;
        };
        let accessor = context.accessor.unwrap_or_default().to_ascii_lowercase();
        let tables = self.0.entry(accessor).or_default();
        let columns = tables.entry(table_name.to_ascii_lowercase()).or_default();
        columns.insert(column_name.to_ascii_lowercase());
    }

    /// What the text of the query reads, without what its views read.
    fn of_text(self, views: &[String]) -> Tables {
        let mut read = Tables::new();
        let mut inside = BTreeSet::new();
        let mut views_read = Vec::new();
        for (accessor, tables) in self.0 {
            if views.contains(&accessor) {
                // A view may have the name of the table that it shows.
                inside.extend(tables.into_keys().filter(|table| *table != accessor));
                views_read.push(accessor);
                continue;
            }
            for (table, columns) in tables {
                read.entry(table).or_default().extend(columns);
            }
        }
        // Of a view without a column, as in count(*), only what it reads itself is told.
        for view in views_read {
            if !inside.contains(&view) {
                read.entry(view).or_default();
            }
        }
        read
    }
}

fn only_reading(context: &AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

/// The names of the parameters of a SELECT, without the `:`.
fn parameters_of(
    reader: &Reader,
    sql: &str,
    limits: QueryLimits,
) -> Result<BTreeSet<String>, QueryError> {
    let statement = prepared(reader, sql, limits)?;
    let mut names = BTreeSet::new();
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or_default();
        names.insert(name.trim_start_matches(':').to_owned());
    }
    Ok(names)
}

/// A SELECT that is ready to run.
fn prepared<'r>(
    reader: &'r Reader,
    sql: &str,
    limits: QueryLimits,
) -> Result<Statement<'r>, QueryError> {
    let statement = reader
        .connection
        .prepare(sql)
        .map_err(|error| explain(error, limits))?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(QueryError::NotReading);
    }
    Ok(statement)
}

fn run(
    reader: &Reader,
    sql: &str,
    parameters: &[(String, Value)],
    limits: QueryLimits,
) -> Result<QueryRows, QueryError> {
    let mut statement = prepared(reader, sql, limits)?;
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or("?").to_owned();
        let value = parameters
            .iter()
            .find(|(declared, _)| name.get(1..) == Some(declared.as_str()));
        let Some((_, value)) = value else {
            return Err(QueryError::UnknownParameter(name));
        };
        statement
            .raw_bind_parameter(index, value)
            .map_err(|error| explain(error, limits))?;
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| explain(error, limits))? {
        let mut cells = Vec::with_capacity(columns.len());
        bytes += ROW_BYTES + CELL_BYTES * columns.len();
        for index in 0..columns.len() {
            let value = row.get_ref(index).map_err(|error| explain(error, limits))?;
            if let ValueRef::Text(text) | ValueRef::Blob(text) = value {
                bytes += ALLOCATION + text.len();
            }
            cells.push(owned(value));
        }
        if bytes > limits.bytes {
            return Err(QueryError::TooLarge(limits.bytes));
        }
        found.push(cells);
    }
    Ok(QueryRows {
        columns,
        rows: found,
    })
}

/// An owned value; text that is not UTF-8 gets replacement characters.
fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::Integer(integer),
        ValueRef::Real(real) => Value::Real(real),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Value::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

fn explain(error: rusqlite::Error, limits: QueryLimits) -> QueryError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => return QueryError::TooLong(limits.time),
        Some(ErrorCode::TooBig) => return QueryError::ValueTooLong(limits.value_bytes),
        Some(ErrorCode::AuthorizationForStatementDenied) => return QueryError::NotReading,
        _ => {}
    }
    // A report sees a view in place of each table.
    if error.to_string().starts_with("cannot modify ") {
        return QueryError::NotReading;
    }
    match error {
        Error::MultipleStatement | Error::Empty => QueryError::NotReading,
        Error::SqlInputError { msg, .. } => QueryError::Invalid(msg),
        Error::SqliteFailure(code, Some(text)) if code.code == ErrorCode::Unknown => {
            QueryError::Invalid(text)
        }
        other => QueryError::Store(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{Poll, open, record};

    const LIMITS: QueryLimits = QueryLimits {
        time: Duration::from_secs(30),
        bytes: 10_000,
        value_bytes: 10_000,
    };

    #[tokio::test]
    async fn sqlite_says_which_columns_of_which_tables_a_query_reads() {
        let (dir, store) = open();
        Poll::USUAL.shows(&store, &[record(1, "N")]).await;
        let mut reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
        reader.set_days(&[]).unwrap();
        let mut reads = |sql: &str| {
            let reads = reader.reads(sql, LIMITS).unwrap();
            let mut text: Vec<String> = Vec::new();
            for (table, columns) in &reads.tables {
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                text.push(format!("{table}({})", columns.join(" ")));
            }
            let parameters: Vec<&str> = reads.parameters.iter().map(String::as_str).collect();
            text.join(" ") + &parameters.join(" ")
        };
        for (sql, wanted) in [
            ("SELECT 'leads, days', 1 AS payments -- jobs", ""),
            ("SELECT count(*) FROM LEADS", "leads()"),
            (
                "WITH days AS (SELECT l.Name FROM leads l) SELECT * FROM days",
                "leads(name)",
            ),
            (
                "WITH one AS MATERIALIZED (SELECT stage FROM _job_states) SELECT count(*) FROM one",
                "_job_states(stage) one()",
            ),
            (
                "SELECT 1 FROM (SELECT current_stage AS s FROM report_jobs) WHERE s = 'open'",
                "report_jobs(current_stage)",
            ),
            (
                "SELECT 1 FROM days d JOIN leads ON created_at > d.from_at",
                "days(from_at) leads(created_at)",
            ),
            // What a view reads itself is not asked for by the query.
            ("SELECT id FROM report_jobs", "report_jobs(id)"),
            (
                "SELECT 1 FROM report_jobs WHERE current_stage = 'open'",
                "report_jobs(current_stage)",
            ),
            ("SELECT :from", "from"),
        ] {
            assert_eq!(reads(sql), wanted, "{sql}");
        }
    }

    #[tokio::test]
    async fn reads_at_one_moment_see_one_state() {
        let (dir, store) = open();
        Poll::USUAL.shows(&store, &[record(1, "N")]).await;
        let mut reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
        let count = |reader: &mut Reader| -> Result<usize, QueryError> {
            Ok(reader
                .query("SELECT id FROM leads", &[], LIMITS)?
                .rows
                .len())
        };
        let counts: Result<_, QueryError> = reader.at_one_moment(|reader| {
            let before = count(reader)?;
            let writing = rusqlite::Connection::open(dir.path().join("mirror.db")).unwrap();
            writing.execute_batch("DELETE FROM leads").unwrap();
            Ok((before, count(reader)?))
        });
        assert_eq!(counts.unwrap(), (1, 1));
        assert_eq!(count(&mut reader).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_query_reads_within_its_limits_and_does_nothing_else() {
        let (dir, store) = open();
        let shown: Vec<String> = (1..=5).map(|id| record(id, "N")).collect();
        Poll::USUAL.shows(&store, &shown).await;
        let path = dir.path().join("mirror.db");
        let mut reader = Reader::open(&path).unwrap();
        let mut query = |sql: &str, limits| reader.query(sql, &[("one".into(), 1.into())], limits);

        let some = query("SELECT id, :one AS one FROM leads ORDER BY id", LIMITS).unwrap();
        assert_eq!(some.columns, ["id", "one"]);
        assert_eq!(some.rows.len(), 5);
        assert_eq!(some.rows[0], [Value::Text("1".into()), Value::Integer(1)]);

        for refused in [
            "DELETE FROM leads",
            "SELECT 1; DELETE FROM leads",
            "ATTACH 'other.db' AS other",
            "PRAGMA user_version = 0",
            "",
        ] {
            assert!(
                matches!(query(refused, LIMITS), Err(QueryError::NotReading)),
                "{refused}"
            );
        }
        let unknown = query("SELECT :two", LIMITS);
        assert!(matches!(unknown, Err(QueryError::UnknownParameter(name)) if name == ":two"));
        let invalid = query("SELECT colour FROM leads", LIMITS);
        assert!(matches!(invalid, Err(QueryError::Invalid(text)) if text.contains("colour")));
        // Not the text of that name in each row.
        let misspelt = query("SELECT \"Devce colour\" FROM report_leads", LIMITS);
        assert!(matches!(misspelt, Err(QueryError::Invalid(text)) if text.contains("Devce")));
        let endless =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
        let short = QueryLimits {
            time: Duration::from_millis(50),
            ..LIMITS
        };
        assert!(matches!(query(endless, short), Err(QueryError::TooLong(_))));
        let long = query("SELECT hex(zeroblob(10000))", LIMITS);
        assert!(matches!(long, Err(QueryError::ValueTooLong(_))));
        let pattern = "SELECT 'a' LIKE printf('%.2000c', '_')";
        assert!(matches!(
            query(pattern, LIMITS),
            Err(QueryError::Invalid(_))
        ));
        let many =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        assert!(matches!(query(many, LIMITS), Err(QueryError::TooLarge(_))));
        assert_eq!(
            query("SELECT count(*) FROM leads", LIMITS).unwrap().rows,
            [[5.into()]]
        );
    }
}
