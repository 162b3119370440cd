//! Which records belong together: a repair with its status changes, payments, outsourced work and
//! customer.

use rusqlite::OptionalExtension;
use serde::Deserialize;
use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::mirror::job_links::{self, JobLink};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// By which a record of a route without a link names its job.
const NUMBER: &str = "job_number";

/// The conditions under which a record is of a customer, the best first; `has` tells whether both
/// tables have a column.
pub(in crate::store) fn same_contact(
    record: &str,
    customer: &str,
    has: impl Fn(&str) -> bool,
) -> Vec<String> {
    let code = "mobile_country_code";
    let same_code = format!(" AND {customer}.{code} IS {record}.{code}");
    let contacts = [
        (
            "mobile_number",
            if has(code) { same_code.as_str() } else { "" },
        ),
        ("email", ""),
    ];
    let contacts = contacts.into_iter().filter(|(field, _)| has(field));
    let same = |(field, and): (&str, &str)| {
        format!("{customer}.{field} = {record}.{field} AND {record}.{field} <> ''{and}")
    };
    contacts.map(same).collect()
}

/// A record that belongs to another one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RelatedRecord {
    /// Its id.
    pub id: String,
    /// Its JSON text as received.
    pub body: String,
}

impl Reader {
    /// The job of a record, if one is known.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn job_of(&self, route: Route, id: &str) -> Result<Option<String>, StoreError> {
        match self.job_link(route)? {
            Some(link) => Ok(job_links::job_of(&self.connection, &link, id)?),
            None => Ok(None),
        }
    }

    /// The records of a route that belong to a job, the last that came first, at most `most`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn records_of_job(
        &self,
        route: Route,
        job: &str,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        let Some(link) = self.job_link(route)? else {
            return Ok(Vec::new());
        };
        let of_job = link.condition_from_job("r", "j");
        self.related(
            &format!("jobs j CROSS JOIN \"{route}\" r ON {of_job}"),
            "j.id",
            job,
            most,
        )
    }

    /// The customer with the mobile number, else the e-mail address, of a record.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn customer_of(&self, route: Route, id: &str) -> Result<Option<String>, StoreError> {
        for same in self.same_contact(route)? {
            let sql = format!(
                "SELECT c.id FROM \"{route}\" r CROSS JOIN customers c ON {same} WHERE r.id = ?1 \
                 ORDER BY c.rowid LIMIT 1"
            );
            if let Some(customer) = self.connection.value(&sql, [id]).optional()? {
                return Ok(Some(customer));
            }
        }
        Ok(None)
    }

    /// The records of a route with the mobile number, else the e-mail address, of a customer, the
    /// last that came first, at most `most`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn records_of_customer(
        &self,
        route: Route,
        customer: &str,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        for same in self.same_contact(route)? {
            let from = format!("customers c CROSS JOIN \"{route}\" r ON {same}");
            let found = self.related(&from, "c.id", customer, most)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    fn related(
        &self,
        from: &str,
        id_column: &str,
        id: &str,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT r.id, h.body FROM {from} CROSS JOIN changes h ON h.seq = r._seq \
             WHERE {id_column} = ?1 ORDER BY r.rowid DESC LIMIT ?2"
        );
        Ok(self.connection.rows(&sql, (id, most))?)
    }

    /// How a route names its job: as was found in the data, else by the number of the job.
    fn job_link(&self, route: Route) -> Result<Option<JobLink>, StoreError> {
        if let Some(link) = job_links::of_route(&self.connection, route)? {
            return Ok(Some(link));
        }
        let has_number = route == Route::OutsourcedJobs
            && self.has(route, NUMBER)?
            && self.has(Route::Jobs, NUMBER)?;
        let (field, job_field) = (NUMBER.to_owned(), NUMBER.to_owned());
        Ok(has_number.then_some(JobLink {
            route,
            field,
            job_field,
        }))
    }

    fn same_contact(&self, route: Route) -> Result<Vec<String>, StoreError> {
        let tables = [self.columns(route)?, self.columns(Route::Customers)?];
        let has = |field: &str| {
            tables
                .iter()
                .all(|table| table.iter().any(|name| name == field))
        };
        Ok(same_contact("r", "c", has))
    }

    fn has(&self, route: Route, column: &str) -> Result<bool, StoreError> {
        Ok(self.columns(route)?.iter().any(|known| known == column))
    }
}
