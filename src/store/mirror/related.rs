//! Which records belong together: a repair with its status changes, payments, outsourced work and
//! customer.

use rusqlite::{OptionalExtension, named_params};
use serde::Deserialize;
use shopmirror_core::reading::PaymentKind;
use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::mirror::job_links::{self, JobLink};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The field by which a record of a route without a link names its job.
const NUMBER: &str = "job_number";

/// The conditions under which a record belongs to a customer, the best first; `has` returns whether
/// both tables have a column.
pub(in crate::store) fn same_contact(
    record: &str,
    customer: &str,
    has: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut conditions = Vec::new();
    for field in ["mobile_number", "email"] {
        if !has(field) {
            continue;
        }
        let mut same = format!("{customer}.{field} = {record}.{field} AND {record}.{field} <> ''");
        let code = "mobile_country_code";
        if field == "mobile_number" && has(code) {
            same.push_str(&format!(" AND {customer}.{code} IS {record}.{code}"));
        }
        conditions.push(same);
    }
    conditions
}

/// What is read of a payment.
#[derive(Deserialize)]
struct PaymentRow {
    kind: Option<PaymentKind>,
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
    /// The job of a record, if it names one in the mirror.
    pub fn job_of(&self, route: Route, id: &str) -> Result<Option<String>, StoreError> {
        match self.job_link(route)? {
            Some(link) => Ok(job_links::job_of(&self.connection, &link, id)?),
            None => Ok(None),
        }
    }

    /// At most `most` records of a route that belong to a job, the last stored first.
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
            "j.id = :id",
            job,
            most,
        )
    }

    /// The customer with the mobile number, else the e-mail address, of a record.
    pub fn customer_of(&self, route: Route, id: &str) -> Result<Option<String>, StoreError> {
        for same in self.same_contact(route, "r")? {
            let sql = format!(
                "SELECT c.id
                FROM \"{route}\" r
                CROSS JOIN customers c ON {same}
                WHERE r.id = :id
                ORDER BY c.rowid
                LIMIT 1"
            );
            let customer = self.connection.value(&sql, named_params! { ":id": id });
            if let Some(customer) = customer.optional()? {
                return Ok(Some(customer));
            }
        }
        Ok(None)
    }

    /// At most `most` records of a route with the mobile number, else the e-mail address, of a
    /// customer, the last stored first.
    pub fn records_of_customer(
        &self,
        route: Route,
        customer: &str,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        for same in self.same_contact(route, "r")? {
            let from = format!("customers c CROSS JOIN \"{route}\" r ON {same}");
            let found = self.related(&from, "c.id = :id", customer, most)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// The ids of at most `most` repairs with the mobile number, else the e-mail address, of a
    /// customer.
    pub fn repairs_of_customer(
        &self,
        customer: &str,
        most: usize,
    ) -> Result<Vec<String>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        for same in self.same_contact(Route::Jobs, "j")? {
            let sql = format!(
                "SELECT j.id
                FROM main.customers c CROSS JOIN main.jobs j ON {same}
                WHERE c.id = :id
                LIMIT :most"
            );
            let values = named_params! { ":id": customer, ":most": most };
            let repairs: Vec<String> = self.connection.values(&sql, values)?;
            if !repairs.is_empty() {
                return Ok(repairs);
            }
        }
        Ok(Vec::new())
    }

    /// At most `most` payments for these repairs, the last stored first.
    pub fn payments_of(
        &self,
        repairs: &[String],
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        let Some(link) = self.job_link(Route::Payments)? else {
            return Ok(Vec::new());
        };
        let of_job = link.condition_from_job("r", "j");
        let repairs = serde_json::to_string(repairs).expect("ids are text");
        self.related(
            &format!("main.jobs j CROSS JOIN main.payments r ON {of_job}"),
            "j.id IN (SELECT value FROM json_each(:id))",
            &repairs,
            most,
        )
    }

    /// What a payment is; `None` if it may be a payment or a refund.
    pub fn payment_kind(&self, id: &str) -> Result<Option<PaymentKind>, StoreError> {
        let sql = "SELECT _kind AS kind FROM main.payments WHERE id = :id";
        let payment: Option<PaymentRow> = self.connection.row(sql, named_params! { ":id": id })?;
        Ok(payment.and_then(|payment| payment.kind))
    }

    /// The records `r` of these tables that fulfil a condition about `:id`.
    fn related(
        &self,
        from: &str,
        condition: &str,
        id: &str,
        most: usize,
    ) -> Result<Vec<RelatedRecord>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT r.id, h.body
            FROM {from}
            CROSS JOIN changes h ON h.seq = r._seq
            WHERE {condition}
            ORDER BY r.rowid DESC
            LIMIT :most"
        );
        let values = named_params! { ":id": id, ":most": most };
        Ok(self.connection.rows(&sql, values)?)
    }

    /// How a route names its job: as was found in the data, else by the number of the job.
    fn job_link(&self, route: Route) -> Result<Option<JobLink>, StoreError> {
        if let Some(link) = job_links::of_route(&self.connection, route)? {
            return Ok(Some(link));
        }
        if route == Route::OutsourcedJobs
            && self.has(route, NUMBER)?
            && self.has(Route::Jobs, NUMBER)?
        {
            return Ok(Some(JobLink {
                route,
                field: NUMBER.to_owned(),
                job_field: NUMBER.to_owned(),
            }));
        }
        Ok(None)
    }

    /// The conditions under which the record `record` belongs to the customer `c`.
    fn same_contact(&self, route: Route, record: &str) -> Result<Vec<String>, StoreError> {
        let mut shared = self.columns(route)?;
        let of_customers = self.columns(Route::Customers)?;
        shared.retain(|column| of_customers.contains(column));
        Ok(same_contact(record, "c", |field| {
            shared.iter().any(|column| column == field)
        }))
    }

    fn has(&self, route: Route, name: &str) -> Result<bool, StoreError> {
        Ok(self.columns(route)?.iter().any(|column| column == name))
    }
}
