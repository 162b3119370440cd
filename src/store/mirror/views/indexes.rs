//! The indexes of the built-in reports; each is made once its columns exist.

use std::collections::BTreeSet;

use shopmirror_core::record::Route;

use crate::store::mirror::quoted;
use crate::store::mirror::views::columns::RouteColumns;

/// An index of the reports, of those of its columns that the table has; it is made once the first
/// one is there.
struct Index {
    name: &'static str,
    table: &'static str,
    columns: &'static [&'static str],
    /// A column, and what must hold of it.
    only: Option<(&'static str, &'static str)>,
}

const fn index(name: &'static str, table: &'static str, columns: &'static [&'static str]) -> Index {
    Index {
        name,
        table,
        columns,
        only: None,
    }
}

const NOT_COMPLETED: Option<(&str, &str)> = Some(("status_stage", "IS NOT 'completed'"));

const INDEXES: &[Index] = &[
    index(
        "report_jobs_created",
        "jobs",
        &["created_at", "_business", "mobile_number", "assigned_to"],
    ),
    index(
        "report_jobs_mobile",
        "jobs",
        &["mobile_number", "created_at"],
    ),
    Index {
        only: Some(("total_amount", "> 0")),
        // In the order of the ids, in which the states are found fastest.
        ..index(
            "report_jobs_owing",
            "jobs",
            &["id", "total_amount", "_business"],
        )
    },
    index(
        "report_customers_created",
        "customers",
        &["created_at", "_business"],
    ),
    index(
        "report_customers_mobile",
        "customers",
        &["mobile_number", "created_at"],
    ),
    index(
        "report_customers_email",
        "customers",
        &["email", "created_at"],
    ),
    index(
        "report_leads_created",
        "leads",
        &["created_at", "_business", "source", "status_stage"],
    ),
    Index {
        only: NOT_COMPLETED,
        ..index(
            "report_leads_due",
            "leads",
            &[
                "next_follow_up",
                "name",
                "status",
                "id",
                "status_stage",
                "_business",
            ],
        )
    },
    index(
        "report_payments_created",
        "payments",
        &["created_at", "_business", "amount"],
    ),
    index(
        "report_changes_created",
        "job_status_changes",
        &["created_at", "status_stage", "job_number", "_business"],
    ),
    Index {
        only: NOT_COMPLETED,
        ..index(
            "report_outsourced_open",
            "outsourced_jobs",
            &["vendor_name", "created_at", "status_stage", "_business"],
        )
    },
];

/// What a customer can be found by.
pub(in crate::store) const PERSON: [&str; 3] = ["name", "email", "mobile_number"];

/// The statements that make the indexes whose columns exist.
pub(in crate::store) fn wanted(routes: &[RouteColumns]) -> Vec<String> {
    // The last changed first, for the records browser and `shopmirror records`.
    let by_seq =
        Route::ALL.map(|route| format!("CREATE INDEX report_{route}_seq ON {route} (_seq)"));
    let of_reports = INDEXES.iter().filter_map(|index| index.sql(routes));
    let of_reports = of_reports.chain(of_links(routes)).chain(of_people(routes));
    by_seq.into_iter().chain(of_reports).collect()
}

/// The indexes by which the search for missed customers asks whether the mirror has a person whom
/// another route names. Without one each such question would read the whole table.
fn of_people(routes: &[RouteColumns]) -> impl Iterator<Item = String> {
    let customers = routes
        .iter()
        .find(|columns| columns.route == Route::Customers);
    let has = move |column: &&str| customers.is_some_and(|customers| customers.has(column));
    PERSON.into_iter().filter(has).map(|column| {
        format!(
            "CREATE INDEX customers_by_{column} ON customers ({})",
            compared(column)
        )
    })
}

/// A column in the form in which people are compared: as text, without spaces around it, in lower
/// case.
pub(in crate::store) fn compared(column: &str) -> String {
    format!("lower(trim(CAST({column} AS TEXT)))")
}

/// The indexes by which a job finds its status changes and payments, and these their job.
fn of_links(routes: &[RouteColumns]) -> Vec<String> {
    let linked = routes
        .iter()
        .filter_map(|columns| Some((columns, columns.link.as_ref()?)));
    let of_records = linked.clone().map(|(columns, link)| {
        let (route, field) = (link.route, quoted(&link.field));
        // A list that shows no times is linked all the same.
        let then = if columns.has("created_at") {
            ", created_at"
        } else {
            ""
        };
        format!("CREATE INDEX report_{route}_job ON {route} ({field}{then})")
    });
    let keys: BTreeSet<&str> = linked.map(|(_, link)| link.job_field.as_str()).collect();
    let of_jobs = keys
        .into_iter()
        .filter(|key| *key != "id")
        .zip(1..)
        .map(|(key, number)| {
            format!(
                "CREATE INDEX report_jobs_key_{number} ON jobs ({})",
                quoted(key)
            )
        });
    of_records.chain(of_jobs).collect()
}

impl Index {
    /// The statement that makes it; `None` while its first column or that of its condition is
    /// missing.
    fn sql(&self, routes: &[RouteColumns]) -> Option<String> {
        let Self {
            name,
            table,
            columns,
            only,
        } = self;
        let in_table = routes
            .iter()
            .find(|columns| columns.route.as_str() == *table)?;
        let mut needed = columns
            .iter()
            .take(1)
            .copied()
            .chain(only.map(|(column, _)| column));
        if !needed.all(|column| in_table.has(column)) {
            return None;
        }
        let columns: Vec<&str> = columns
            .iter()
            .copied()
            .filter(|column| in_table.has(column))
            .collect();
        let only = only.map(|(column, holds)| format!(" WHERE {column} {holds}"));
        let only = only.unwrap_or_default();
        Some(format!(
            "CREATE INDEX {name} ON {table} ({}){only}",
            columns.join(", ")
        ))
    }
}
