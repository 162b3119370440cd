//! The indexes of the built-in reports; each is made once its columns exist.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension};

use crate::store::mirror::quoted;
use crate::store::mirror::views::columns::RouteColumns;

/// An index: its name, table, columns and condition.
struct Index {
    name: &'static str,
    table: &'static str,
    columns: &'static [&'static str],
    /// Columns that a report also reads. With them it need not read the table; they follow those
    /// above, as far as they exist.
    covers: &'static [&'static str],
    /// What a report asks of a column instead of reading it; these follow the columns.
    asks: &'static [Ask],
    condition: &'static str,
    /// Columns of the condition.
    also_needs: &'static [&'static str],
}

/// A comparison that an index stores instead of the column.
struct Ask {
    column: &'static str,
    sql: &'static str,
}

const fn plain(name: &'static str, table: &'static str, columns: &'static [&'static str]) -> Index {
    covering(name, table, columns, &[])
}

const fn covering(
    name: &'static str,
    table: &'static str,
    columns: &'static [&'static str],
    covers: &'static [&'static str],
) -> Index {
    Index { name, table, columns, covers, asks: &[], condition: "", also_needs: &[] }
}

const INDEXES: &[Index] = &[
    // The last changed first, for the records browser and `shopmirror records`.
    plain("report_jobs_seq", "jobs", &["_seq"]),
    plain("report_customers_seq", "customers", &["_seq"]),
    plain("report_leads_seq", "leads", &["_seq"]),
    plain("report_payments_seq", "payments", &["_seq"]),
    plain("report_changes_seq", "job_status_changes", &["_seq"]),
    plain("report_outsourced_seq", "outsourced_jobs", &["_seq"]),
    covering(
        "report_jobs_created",
        "jobs",
        &["created_at", "_business"],
        &["mobile_number", "assigned_to"],
    ),
    plain("report_jobs_mobile", "jobs", &["mobile_number", "created_at"]),
    Index {
        name: "report_jobs_owing",
        table: "jobs",
        // In the order of the ids, in which the states are found fastest.
        columns: &["id", "total_amount"],
        covers: &["_business"],
        asks: &[],
        condition: "total_amount > 0",
        also_needs: &[],
    },
    plain("report_customers_created", "customers", &["created_at", "_business"]),
    plain("report_customers_mobile", "customers", &["mobile_number", "created_at"]),
    plain("report_customers_email", "customers", &["email", "created_at"]),
    Index {
        name: "report_leads_created",
        table: "leads",
        columns: &["created_at", "_business"],
        covers: &["source"],
        asks: &[
            Ask { column: "status_stage", sql: "status_stage = 'completed'" },
            Ask { column: "status_stage", sql: "status_stage IS NULL" },
        ],
        condition: "",
        also_needs: &[],
    },
    Index {
        name: "report_leads_due",
        table: "leads",
        columns: &["next_follow_up"],
        covers: &["name", "status", "id", "status_stage", "_business"],
        asks: &[],
        condition: "status_stage IS NOT 'completed'",
        also_needs: &["status_stage"],
    },
    plain("report_payments_created", "payments", &["created_at", "_business", "amount"]),
    plain(
        "report_changes_created",
        "job_status_changes",
        &["created_at", "status_stage", "job_number", "_business"],
    ),
    Index {
        name: "report_outsourced_open",
        table: "outsourced_jobs",
        columns: &["vendor_name", "created_at"],
        covers: &["status_stage", "_business"],
        asks: &[],
        condition: "status_stage IS NOT 'completed'",
        also_needs: &["status_stage"],
    },
];

/// The statements that make the indexes whose columns exist.
pub(in crate::store) fn wanted(routes: &[RouteColumns]) -> Vec<String> {
    let of_reports = possible(routes).map(|(index, table)| index.sql(table));
    let mut statements: Vec<String> = of_reports.collect();
    statements.extend(of_links(routes));
    statements
}

/// The indexes by which a job finds its status changes and payments, and these their job.
fn of_links(routes: &[RouteColumns]) -> Vec<String> {
    let links = || routes.iter().filter_map(|columns| columns.link.as_ref());
    let of_records = links().map(|link| {
        let (route, field) = (link.route, quoted(&link.field));
        format!("CREATE INDEX report_{route}_job ON {route} ({field}, created_at)")
    });
    let keys: BTreeSet<&str> = links().map(|link| link.job_field.as_str()).collect();
    let of_jobs = keys.into_iter().filter(|key| *key != "id").zip(1..).map(|(key, number)| {
        format!("CREATE INDEX report_jobs_key_{number} ON jobs ({})", quoted(key))
    });
    of_records.chain(of_jobs).collect()
}

/// Makes an index by its statement, in place of one that another version of the program made.
pub(in crate::store) fn make(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
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

/// The indexes whose columns exist, each with its table.
fn possible(routes: &[RouteColumns]) -> impl Iterator<Item = (&'static Index, &RouteColumns)> {
    INDEXES.iter().filter_map(|index| {
        let table = routes.iter().find(|columns| columns.route.as_str() == index.table)?;
        let mut needed = index.columns.iter().chain(index.also_needs);
        needed.all(|column| table.has(column)).then_some((index, table))
    })
}

impl Index {
    fn sql(&self, in_table: &RouteColumns) -> String {
        let Self { name, table, columns, covers, asks, condition, .. } = self;
        let covered = covers.iter().copied().filter(|column| in_table.has(column));
        let asked = asks.iter().filter(|ask| in_table.has(ask.column)).map(|ask| ask.sql);
        let columns: Vec<&str> = columns.iter().copied().chain(covered).chain(asked).collect();
        let condition =
            if condition.is_empty() { String::new() } else { format!(" WHERE {condition}") };
        format!("CREATE INDEX {name} ON {table} ({}){condition}", columns.join(", "))
    }
}
