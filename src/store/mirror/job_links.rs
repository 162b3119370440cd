//! How a status change or a payment names its job.
//!
//! The contract does not show that field, so it is found in the data: a field whose values are the id or a
//! number of mirrored jobs. The configuration may name it. What was found is in the table `_links`.

use std::fmt;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::quoted;
use crate::clock::second;
use crate::record::Route;
use crate::store::error::StoreError;
use crate::store::meta;
use crate::store::mirror::field_columns;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The routes whose records belong to a job.
pub(in crate::store) const LINKED: [Route; 2] = [Route::JobStatusChanges, Route::Payments];
/// Rows of a linked route that are looked at.
const SAMPLE: i64 = 300;
/// Jobs that are looked at.
const JOBS: i64 = 2_000;
/// Fields of a linked route that may name its job; wider tables are looked at up to here.
const MAX_FIELDS: usize = 64;
/// The row of `_meta` with the field that the configuration names.
const CONFIGURED: &str = "job_link";

/// How the records of a route name their job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobLink {
    /// `job_status_changes` or `payments`.
    pub route: Route,
    /// The field of the route.
    pub field: String,
    /// The field of jobs that has the same value.
    pub job_field: String,
}

impl fmt::Display for JobLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} is jobs.{}", self.route, self.field, self.job_field)
    }
}

impl JobLink {
    /// The condition under which the row `child` belongs to the row `job` of the table `jobs`. An id is text in
    /// `jobs` and may be a number in the field.
    pub(in crate::store) fn condition(&self, child: &str, job: &str) -> String {
        let field = format!("{child}.{}", quoted(&self.field));
        let same = match self.job_field.as_str() {
            "id" => format!("{job}.id = CAST({field} AS TEXT)"),
            key => format!("{job}.{} = {field}", quoted(key)),
        };
        format!("{same} AND {}", in_same_business(child, job))
    }

    /// The same for the look from a job to its records, by an index of the field. The `+` keeps SQLite from
    /// converting the field, which no index has.
    #[must_use]
    pub fn condition_from_job(&self, child: &str, job: &str) -> String {
        if self.job_field != "id" {
            return self.condition(child, job);
        }
        let number = format!("CAST({job}.id AS INTEGER)");
        format!(
            "{child}.{} IN (+{job}.id, +iif(CAST({number} AS TEXT) = {job}.id, {number}, NULL)) AND {}",
            quoted(&self.field),
            in_same_business(child, job)
        )
    }
}

/// Two businesses may use one number. A record of the workspace default is of the business that answers for it.
fn in_same_business(child: &str, job: &str) -> String {
    let of = |row: &str| {
        format!(
            "coalesce({row}._business, (SELECT value FROM _meta WHERE name = '{}'), '')",
            meta::DEFAULT_BUSINESS
        )
    };
    format!("{} = {}", of(child), of(job))
}

/// The links that were found.
pub(in crate::store) fn read(connection: &Connection) -> rusqlite::Result<Vec<JobLink>> {
    connection.rows("SELECT route, field, job_field FROM _links ORDER BY route", [])
}

/// Takes the field that the configuration names, unless it is that of before, and looks for the links
/// again. Returns whether it is another one; `None` lets it be found in the data.
pub(in crate::store) fn configure(
    connection: &Connection,
    field: Option<&str>,
) -> rusqlite::Result<bool> {
    if meta::value(connection, CONFIGURED)?.as_deref() == field {
        return Ok(false);
    }
    match field {
        Some(field) => meta::set(connection, CONFIGURED, field)?,
        None => meta::remove(connection, CONFIGURED)?,
    }
    connection.execute("DELETE FROM _links", [])?;
    look(connection)?;
    Ok(true)
}

/// The link of a route, if one was found.
pub(in crate::store) fn of_route(
    connection: &Connection,
    route: Route,
) -> rusqlite::Result<Option<JobLink>> {
    Ok(read(connection)?.into_iter().find(|link| link.route == route))
}

