//! How a status change or a payment names its job.
//!
//! The contract does not show that field, so it is recognised by its name, or the configuration
//! names it. It is used once its values are those of mirrored jobs. What was found is in the table
//! `_links`.

use std::fmt;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::second;
use shopmirror_core::record::Route;

use super::quoted;
use crate::store::error::StoreError;
use crate::store::meta;
use crate::store::mirror::field_columns;
use crate::store::reader::Reader;
use crate::store::sightings;
use crate::store::sql::Sql;

/// The routes whose records belong to a job.
pub(in crate::store) const LINKED: [Route; 2] = [Route::JobStatusChanges, Route::Payments];
/// Records and jobs that are compared.
const RECORDS: u32 = 300;
const JOBS: u32 = 2_000;
/// Of fewer jobs of a business nothing says whether it has numbers of its own.
const FEW_JOBS: u32 = 20;
/// Names of fields that name a job, the best first.
const NAMES: [&str; 8] = [
    "job_id",
    "job_number",
    "repair_id",
    "repair_number",
    "ticket_id",
    "ticket_number",
    "work_order_id",
    "work_order_number",
];

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
        write!(
            f,
            "{}.{} is jobs.{}",
            self.route, self.field, self.job_field
        )
    }
}

impl JobLink {
    /// The condition under which the row `child` belongs to the row `job` of the table `jobs`. An
    /// id is text in `jobs` and may be a number in the field.
    pub(in crate::store) fn condition(&self, child: &str, job: &str) -> String {
        let same = self.same(child, job);
        format!("{same} AND {}", in_business_of(child, job))
    }

    /// The condition under which the row `child` has the value of the row `job`, of any business.
    fn same(&self, child: &str, job: &str) -> String {
        let field = format!("{child}.{}", quoted(&self.field));
        match self.job_field.as_str() {
            "id" => format!("{job}.id = CAST({field} AS TEXT)"),
            key => format!("{job}.{} = {field}", quoted(key)),
        }
    }

    /// The same condition, to find the records of a job by an index of the field. The `+` keeps
    /// SQLite from converting the field, which no index has.
    #[must_use]
    pub fn condition_from_job(&self, child: &str, job: &str) -> String {
        if self.job_field != "id" {
            return self.condition(child, job);
        }
        let number = format!("CAST({job}.id AS INTEGER)");
        format!(
            "{child}.{} IN (\
             +{job}.id, +iif(CAST({number} AS TEXT) = {job}.id, {number}, NULL)\
             ) AND {}",
            quoted(&self.field),
            in_business_of(child, job)
        )
    }
}

/// Two businesses may use one number. A job that was moved left its older records where it was.
fn in_business_of(child: &str, job: &str) -> String {
    let own = business_of(child);
    format!(
        "({own} = {} OR EXISTS (SELECT 1 FROM _job_moves m \
         WHERE m.id = {job}.id AND m.business = {own}))",
        business_of(job)
    )
}

/// Notes that a job is now in another business than before.
pub(in crate::store) fn note_move(
    connection: &Connection,
    id: &str,
    business: Option<&str>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT OR IGNORE INTO _job_moves (id, business)
        SELECT j.id, {before}
        FROM jobs j
        WHERE j.id = :id
            AND {before} <> {asked}",
        before = business_of("j"),
        asked = asked_business(),
    );
    connection.run(&sql, named_params! { ":id": id, ":business": business })?;
    Ok(())
}

/// Before a record is written: moves its job along if it is now shown in another business. A job on
/// a newest page is where that page shows it.
pub(in crate::store) fn move_job_along(
    connection: &Connection,
    link: &JobLink,
    id: &str,
    business: Option<&str>,
) -> rusqlite::Result<()> {
    let values = named_params! { ":id": id, ":business": business };
    let jobs: Vec<String> = connection.values(&moved_jobs_sql(link), values)?;
    for job in jobs {
        move_job(connection, &job, business)?;
    }
    Ok(())
}

