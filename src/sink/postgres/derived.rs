//! The columns of the values that reports calculate with, as in the store, with types of PostgreSQL.
//!
//! They are read here, by the rules that the store has found. When the rules change, the rows that
//! are there are read again in steps, some before each delivery.

use jiff::civil::Date;
use serde_json::{Map, Value, json};
use shopmirror_core::clock::stamp;
use shopmirror_core::reading::{FieldKind, FieldReader, ReadRules, ReadValue, fields_of};
use shopmirror_core::record::{Change, Fields, Route};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Transaction};

use super::error::Doing;
use super::schema::Schema;
use super::write::Position;
use crate::sink::Verdict;

/// What a payment is.
const KIND: &str = "_kind";
/// Rows that one step reads again.
const STEP: usize = 500;
/// Steps before one delivery, so that it does not wait for a large table.
const STEPS: usize = 20;

/// The derived columns of a route, each with its type.
fn columns(route: Route) -> Vec<(String, &'static str)> {
    let mut columns = Vec::new();
    for field in fields_of(route) {
        let name = format!("_{}", field.name);
        match field.kind {
            FieldKind::Instant => columns.push((name, "timestamptz")),
            FieldKind::Day => columns.push((name, "date")),
            FieldKind::Amount => {
                let sign = format!("{name}_sign");
                columns.push((name, "numeric"));
                columns.push((sign, "smallint"));
            }
        }
    }
    if route == Route::Payments {
        columns.push((KIND.to_owned(), "text"));
    }
    columns.push(("_unreadable".to_owned(), "jsonb"));
    columns
}

/// The derived columns of a route in the statement that creates its table.
pub(super) fn definitions(route: Route) -> String {
    let mut definitions = String::new();
    for (name, declared) in columns(route) {
        definitions += &format!("{name} {declared}, ");
    }
    definitions
}

/// The names that no field of a record may have as its column.
pub(super) fn reserved() -> Vec<String> {
    let mut names = Vec::new();
    for route in Route::ALL {
        for (name, _) in columns(route) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The derived values of one version of a record, as JSON.
fn values(route: Route, reader: &FieldReader, id: &str, seq: i64, body: &str) -> Value {
    let mut row = Map::new();
    row.insert("id".to_owned(), id.into());
    row.insert("seq".to_owned(), seq.into());
    let mut unreadable = Vec::new();
    let fields = Fields::parse(body).unwrap_or_default();
    let read = reader.read(&fields);
    if route == Route::Payments {
        row.insert(KIND.to_owned(), json!(read.kind));
    }
    for (field, reading) in fields_of(route).iter().zip(read.fields) {
        row.insert(format!("_{}", field.name), value(reading.value));
        if field.kind == FieldKind::Amount {
            row.insert(format!("_{}_sign", field.name), json!(reading.sign));
        }
        if reading.is_unreadable {
            unreadable.push(reading.field);
        }
    }
    let unreadable = match unreadable.as_slice() {
        [] => Value::Null,
        fields => json!(fields),
    };
    row.insert("_unreadable".to_owned(), unreadable);
    Value::Object(row)
}

fn value(value: Option<ReadValue>) -> Value {
    match value {
        None => Value::Null,
        Some(ReadValue::Amount(amount)) if amount.fract() == 0.0 && amount.abs() < 1e15 => {
            // Not `1234.0`: PostgreSQL keeps the digits of a number.
            json!(amount as i64)
        }
        Some(ReadValue::Amount(amount)) => json!(amount),
        Some(ReadValue::Instant(at)) => stamp(at).into(),
        Some(ReadValue::Day(day)) => day_text(day).into(),
    }
}

fn day_text(day: Date) -> String {
    day.strftime("%Y-%m-%d").to_string()
}

/// Writes the derived values `$2`, a JSON list, into the rows of the workspace `$1` that hold the
/// same version of their record.
fn update_sql(schema: &Schema, route: Route) -> String {
    let table = schema.table(route.as_str());
    let mut sets = Vec::new();
    let mut record = String::new();
    for (name, declared) in columns(route) {
        sets.push(format!("{name} = d.{name}"));
        record += &format!(", {name} {declared}");
    }
    format!(
        "UPDATE {table} m
        SET {}
        FROM jsonb_to_recordset($2::jsonb) AS d (id text, seq bigint{record})
        WHERE m.workspace = $1
            AND m.id = d.id
            AND m._seq = d.seq",
        sets.join(", ")
    )
}

/// Writes the derived values of these changes of a route, whose rows are there.
pub(super) async fn write(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    route: Route,
    rules: &ReadRules,
    changes: &[&Change],
) -> Result<(), Verdict> {
    let reader = rules.reader(route);
    let mut rows = Vec::new();
    for change in changes {
        if let (true, Some(id)) = (change.route == route, &change.record_id) {
            rows.push(values(route, &reader, id, change.seq, &change.body));
        }
    }
    update(tx, schema, workspace, route, rows).await
}

async fn update(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    route: Route,
    rows: Vec<Value>,
) -> Result<(), Verdict> {
    let rows = Value::Array(rows).to_string();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&workspace, Type::TEXT), (&rows, Type::TEXT)];
    tx.execute_typed(&update_sql(schema, route), &parameters)
        .await
        .map(drop)
        .map_err(schema.failed(Doing::Storing))
}