impl Reader {
    /// How the records of other routes name their job, as far as it was found.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn job_links(&self) -> Result<Vec<JobLink>, StoreError> {
        Ok(read(&self.connection)?)
    }

    /// The routes of which records are mirrored that name no job, as far as is known.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn unlinked_routes(&self) -> Result<Vec<Route>, StoreError> {
        let links = read(&self.connection)?;
        let mut unlinked = Vec::new();
        for route in LINKED.into_iter().filter(|route| !links.iter().any(|l| l.route == *route)) {
            let sql = format!("SELECT EXISTS (SELECT 1 FROM \"{route}\")");
            if self.connection.value(&sql, [])? {
                unlinked.push(route);
            }
        }
        Ok(unlinked)
    }

    /// How many jobs that are not in the mirror a status change completed in a time, by the field that names
    /// them; 0 if no field is known to. `business` is the one asked for and `default` the workspace's own.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn unknown_jobs_completed(
        &self,
        from: Timestamp,
        to: Timestamp,
        business: Option<&str>,
        default: Option<&str>,
    ) -> Result<i64, StoreError> {
        let Some(link) = of_route(&self.connection, Route::JobStatusChanges)? else {
            return Ok(0);
        };
        let sql = format!(
            "SELECT count(DISTINCT r.{field}) FROM job_status_changes r \
             WHERE r.created_at >= ?1 AND r.created_at < ?2 AND +r.status_stage = 'completed' \
             AND r.{field} IS NOT NULL AND (?3 IS NULL OR coalesce(r._business, ?4) = ?3) \
             AND NOT EXISTS (SELECT 1 FROM jobs j WHERE {})",
            link.condition("r", "j"),
            field = quoted(&link.field),
        );
        Ok(self.connection.value(&sql, (second(from), second(to), business, default))?)
    }
}

/// What reports show as it was last seen, because no field of a route names its job.
#[must_use]
pub fn missing_link(route: Route) -> String {
    let what = match route {
        Route::Payments => "paid sums",
        _ => "the states of jobs",
    };
    format!(
        "no field of {route} is known to name its job, so {what} are as last seen: set `[reports] job_link` to that field"
    )
}

/// Looks for the links that are missing or that the configuration overrules, and stores those that it finds; whether
/// a link is another one now.
pub(in crate::store) fn look(connection: &Connection) -> rusqlite::Result<bool> {
    let configured = meta::value(connection, CONFIGURED)?;
    let known = read(connection)?;
    for route in LINKED {
        let mut fields = field_columns(connection, route)?;
        // A field that is named is that of the routes that have it.
        let named = configured.as_ref().filter(|name| fields.contains(name));
        let is_known =
            |link: &JobLink| link.route == route && named.is_none_or(|name| link.field == *name);
        if known.iter().any(is_known) {
            continue;
        }
        connection.run("DELETE FROM _links WHERE route = ?1", [route.as_str()])?;
        fields.retain(|name| named.map_or_else(|| may_name_a_job(name), |named| named == name));
        fields.truncate(MAX_FIELDS);
        let keys = field_columns(connection, Route::Jobs)?.into_iter();
        let keys: Vec<String> =
            keys.filter(|name| is_job_key(name)).chain(["id".to_owned()]).collect();
        if let Some((field, job_field)) = best(connection, route, &fields, &keys, named.is_some())?
        {
            connection.run(
                "INSERT INTO _links (route, field, job_field) VALUES (?1, ?2, ?3)",
                (route.as_str(), field, job_field),
            )?;
        }
    }
    Ok(read(connection)? != known)
}

/// The newest values of a column, each with the business in which it means something; neither NULL nor fractions.
fn sample(table: Route, column: &str, as_text: bool, most: i64) -> String {
    let column = quoted(column);
    let value = if as_text { format!("CAST({column} AS TEXT)") } else { column.clone() };
    format!(
        "SELECT coalesce(_business, '') AS b, {value} AS v FROM \"{table}\" \
         WHERE typeof({column}) IN ('text', 'integer') ORDER BY _seq DESC LIMIT {most}"
    )
}

/// Whether a field of a job can tell jobs apart by its name: a number or a code of the job itself.
fn is_job_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let of_others = ["mobile", "phone", "serial", "imei", "country", "zip", "post", "customer"];
    ["number", "_no", "_nr", "_code", "_ref", "reference", "ticket"]
        .iter()
        .any(|end| name.ends_with(end))
        && !of_others.iter().any(|part| name.contains(part))
}

/// Whether a field's name says that it names a job.
fn is_named_for_jobs(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["job", "repair", "ticket", "work_order"].iter().any(|word| name.contains(word))
}

fn may_name_a_job(name: &str) -> bool {
    let ends =
        ["_at", "_on", "_date", "_time", "amount", "cost", "price", "total", "status", "stage"];
    !name.starts_with('_') && !ends.iter().any(|end| name.ends_with(end))
}