fn move_job(connection: &Connection, id: &str, business: Option<&str>) -> rusqlite::Result<()> {
    note_move(connection, id, business)?;
    let sql = "
        UPDATE jobs
        SET _business = :business
        WHERE id = :id";
    connection.run(sql, named_params! { ":id": id, ":business": business })?;
    sightings::moved(connection, Route::Jobs, id, business)
}

/// After a record is written: if it names no job of its own business, but one of another business
/// which no page shows any more, that job was moved. A number proves it only while no two businesses
/// use one number.
pub(in crate::store) fn move_job_to(
    connection: &Connection,
    link: &JobLink,
    id: &str,
    business: Option<&str>,
) -> rusqlite::Result<()> {
    let found: Vec<String> =
        connection.values(&jobs_elsewhere_sql(link), named_params! { ":id": id })?;
    let [job] = &found[..] else {
        return Ok(());
    };
    if link.job_field != "id" && may_share_numbers(connection, link, business)? {
        return Ok(());
    }
    move_job(connection, job, business)
}

/// Finds the jobs of other businesses that a record names which names none of its own.
fn jobs_elsewhere_sql(link: &JobLink) -> String {
    format!(
        "SELECT j.id
        FROM \"{route}\" r
        CROSS JOIN jobs j ON {same}
        WHERE r.id = :id
            AND j._last_seen_at IS NOT NULL
            AND j._vanished_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM jobs o WHERE {is_its_job})
        LIMIT 2",
        route = link.route,
        same = link.same("r", "j"),
        is_its_job = link.condition("r", "o"),
    )
}

/// Whether two businesses use one number, or too few jobs of this business are known to say so.
fn may_share_numbers(
    connection: &Connection,
    link: &JobLink,
    business: Option<&str>,
) -> rusqlite::Result<bool> {
    let number = quoted(&link.job_field);
    let sql = format!(
        "SELECT
            (
                SELECT count(*)
                FROM (
                    SELECT 1
                    FROM jobs j
                    WHERE {of_job} = {asked}
                    LIMIT {FEW_JOBS}
                )
            ) < {FEW_JOBS}
            OR EXISTS (
                SELECT 1
                FROM jobs j
                CROSS JOIN jobs o ON o.{number} = j.{number}
                WHERE {of_job} <> {of_other}
            )",
        of_job = business_of("j"),
        of_other = business_of("o"),
        asked = asked_business(),
    );
    connection.value(&sql, named_params! { ":business": business })
}

/// Finds the job of a record that is stored in another business than `:business`, by the record's id.
fn moved_jobs_sql(link: &JobLink) -> String {
    format!(
        "SELECT j.id
        FROM \"{route}\" r
        CROSS JOIN jobs j ON {is_its_job}
        WHERE r.id = :id
            AND j._last_seen_at IS NOT NULL
            AND {before} <> {asked}",
        route = link.route,
        is_its_job = link.condition("r", "j"),
        before = business_of("r"),
        asked = asked_business(),
    )
}

/// A record of the workspace default belongs to the business that answers for it.
fn business_of(row: &str) -> String {
    format!(
        "coalesce({row}._business, (SELECT value FROM _meta WHERE name = '{}'), '')",
        meta::DEFAULT_BUSINESS
    )
}

/// The business `:business`; without one, that of the workspace default.
fn asked_business() -> String {
    format!(
        "coalesce(:business, (SELECT value FROM _meta WHERE name = '{}'), '')",
        meta::DEFAULT_BUSINESS
    )
}

/// The links that were found.
pub(in crate::store) fn read(connection: &Connection) -> rusqlite::Result<Vec<JobLink>> {
    let sql = "
        SELECT route, field, job_field
        FROM _links
        ORDER BY route";
    connection.rows(sql, [])
}

/// The link of a route, if one was found.
pub(in crate::store) fn of_route(
    connection: &Connection,
    route: Route,
) -> rusqlite::Result<Option<JobLink>> {
    let sql = "
        SELECT route, field, job_field
        FROM _links
        WHERE route = :route";
    connection.row(sql, named_params! { ":route": route.as_str() })
}

impl Reader {
    /// How the records of other routes name their job, as far as it was found.
    pub fn job_links(&self) -> Result<Vec<JobLink>, StoreError> {
        Ok(read(&self.connection)?)
    }