/// Up to which row the rows of a sink are read by its rules.
struct Progress {
    /// The route that is read again; `None` when all are done.
    route: Option<Route>,
    after: String,
}

/// Reads rows again, if they were read by other rules: some steps, and the rest before the next
/// deliveries. `stored` is how far the deliveries before came.
pub(super) async fn catch_up(
    client: &mut Client,
    schema: &Schema,
    workspace: &str,
    sink: &str,
    rules: &ReadRules,
    stored: Position,
) -> Result<(), Verdict> {
    let failed = schema.failed(Doing::Storing);
    let version = serde_json::to_string(rules).expect("rules can be written as JSON");
    let mut progress = progress(stored, &version);
    for _ in 0..STEPS {
        let Some(route) = progress.route else {
            return Ok(());
        };
        let tx = client.transaction().await.map_err(&failed)?;
        progress = step(&tx, schema, workspace, route, rules, &progress.after).await?;
        save(&tx, schema, workspace, sink, &version, &progress).await?;
        tx.commit().await.map_err(&failed)?;
    }
    Ok(())
}

/// How far the rows are read by these rules; from the beginning if they are new.
fn progress(stored: Position, version: &str) -> Progress {
    if stored.read_by.as_deref() != Some(version) {
        return Progress {
            route: Some(Route::ALL[0]),
            after: String::new(),
        };
    }
    Progress {
        route: stored.read_route.and_then(|route| route.parse().ok()),
        after: stored.read_after.unwrap_or_default(),
    }
}

/// Reads the next rows of a route again.
async fn step(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    route: Route,
    rules: &ReadRules,
    after: &str,
) -> Result<Progress, Verdict> {
    let table = schema.table(route.as_str());
    let query = format!(
        "SELECT id, _seq, body::text
        FROM {table}
        WHERE workspace = $1 AND id > $2
        ORDER BY id
        LIMIT {STEP}"
    );
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&workspace, Type::TEXT), (&after, Type::TEXT)];
    let found = tx
        .query_typed(&query, &parameters)
        .await
        .map_err(schema.failed(Doing::Storing))?;
    let reader = rules.reader(route);
    let mut rows = Vec::with_capacity(found.len());
    let mut last = after.to_owned();
    for row in &found {
        row.get::<_, &str>(0).clone_into(&mut last);
        rows.push(values(route, &reader, &last, row.get(1), row.get(2)));
    }
    update(tx, schema, workspace, route, rows).await?;
    if found.len() == STEP {
        let route = Some(route);
        return Ok(Progress { route, after: last });
    }
    let place = Route::ALL.iter().position(|own| *own == route);
    let next = place.and_then(|place| Route::ALL.get(place + 1));
    Ok(Progress {
        route: next.copied(),
        after: String::new(),
    })
}

async fn save(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    sink: &str,
    version: &str,
    progress: &Progress,
) -> Result<(), Verdict> {
    let positions = schema.table("positions");
    let save = format!(
        "UPDATE {positions}
        SET read_by = $3, read_route = $4, read_after = $5
        WHERE workspace = $1 AND sink = $2"
    );
    let route = progress.route.map(Route::as_str);
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&workspace, Type::TEXT),
        (&sink, Type::TEXT),
        (&version, Type::TEXT),
        (&route, Type::TEXT),
        (&progress.after, Type::TEXT),
    ];
    tx.execute_typed(&save, &values)
        .await
        .map(drop)
        .map_err(schema.failed(Doing::Storing))
}
