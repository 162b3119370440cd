//! How a status change or a payment names its job.
//!
//! The contract does not show that field, so it is found in the data: a field whose values are the id or a
//! number of mirrored jobs. The configuration may name it. What was found is in the table `_links`.

use std::collections::HashSet;
use std::fmt;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::quoted;
use crate::record::Route;
use crate::store::error::StoreError;
use crate::store::reader::Reader;
use crate::store::{meta, mirror};

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
    let mut statement =
        connection.prepare_cached("SELECT route, field, job_field FROM _links ORDER BY route")?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    let mut links = Vec::new();
    for row in rows {
        let (route, field, job_field) = row?;
        if let Ok(route) = route.parse() {
            links.push(JobLink { route, field, job_field });
        }
    }
    Ok(links)
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
            if self.connection.query_row(&sql, [], |row| row.get(0))? {
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
        from_at: &str,
        to_at: &str,
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
        let parameters = (from_at, to_at, business, default);
        Ok(self.connection.query_row(&sql, parameters, |row| row.get(0))?)
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

/// Looks for the links that are missing and stores those that it finds; whether a link is another one now.
pub(in crate::store) fn look(connection: &Connection) -> rusqlite::Result<bool> {
    let configured = meta::value(connection, CONFIGURED)?;
    let (mut missing, mut has_changed) = (LINKED.to_vec(), false);
    for link in read(connection)? {
        let is_overruled = match &configured {
            Some(field) => {
                link.field != *field
                    && mirror::field_columns(connection, link.route)?.contains(field)
            }
            None => false,
        };
        if is_overruled {
            connection.execute("DELETE FROM _links WHERE route = ?1", [link.route.as_str()])?;
            has_changed = true;
        } else {
            missing.retain(|route| *route != link.route);
        }
    }
    if missing.is_empty() {
        return Ok(false);
    }
    let mut jobs = Vec::new();
    for field in
        mirror::field_columns(connection, Route::Jobs)?.into_iter().filter(|name| is_job_key(name))
    {
        jobs.push((field.clone(), values(connection, Route::Jobs, &field, JOBS)?));
    }
    jobs.push(("id".to_owned(), values(connection, Route::Jobs, "id", JOBS)?));
    for route in missing {
        let fields = mirror::field_columns(connection, route)?;
        // A field that is named is that of the routes that have it.
        let configured = configured.as_ref().filter(|name| fields.contains(name));
        let fields = fields.iter().filter(|name| match configured {
            Some(configured) => *name == configured,
            None => may_name_a_job(name),
        });
        let mut candidates = Vec::new();
        for field in fields.take(MAX_FIELDS) {
            let values = values(connection, route, field, SAMPLE)?;
            candidates.push((field.clone(), values));
        }
        if let Some((field, job_field)) = best(&candidates, &jobs, configured.is_some()) {
            connection.execute(
                "INSERT INTO _links (route, field, job_field) VALUES (?1, ?2, ?3)",
                (route.as_str(), field, job_field),
            )?;
            has_changed = true;
        }
    }
    Ok(has_changed)
}

/// A value with the business in which it means something.
type Value = (String, Key);

/// Two values of a field are the same only if they have one type; an id is compared as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Integer(i64),
}

/// The newest values of a column; neither NULL nor fractions.
fn values(
    connection: &Connection,
    route: Route,
    column: &str,
    most: i64,
) -> rusqlite::Result<Vec<Value>> {
    let column = quoted(column);
    let mut statement = connection.prepare(&format!(
        "SELECT coalesce(_business, ''), {column} FROM \"{route}\" \
         WHERE {column} IS NOT NULL ORDER BY _seq DESC LIMIT ?1"
    ))?;
    let mut rows = statement.query([most])?;
    let mut values = Vec::new();
    while let Some(row) = rows.next()? {
        let key = match row.get_ref(1)? {
            ValueRef::Text(text) => Key::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Integer(number) => Key::Integer(number),
            _ => continue,
        };
        values.push((row.get(0)?, key));
    }
    Ok(values)
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
    candidates: &'a [(String, Vec<Value>)],
    jobs: &'a [(String, Vec<Value>)],
    is_configured: bool,
) -> Option<(&'a str, &'a str)> {
    let mut possible = Vec::new();
    for (job_field, of_jobs) in jobs {
        let is_id = job_field == "id";
        let known: HashSet<Value> = of_jobs.iter().map(|value| comparable(value, is_id)).collect();
        // A value that several jobs share tells no job.
        if known.len() < of_jobs.len() {
            continue;
        }
        for (field, values) in candidates {
            let (matched, distinct) = met(values, &known, is_id);
            let is_named = is_configured || is_named_for_jobs(field);
            let is_enough = match is_named {
                true => matched > 0 && matched * 4 >= values.len(),
                false => matched >= 20 && distinct >= 10 && matched * 20 >= values.len() * 19,
            };
            if is_enough {
                // Small numbers meet by chance, so the name goes before how many values meet.
                let is_namesake = field == job_field || (is_id && field.ends_with("_id"));
                possible.push((is_named, is_namesake, matched, field, job_field));
            }
        }
    }
    let (.., field, job_field) = possible.into_iter().max()?;
    Some((field, job_field))
}

/// How many of the values are those of a job, and how many different ones.
fn met(values: &[Value], jobs: &HashSet<Value>, is_id: bool) -> (usize, usize) {
    let of_jobs = values.iter().map(|value| comparable(value, is_id));
    let met: Vec<Value> = of_jobs.filter(|value| jobs.contains(value)).collect();
    (met.len(), met.iter().collect::<HashSet<_>>().len())
}

fn comparable((business, key): &Value, is_id: bool) -> Value {
    let key = match key {
        Key::Integer(number) if is_id => Key::Text(number.to_string()),
        other => other.clone(),
    };
    (business.clone(), key)
}

/// The job of a record of a linked route.
pub(in crate::store) fn job_of(
    connection: &Connection,
    link: &JobLink,
    id: &str,
) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached(&format!(
            "SELECT j.id FROM \"{}\" r JOIN jobs j ON {} WHERE r.id = ?1 LIMIT 1",
            link.route,
            link.condition("r", "j")
        ))?
        .query_row([id], |row| row.get(0))
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, values: &[i64]) -> (String, Vec<Value>) {
        let values = values.iter().map(|number| (String::new(), Key::Integer(*number)));
        (name.to_owned(), values.collect())
    }

    fn range(name: &str, values: std::ops::Range<i64>) -> (String, Vec<Value>) {
        of(name, &values.collect::<Vec<_>>())
    }

    #[test]
    fn a_field_that_is_named_for_jobs_is_found_although_most_of_its_jobs_are_older_than_the_mirror()
    {
        let jobs = [range("job_number", 100..200), range("id", 1..100)];
        let named = [range("job_number", 10..130)];
        assert_eq!(best(&named, &jobs, false), Some(("job_number", "job_number")));
        let other = [range("reference", 10..130)];
        assert_eq!(best(&other, &jobs, false), None, "90 of 120 are no proof");
        let by_id = [range("job_id", 50..150)];
        assert_eq!(best(&by_id, &jobs, false), Some(("job_id", "id")));
        let unnamed = [range("reference", 110..180)];
        assert_eq!(best(&unnamed, &jobs, false), Some(("reference", "job_number")));
        let shared = [of("job_number", &[7, 7, 8])];
        assert_eq!(best(&[range("job_number", 7..9)], &shared, false), None, "7 tells no job");
        assert_eq!(best(&[of("note", &[105])], &jobs, true), Some(("note", "job_number")));
    }
}