    /// The routes with records in the mirror whose records do not name their job, as far as is known.
    pub fn unlinked_routes(&self) -> Result<Vec<Route>, StoreError> {
        let links = read(&self.connection)?;
        let mut unlinked = Vec::new();
        for route in LINKED {
            if links.iter().any(|link| link.route == route) {
                continue;
            }
            if self.has_records(route)? {
                unlinked.push(route);
            }
        }
        Ok(unlinked)
    }

    /// When jobs that are not in the mirror were completed by a status change in this time, the
    /// earliest first: one text for each job, none if no field is known to name it. `business` is
    /// the one to report on, `default` the workspace's own.
    pub fn unknown_jobs_completed(
        &self,
        from: Timestamp,
        to: Timestamp,
        business: Option<&str>,
        default: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        let Some(link) = of_route(&self.connection, Route::JobStatusChanges)? else {
            return Ok(Vec::new());
        };
        let sql = format!(
            "SELECT max(r._created_at) AS at
            FROM job_status_changes r
            WHERE r._created_at >= :from
                AND r._created_at < :to
                AND +r.status_stage = 'completed'
                AND r.{field} IS NOT NULL
                AND (:business IS NULL OR coalesce(r._business, :default) = :business)
                AND NOT EXISTS (SELECT 1 FROM main.jobs j WHERE {is_its_job})
            GROUP BY r.{field}
            ORDER BY at",
            is_its_job = link.condition("r", "j"),
            field = quoted(&link.field),
        );
        let values = named_params! {
            ":from": second(from),
            ":to": second(to),
            ":business": business,
            ":default": default,
        };
        Ok(self.connection.values(&sql, values)?)
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
        "no field of {route} is known to name its job, so {what} are as last seen: set `[reports] \
         job_link` to that field"
    )
}

/// Searches for the links that are missing or that the configuration overrules, and stores those
/// that it finds; returns whether a link is another one now. `configured` is the field that the
/// configuration names.
pub(in crate::store) fn refresh(
    connection: &Connection,
    configured: Option<&str>,
) -> rusqlite::Result<bool> {
    let jobs = field_columns(connection, Route::Jobs)?;
    let before = read(connection)?;
    for route in LINKED {
        let fields = field_columns(connection, route)?;
        // A configured field counts for the routes that have it.
        let mut candidates = match configured {
            Some(name) if fields.iter().any(|field| field == name) => vec![name],
            _ => NAMES.to_vec(),
        };
        let is_linked = before
            .iter()
            .any(|link| link.route == route && candidates.contains(&link.field.as_str()));
        if is_linked {
            continue;
        }
        connection.run(
            "DELETE FROM _links WHERE route = :route",
            named_params! { ":route": route.as_str() },
        )?;
        candidates.retain(|name| fields.iter().any(|field| field == name));
        if let Some(link) = find(connection, route, &candidates, &jobs)? {
            connection.run(
                "INSERT INTO _links (route, field, job_field)
                VALUES (:route, :field, :job_field)",
                named_params! {
                    ":route": route.as_str(),
                    ":field": link.field,
                    ":job_field": link.job_field,
                },
            )?;
        }
    }
    Ok(read(connection)? != before)
}

/// The first of the links that the newest records of a route confirm.
fn find(
    connection: &Connection,
    route: Route,
    fields: &[&str],
    jobs: &[String],
) -> rusqlite::Result<Option<JobLink>> {
    for field in fields {
        for link in links_by(route, field, jobs) {
            if connection.value(&is_link_sql(&link), [])? {
                return Ok(Some(link));
            }
        }
    }
    Ok(None)
}

/// How a field may name a job, the best first: by the field of jobs with the same name, by another
/// number, or by its id.
fn links_by(route: Route, field: &str, jobs: &[String]) -> Vec<JobLink> {
    let mut keys = vec![field];
    for name in NAMES {
        if name.ends_with("_number") && name != field {
            keys.push(name);
        }
    }
    keys.retain(|key| jobs.iter().any(|column| column == key));
    keys.push("id");
    let mut links = Vec::new();
    for key in keys {
        links.push(JobLink {
            route,
            field: field.to_owned(),
            job_field: key.to_owned(),
        });
    }
    links
}

