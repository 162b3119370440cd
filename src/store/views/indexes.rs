//! The indexes of the built-in reports; each is made once its columns exist.

use rusqlite::{Connection, OptionalExtension};

use super::columns::RouteColumns;
use crate::record::Route;

/// An index: its name, table, columns and condition.
struct Index {
    name: &'static str,
    table: &'static str,
    columns: &'static [&'static str],
    condition: &'static str,
    /// Columns of the condition.
    also_needs: &'static [&'static str],
}

const fn plain(name: &'static str, table: &'static str, columns: &'static [&'static str]) -> Index {
    Index { name, table, columns, condition: "", also_needs: &[] }
}

const INDEXES: &[Index] = &[
    // The last changed first, for the records browser and `shopmirror records`.
    plain("report_jobs_seq", "jobs", &["_seq"]),
    plain("report_customers_seq", "customers", &["_seq"]),
    plain("report_leads_seq", "leads", &["_seq"]),
    plain("report_payments_seq", "payments", &["_seq"]),
    plain("report_changes_seq", "job_status_changes", &["_seq"]),
    plain("report_outsourced_seq", "outsourced_jobs", &["_seq"]),
    plain("report_jobs_created", "jobs", &["created_at", "_business"]),
    plain("report_jobs_number", "jobs", &["job_number"]),
    plain("report_jobs_mobile", "jobs", &["mobile_number", "created_at"]),
    Index {
        name: "report_jobs_open",
        table: "jobs",
        columns: &["status_stage", "status", "created_at", "assigned_to", "_business"],
        condition: "status_stage <> 'completed'",
        also_needs: &[],
    },
    Index {
        name: "report_jobs_owing",
        table: "jobs",
        // Every column that the report reads: otherwise SQLite reads the whole table.
        columns: &[
            "total_amount",
            "paid_amount",
            "job_number",
            "customer_name",
            "status",
            "created_at",
            "_business",
        ],
        condition: "total_amount > paid_amount",
        also_needs: &[],
    },
    plain("report_customers_created", "customers", &["created_at", "_business"]),
    plain("report_customers_mobile", "customers", &["mobile_number", "created_at"]),
    plain("report_customers_email", "customers", &["email", "created_at"]),
    plain("report_leads_created", "leads", &["created_at", "_business"]),
    Index {
        name: "report_leads_due",
        table: "leads",
        columns: &["next_follow_up"],
        condition: "status_stage = 'open'",
        also_needs: &["status_stage"],
    },
    plain("report_payments_created", "payments", &["created_at", "_business", "amount"]),
    plain(
        "report_changes_created",
        "job_status_changes",
        &["created_at", "status_stage", "job_number", "_business"],
    ),
    plain("report_changes_job", "job_status_changes", &["job_number", "created_at"]),
    Index {
        name: "report_outsourced_open",
        table: "outsourced_jobs",
        columns: &["vendor_name", "created_at", "_business"],
        condition: "status_stage <> 'completed'",
        also_needs: &["status_stage"],
    },
];

/// The statements that make the indexes whose columns exist.
pub(super) fn wanted(routes: &[RouteColumns]) -> Vec<String> {
    possible(routes).map(|index| index.sql("CREATE INDEX ")).collect()
}

/// Makes an index by its statement, in place of one that another version of the program made.
pub(super) fn make(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let name = sql.split(' ').nth(2).unwrap_or_default();
    let found: Option<String> = connection
        .prepare_cached("SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    match found {
        Some(same) if same == sql => return Ok(()),
        Some(_) => connection.execute_batch(&format!("DROP INDEX {name}"))?,
        None => {}
    }
    connection.execute_batch(sql)
}

/// The same for temporary tables of these routes.
pub(super) fn temporary(routes: &[RouteColumns], of: &[Route]) -> Vec<String> {
    possible(routes)
        .filter(|index| of.iter().any(|route| route.as_str() == index.table))
        .map(|index| index.sql("CREATE INDEX temp."))
        .collect()
}

fn possible(routes: &[RouteColumns]) -> impl Iterator<Item = &'static Index> {
    INDEXES.iter().filter(|index| {
        let table = routes.iter().find(|columns| columns.route.as_str() == index.table);
        table.is_some_and(|table| {
            index.columns.iter().chain(index.also_needs).all(|column| table.has(column))
        })
    })
}

impl Index {
    fn sql(&self, create: &str) -> String {
        let Self { name, table, columns, condition, .. } = self;
        let condition =
            if condition.is_empty() { String::new() } else { format!(" WHERE {condition}") };
        format!("{create}{name} ON {table} ({}){condition}", columns.join(", "))
    }
}