/// The field and the job's field whose values meet most often. Many records name jobs that are older than
/// the mirror, so a field that is named for it needs a quarter of its values only; any other nearly all.
fn best<'a>(
    connection: &Connection,
    route: Route,
    fields: &'a [String],
    keys: &'a [String],
    is_configured: bool,
) -> rusqlite::Result<Option<(&'a str, &'a str)>> {
    let mut possible = Vec::new();
    for key in keys {
        // An id is text in `jobs` and may be a number in the field.
        let is_id = key == "id";
        let jobs = sample(Route::Jobs, key, is_id, JOBS);
        // A value that several jobs share tells no job.
        let are_different =
            format!("SELECT count(*) = count(DISTINCT b || char(31) || v) FROM ({jobs})");
        if !connection.value(&are_different, [])? {
            continue;
        }
        for field in fields {
            let (values, matched, distinct): (i64, i64, i64) = connection.query_row(
                &format!(
                    "WITH s AS MATERIALIZED (SELECT b, v, (b, v) IN (SELECT b, v FROM ({jobs})) AS met FROM ({})) \
                     SELECT count(*), count(*) FILTER (WHERE met), \
                     count(DISTINCT b || char(31) || v) FILTER (WHERE met) FROM s",
                    sample(route, field, is_id, SAMPLE)
                ),
                [],
                |row| row.try_into(),
            )?;
            let is_named = is_configured || is_named_for_jobs(field);
            let is_enough = match is_named {
                true => matched > 0 && matched * 4 >= values,
                false => matched >= 20 && distinct >= 10 && matched * 20 >= values * 19,
            };
            if is_enough {
                // Small numbers meet by chance, so the name goes before how many values meet.
                let is_namesake = field == key || (is_id && field.ends_with("_id"));
                possible.push((is_named, is_namesake, matched, field.as_str(), key.as_str()));
            }
        }
    }
    Ok(possible.into_iter().max().map(|(.., field, key)| (field, key)))
}

/// The job of a record of a linked route.
pub(in crate::store) fn job_of(
    connection: &Connection,
    link: &JobLink,
    id: &str,
) -> rusqlite::Result<Option<String>> {
    let sql = format!(
        "SELECT j.id FROM \"{}\" r JOIN jobs j ON {} WHERE r.id = ?1 LIMIT 1",
        link.route,
        link.condition("r", "j")
    );
    connection.value(&sql, [id]).optional()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// The link that is found if payments have these values in a field, and jobs these numbers and ids from 1 on.
    fn found(
        jobs: &[i64],
        field: &str,
        values: Range<i64>,
        is_configured: bool,
    ) -> Option<(String, String)> {
        let connection = Connection::open_in_memory().unwrap();
        let tables = format!(
            "CREATE TABLE jobs (id TEXT, job_number, _business, _seq); \
             CREATE TABLE payments ({field}, _business, _seq);"
        );
        connection.execute_batch(&tables).unwrap();
        for (seq, number) in (1..).zip(jobs) {
            let job = (seq, number);
            connection.execute("INSERT INTO jobs VALUES (?1, ?2, NULL, ?1)", job).unwrap();
        }
        for value in values {
            connection.execute("INSERT INTO payments VALUES (?1, NULL, ?1)", [value]).unwrap();
        }
        let (fields, keys) = ([field.to_owned()], ["job_number", "id"].map(str::to_owned));
        let best = best(&connection, Route::Payments, &fields, &keys, is_configured).unwrap();
        best.map(|(field, key)| (field.to_owned(), key.to_owned()))
    }

    #[test]
    fn a_field_that_is_named_for_jobs_is_found_although_most_of_its_jobs_are_older_than_the_mirror()
    {
        let numbers: Vec<i64> = (1_100..1_200).collect();
        let key = |field, values| found(&numbers, field, values, false).map(|(_, key)| key);
        assert_eq!(key("job_number", 1_010..1_130).as_deref(), Some("job_number"));
        assert_eq!(key("reference", 1_010..1_130), None, "30 of 120 are no proof");
        assert_eq!(key("job_id", 50..150).as_deref(), Some("id"));
        assert_eq!(key("reference", 1_110..1_180).as_deref(), Some("job_number"));
        assert_eq!(found(&[7, 7, 8], "job_number", 7..9, false), None, "7 tells no job");
        assert!(found(&numbers, "note", 1_105..1_106, true).is_some());
    }
}