/// Whether the newest records name jobs by this link, each one job: a value that several jobs share
/// identifies none.
fn is_link_sql(link: &JobLink) -> String {
    format!(
        "SELECT count(*) > 0 AND count(*) = count(DISTINCT r.id)
        FROM (SELECT * FROM \"{}\" ORDER BY _seq DESC LIMIT {RECORDS}) r
        JOIN (SELECT * FROM jobs ORDER BY _seq DESC LIMIT {JOBS}) j ON {}",
        link.route,
        link.condition("r", "j")
    )
}

/// Finds the jobs of the record `:id` of a linked route: several if they have the same number.
pub(in crate::store) fn find_jobs_sql(link: &JobLink) -> String {
    format!(
        "SELECT j.id
        FROM \"{}\" r
        JOIN jobs j ON {}
        WHERE r.id = :id",
        link.route,
        link.condition("r", "j")
    )
}

/// The job that is shown with a record of a linked route.
pub(in crate::store) fn job_of(
    connection: &Connection,
    link: &JobLink,
    id: &str,
) -> rusqlite::Result<Option<String>> {
    let sql = format!("{} LIMIT 1", find_jobs_sql(link));
    connection
        .value(&sql, named_params! { ":id": id })
        .optional()
}

#[cfg(test)]
mod tests {
    use crate::store::fixtures::{self, Poll, page};
    use crate::store::{Reader, Store};
    use shopmirror_core::record::{PollerId, Route};

    /// The link that is found if payments have these fields, and jobs these numbers and ids from 1
    /// on.
    async fn found(numbers: &[&str], payment: &str, configured: Option<&str>) -> Option<String> {
        let (_dir, store) = fixtures::open();
        store
            .link_jobs(configured.map(str::to_owned))
            .await
            .unwrap();
        let number = |(id, number)| format!(r#"{{"id":{id},"job_number":"{number}"}}"#);
        let jobs = (1..).zip(numbers).map(number).collect();
        let payments = vec![format!(r#"{{"id":900,{payment}}}"#)];
        for (route, shown) in [(Route::Jobs, jobs), (Route::Payments, payments)] {
            let (id, facts) = (
                PollerId {
                    route,
                    business: None,
                },
                Poll::USUAL.facts(&store),
            );
            store
                .store_page(id, page(&shown), facts, None)
                .await
                .unwrap();
        }
        let links = store.read(Reader::job_links).await.unwrap();
        links
            .first()
            .map(|link| format!("{} is {}", link.field, link.job_field))
    }

    #[tokio::test]
    async fn a_field_names_its_job_by_its_name_or_by_the_configuration_if_its_value_is_that_of_one_job()
     {
        let numbers = ["R-1", "R-2", "R-2"];
        let found = async |payment, configured| found(&numbers, payment, configured).await;
        let by_number = r#""job_number":"R-1","job_id":7"#;
        assert_eq!(
            found(by_number, None).await.unwrap(),
            "job_number is job_number"
        );
        assert_eq!(
            found(r#""job_number":"R-1","job_id":2"#, None)
                .await
                .unwrap(),
            "job_id is id"
        );
        let ticket = r#""ticket_number":"R-1""#;
        assert_eq!(
            found(ticket, None).await.unwrap(),
            "ticket_number is job_number"
        );
        assert_eq!(
            found(r#""job_number":"R-2""#, None).await,
            None,
            "R-2 tells no job"
        );
        let reference = r#""reference":"R-1","job_number":null"#;
        assert_eq!(found(reference, None).await, None);
        assert_eq!(
            found(reference, Some("reference")).await.unwrap(),
            "reference is job_number"
        );
        assert_eq!(
            found(reference, Some("id")).await,
            None,
            "no job has this id"
        );
    }

    /// Stores a page of a business.
    async fn show(
        store: &Store,
        route: Route,
        business: &'static str,
        second: i64,
        records: &[String],
    ) {
        let poll = Poll {
            business: Some(business),
            served: Some(business),
            ..Poll::at(second)
        };
        poll.shows_of(store, route, records).await;
    }

    #[tokio::test]
    async fn a_job_that_was_moved_keeps_the_status_changes_that_it_left_behind() {
        let (_dir, store) = fixtures::open();
        let shows = async |route, business, second, records: Vec<String>| {
            show(&store, route, business, second, &records).await;
        };
        let job = |id: i64| {
            format!(r#"{{"id":{id},"job_number":"R-{id}","status":"Ready","status_stage":"open"}}"#)
        };
        let since = async || {
            let state = store.read(|reader| reader.job_state("7")).await.unwrap();
            state.unwrap().since
        };
        shows(Route::Jobs, "1", 0, vec![job(8), job(7)]).await;
        shows(Route::Jobs, "2", 1, vec![job(9)]).await;
        let ready = r#"{"id":1,"job_number":"R-7","status":"Ready","status_stage":"open",
            "created_at":"2026-03-01T10:00:00Z"}"#;
        shows(Route::JobStatusChanges, "1", 2, vec![ready.to_owned()]).await;
        let at = Some("2026-03-01T10:00:00.000000Z".to_owned());
        assert_eq!(since().await, at);
        // Without an edit.
        shows(Route::Jobs, "2", 60, vec![job(9), job(7)]).await;
        assert_eq!(since().await, at);
        let business_of = async |id: &'static str| {
            let record = store.read(|reader| reader.record(Route::Jobs, id)).await;
            record.unwrap().unwrap()["_business"].clone()
        };
        assert_eq!(business_of("7").await, "2");

        // Another one is on no page any more when its status changes appear in the other business.
        let change = |id: i64, status: &str, stage: &str| {
            format!(
                r#"{{"id":{id},"job_number":"R-8","status":"{status}","status_stage":"{stage}",
                    "created_at":"2026-03-0{id}T10:00:00Z"}}"#
            )
        };
        let ready = change(2, "Ready", "open");
        shows(Route::JobStatusChanges, "1", 61, vec![ready.clone()]).await;
        shows(Route::Jobs, "1", 62, vec![job(21), job(20)]).await;
        shows(Route::JobStatusChanges, "2", 63, vec![ready.clone()]).await;
        assert_eq!(business_of("8").await, "2");
        let collected = change(3, "Collected", "completed");
        let both = vec![collected, ready];
        shows(Route::JobStatusChanges, "2", 64, both).await;
        let state = store.read(|reader| reader.job_state("8")).await.unwrap();
        assert_eq!(state.unwrap().status.as_deref(), Some("Collected"));
    }

    #[tokio::test]
    async fn a_job_that_only_a_record_of_another_business_names_was_moved_there() {
        for (number_of_other, business) in [(500, "2"), (30, "1")] {
            let (_dir, store) = fixtures::open();
            let shows = async |route, business, second, records: Vec<String>| {
                show(&store, route, business, second, &records).await;
            };
            let job = |id: i64, number: i64| {
                format!(
                    r#"{{"id":{id},"job_number":"R-{number}","status":"Ready","status_stage":"open"}}"#
                )
            };
            let change = |id: i64, number: i64| {
                format!(
                    r#"{{"id":{id},"job_number":"R-{number}","status":"Ready","status_stage":"open",
                        "created_at":"2026-03-01T10:00:00Z"}}"#
                )
            };
            shows(Route::Jobs, "1", 0, vec![job(7, 7)]).await;
            shows(Route::JobStatusChanges, "1", 1, vec![change(1, 7)]).await;
            let newer = (20..40).rev().map(|id| job(id, id)).collect();
            shows(Route::Jobs, "1", 2, newer).await;
            let others = (0..20)
                .rev()
                .map(|nth| job(100 + nth, number_of_other + nth));
            shows(Route::Jobs, "2", 3, others.collect()).await;
            shows(Route::JobStatusChanges, "2", 4, vec![change(9, 7)]).await;
            let record = store.read(|reader| reader.record(Route::Jobs, "7")).await;
            assert_eq!(record.unwrap().unwrap()["_business"], business);
        }
    }
}
