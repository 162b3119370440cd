//! The indexes of the built-in reports; each is created once its columns exist.

use std::collections::BTreeSet;

use shopmirror_core::record::Route;

use crate::store::mirror::quoted;
use crate::store::mirror::views::columns::RouteColumns;

/// An index of the reports, over those of its columns that the table has; it is created once the
/// first one exists.
struct Index {
    name: &'static str,
    table: &'static str,
    columns: &'static [&'static str],
    /// A column, and its condition for a row to be in the index.
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
        &["_created_at", "_business", "mobile_number", "assigned_to"],
    ),
    index(
        "report_jobs_mobile",
        "jobs",
        &["mobile_number", "_created_at"],
    ),
    Index {
        only: Some(("_total_amount", "> 0")),
        // In the order of the ids, in which the states are found fastest.
        ..index(
            "report_jobs_owing",
            "jobs",
            &["id", "_total_amount", "_business"],
        )
    },
    Index {
        only: Some(("_total_amount", "IS NULL")),
        ..index("report_jobs_unpriced", "jobs", &["_seq", "_business"])
    },
    index(
        "report_customers_created",
        "customers",
        &["_created_at", "_business"],
    ),
    index(
        "report_customers_mobile",
        "customers",
        &["mobile_number", "_created_at"],
    ),
    index(
        "report_customers_email",
        "customers",
        &["email", "_created_at"],
    ),
    index(
        "report_leads_created",
        "leads",
        &["_created_at", "_business", "source", "status_stage"],
    ),
    Index {
        only: NOT_COMPLETED,
        ..index(
            "report_leads_due",
            "leads",
            &[
                "_next_follow_up",
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
        &[
            "_created_at",
            "_business",
            "_kind",
            "_amount",
            "_amount_sign",
        ],
    ),
    index(
        "report_changes_created",
        "job_status_changes",
        &["_created_at", "status_stage", "job_number", "_business"],
    ),
    Index {
        only: NOT_COMPLETED,
        ..index(
            "report_outsourced_open",
            "outsourced_jobs",
            &["vendor_name", "_created_at", "status_stage", "_business"],
        )
    },
];

/// What a customer can be found by.
pub(in crate::store) const PERSON: [&str; 3] = ["name", "email", "mobile_number"];

/// The statements that make the indexes whose columns exist.
pub(in crate::store) fn wanted(routes: &[RouteColumns]) -> Vec<String> {
    let mut wanted = Vec::new();
    for route in Route::ALL {
        // The last changed first, for the records browser and `shopmirror records`.
        wanted.push(format!("CREATE INDEX report_{route}_seq ON {route} (_seq)"));
        // Few rows, as a rule none.
        wanted.push(format!(
            "CREATE INDEX report_{route}_unreadable ON {route} (_seq) \
             WHERE _unreadable IS NOT NULL"
        ));
        // What is gone from its list, for the notes of reports.
        wanted.push(format!(
            "CREATE INDEX report_{route}_gone ON {route} (_vanished_at, _created_at, _business) \
             WHERE _vanished_at IS NOT NULL"
        ));
    }
    for index in INDEXES {
        wanted.extend(index.sql(routes));
    }
    wanted.extend(of_links(routes));
    wanted.extend(of_lists(routes));
    wanted.extend(of_persons(routes));
    wanted
}

/// The indexes by which the search for missed customers asks whether the mirror has a person whom
/// another route names. Without one each such question would read the whole table.
fn of_persons(routes: &[RouteColumns]) -> Vec<String> {
    let customers = routes
        .iter()
        .find(|columns| columns.route == Route::Customers);
    let Some(customers) = customers else {
        return Vec::new();
    };
    let mut indexes = Vec::new();
    for column in PERSON {
        if customers.has(column) {
            let compared = compared(column);
            indexes.push(format!(
                "CREATE INDEX customers_by_{column} ON customers ({compared})"
            ));
        }
    }
    // Those by which a report asks the same.
    for (column, name, same) in [
        ("mobile_number", "number", number_sql("mobile_number")),
        ("email", "address", compared("email")),
    ] {
        if customers.has(column) {
            indexes.push(format!(
                "CREATE INDEX report_customers_{name} ON customers ({same}, _created_at)"
            ));
        }
    }
    indexes
}

/// The number of a telephone in the form in which reports compare it: without spaces and hyphens.
#[must_use]
pub fn number_sql(column: &str) -> String {
    format!("replace(replace(CAST({column} AS TEXT), ' ', ''), '-', '')")
}

/// A column in the form in which people are compared: as text, without spaces around it, in lower
/// case.
#[must_use]
pub fn compared(column: &str) -> String {
    format!("lower(trim(CAST({column} AS TEXT)))")
}

/// The indexes in whose order lists of records are shown. Each is of one column, so that its rows of
/// one value are in the order in which a list goes on. There is none for status changes, which are
/// the most by far.
fn of_lists(routes: &[RouteColumns]) -> Vec<String> {
    let mut indexes = vec!["CREATE INDEX list_jobs_status ON _job_states (status)".to_owned()];
    for columns in routes {
        let wanted: &[(&str, &str)] = match columns.route {
            Route::Jobs => &[
                ("number", "job_number"),
                ("person", "assigned_to"),
                ("amount", "_total_amount"),
            ],
            Route::Payments => &[("amount", "_amount")],
            _ => &[],
        };
        for (name, column) in wanted {
            let route = columns.route;
            if columns.has(column) && !is_job_key(routes, column) {
                indexes.push(format!(
                    "CREATE INDEX list_{route}_{name} ON {route} ({column})"
                ));
            }
        }
    }
    indexes
}

/// Whether jobs have an index of this column already, because other records name it.
fn is_job_key(routes: &[RouteColumns], column: &str) -> bool {
    let mut links = routes.iter().filter_map(|columns| columns.link.as_ref());
    links.any(|link| link.job_field == column)
}

/// The indexes by which a job finds its status changes and payments, and these their job.
fn of_links(routes: &[RouteColumns]) -> Vec<String> {
    let mut indexes = Vec::new();
    let mut job_fields = BTreeSet::new();
    for columns in routes {
        let Some(link) = &columns.link else { continue };
        let route = link.route;
        let field = quoted(&link.field);
        indexes.push(format!(
            "CREATE INDEX report_{route}_job ON {route} ({field}, _created_at)"
        ));
        if link.job_field != "id" {
            job_fields.insert(link.job_field.as_str());
        }
    }
    for (number, field) in (1..).zip(job_fields) {
        let field = quoted(field);
        // With the business, because two of them may use one number.
        indexes.push(format!(
            "CREATE INDEX report_jobs_key_{number} ON jobs ({field}, _business)"
        ));
    }
    indexes
}

impl Index {
    /// The statement that makes it; `None` while its first column or that of its condition is
    /// missing.
    fn sql(&self, routes: &[RouteColumns]) -> Option<String> {
        let Self { name, table, .. } = self;
        let in_table = routes
            .iter()
            .find(|columns| columns.route.as_str() == *table)?;
        let first = self.columns.first()?;
        if !in_table.has(first) {
            return None;
        }
        let only = match self.only {
            Some((column, _)) if !in_table.has(column) => return None,
            Some((column, condition)) => format!(" WHERE {column} {condition}"),
            None => String::new(),
        };
        let mut columns = self.columns.to_vec();
        columns.retain(|column| in_table.has(column));
        // A report leaves out what is gone from its list, without a look into the table.
        columns.push("_vanished_at");
        let columns = columns.join(", ");
        Some(format!("CREATE INDEX {name} ON {table} ({columns}){only}"))
    }
}
