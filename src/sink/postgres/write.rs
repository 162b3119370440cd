//! One transaction: the rows of the log, the mirror's rows and the position, or nothing of them.
//!
//! A change that the database holds already is passed over, so that a crash between the commit and
//! the caller's own note of it repeats nothing. A number that belongs to another change means that
//! another store writes under the same name; then nothing is stored.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::pin::pin;

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement, Transaction};

use super::layout::{Layout, literal, quoted};
use super::text::{plain, storable};
use super::trouble::Trouble;
use crate::record::{Change, FieldName, Kind, Route};

const LOOKING: &str = "looking at the table";
const STORING: &str = "storing changes";
const COPIED: [Type; 11] = [
    Type::TEXT,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::TIMESTAMPTZ,
    Type::TEXT,
    Type::JSONB,
    Type::TEXT,
];

/// A change as it is stored.
pub(super) struct ChangeRow<'a> {
    change: &'a Change,
    observed_at: Timestamp,
    body: Cow<'a, str>,
}

impl<'a> ChangeRow<'a> {
    /// The row of a change; an error if its time cannot be read.
    pub(super) fn of(change: &'a Change) -> Result<Self, Trouble> {
        let observed_at =
            change.observed_at.parse().map_err(|_| Trouble::Data("a time".to_owned()))?;
        Ok(Self { change, observed_at, body: storable(&change.body) })
    }

    pub(super) fn seq(&self) -> i64 {
        self.change.seq
    }

    /// The record whose mirror row this change writes.
    fn mirrored(&self) -> Option<(Route, &'a str)> {
        let shows_a_record = !matches!(self.change.kind, Kind::Gap | Kind::Forgotten);
        let id = self.change.record_id.as_deref().filter(|_| shows_a_record)?;
        Some((self.change.route, id))
    }
}

/// The names of the fields of these rows, by route.
pub(super) fn fields(rows: &[ChangeRow<'_>], layout: &Layout) -> HashMap<Route, HashSet<String>> {
    let mut new: HashMap<Route, HashSet<String>> = HashMap::new();
    for row in rows.iter().filter(|row| row.mirrored().is_some()) {
        let columns = layout.columns(row.change.route);
        let look = Names(|name: &str| {
            if !columns.holds(name) {
                new.entry(row.change.route).or_default().insert(name.to_owned());
            }
        });
        // A body that is no object has no fields.
        let _ = serde_json::Deserializer::from_str(&row.body).deserialize_map(look);
    }
    new
}

/// Shows the name of each member of an object.
struct Names<F>(F);

impl<'de, F: FnMut(&str)> Visitor<'de> for Names<F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(FieldName(name)) = map.next_key()? {
            map.next_value::<IgnoredAny>()?;
            (self.0)(&name);
        }
        Ok(())
    }
}

/// JSON text on its way into a column of type `jsonb`.
#[derive(Debug)]
struct Jsonb<'a>(&'a str);

impl ToSql for Jsonb<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // The version of the format, then the text.
        out.put_u8(1);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}

/// The prepared statements of one connection.
pub(super) struct Statements {
    lock: Statement,
    known: Statement,
    copy: Statement,
    position: Statement,
    held: Statement,
    mirrors: HashMap<Route, Statement>,
}

impl Statements {
    pub(super) async fn prepare(client: &Client, schema: &str) -> Result<Self, Trouble> {
        let schema = quoted(schema);
        let prepare = async |sql: String| {
            client.prepare(&sql).await.map_err(|e| Trouble::of("preparing statements", &e))
        };
        Ok(Self {
            lock: prepare("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))".to_owned())
                .await?,
            known: prepare(format!(
                "SELECT seq, event_id FROM {schema}.changes WHERE workspace = $1 AND seq = ANY($2)"
            ))
            .await?,
            copy: prepare(format!(
                "COPY {schema}.changes (workspace, seq, event_id, route, record_id, kind, version, \
                 observed_at, business, body, exact) FROM STDIN (FORMAT binary)"
            ))
            .await?,
            position: prepare(format!(
                "INSERT INTO {schema}.positions AS p (workspace, sink, seq, event_id, saved_at) \
                 VALUES ($1, $2, $3, $4, now()) ON CONFLICT (workspace, sink) DO UPDATE SET \
                 seq = excluded.seq, event_id = excluded.event_id, saved_at = excluded.saved_at \
                 WHERE excluded.seq > p.seq"
            ))
            .await?,
            held: prepare(format!(
                "SELECT seq FROM {schema}.positions WHERE workspace = $1 AND sink = $2"
            ))
            .await?,
            mirrors: HashMap::new(),
        })
    }

    /// Prepares the statement of a route whose columns are new or were not written yet. Fails for a
    /// route whose table cannot be written.
    pub(super) async fn know(
        &mut self,
        client: &Client,
        layout: &Layout,
        route: Route,
        changed: bool,
    ) -> Result<(), Trouble> {
        if let Some(what) = layout.broken(route) {
            return Err(Trouble::table(&layout.schema, route, what));
        }
        if changed || !self.mirrors.contains_key(&route) {
            let sql = layout.columns(route).upsert(&layout.schema, route);
            let prepared = client
                .prepare(&sql)
                .await
                .map_err(|e| Trouble::of_route(LOOKING, &layout.schema, route, &e))?;
            self.mirrors.insert(route, prepared);
        }
        Ok(())
    }
}

/// Under which names rows are stored.
pub(super) struct Owner<'a> {
    pub(super) workspace: &'a str,
    pub(super) sink: &'a str,
}

/// Stores the rows that the database does not hold yet, in one transaction. Fails if the position in
/// the database is lower than `expected`: then it lost what it had.
pub(super) async fn store(
    client: &mut Client,
    statements: &Statements,
    layout: &Layout,
    owner: &Owner<'_>,
    expected: i64,
    rows: &[ChangeRow<'_>],
) -> Result<(), Trouble> {
    let failed = |error| Trouble::of(STORING, &error);
    let tx = client.transaction().await.map_err(failed)?;
    let key = format!("shopmirror {} {}", layout.schema, owner.workspace);
    let seqs: Vec<i64> = rows.iter().map(|row| row.change.seq).collect();
    // They are sent at once; the later ones see what was committed until the first has the lock.
    let lock: [&(dyn ToSql + Sync); 1] = [&key];
    let look: [&(dyn ToSql + Sync); 2] = [&owner.workspace, &seqs];
    let of_sink: [&(dyn ToSql + Sync); 2] = [&owner.workspace, &owner.sink];
    let (_, held, known) = tokio::try_join!(
        tx.execute(&statements.lock, &lock),
        tx.query_opt(&statements.held, &of_sink),
        tx.query(&statements.known, &look),
    )
    .map_err(failed)?;
    let held = held.map_or(0, |row| row.get(0));
    if held < expected {
        return Err(Trouble::Lost(held));
    }
    let known: HashMap<i64, String> = known.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut fresh = Vec::with_capacity(rows.len());
    for row in rows {
        match known.get(&row.change.seq) {
            None => fresh.push(row),
            Some(id) if *id == row.change.event_id => {}
            Some(_) => return Err(another_store(layout, owner, row.change.seq)),
        }
    }
    if !fresh.is_empty() {
        copy(&tx, statements, owner.workspace, &fresh).await?;
        mirror(&tx, statements, (&layout.schema, owner.workspace), &fresh).await?;
        forget(&tx, layout, owner.workspace, &fresh).await?;
    }
    if let Some(last) = rows.iter().max_by_key(|row| row.change.seq) {
        let values: [&(dyn ToSql + Sync); 4] =
            [&owner.workspace, &owner.sink, &last.change.seq, &last.change.event_id];
        tx.execute(&statements.position, &values).await.map_err(failed)?;
    }
    tx.commit().await.map_err(failed)
}

fn another_store(layout: &Layout, owner: &Owner<'_>, seq: i64) -> Trouble {
    let (schema, workspace) = (&layout.schema, literal(owner.workspace));
    // Short, and with the number first: a reason may be cut, and a DELETE without it removes all.
    Trouble::Server(format!(
        "change {seq} is another change in the database: give each store its own `workspace`; \
         after a restore run DELETE FROM {schema}.changes WHERE seq >= {seq} AND workspace = \
         {workspace}"
    ))
}

async fn copy(
    tx: &Transaction<'_>,
    statements: &Statements,
    workspace: &str,
    rows: &[&ChangeRow<'_>],
) -> Result<(), Trouble> {
    let failed = |error| Trouble::of(STORING, &error);
    let sink = tx.copy_in(&statements.copy).await.map_err(failed)?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &COPIED));
    for row in rows {
        let change = row.change;
        let exact = matches!(row.body, Cow::Owned(_)).then(|| plain(&change.body));
        let record_id = change.record_id.as_deref().map(plain);
        let business = change.business.as_deref().map(plain);
        let values: [&(dyn ToSql + Sync); 11] = [
            &workspace,
            &change.seq,
            &change.event_id,
            &change.route.as_str(),
            &record_id,
            &change.kind.as_str(),
            &change.version,
            &row.observed_at,
            &business,
            &Jsonb(&row.body),
            &exact,
        ];
        writer.as_mut().write(&values).await.map_err(failed)?;
    }
    writer.finish().await.map(|_| ()).map_err(failed)
}

/// Brings the mirror's rows up to date with the newest of these changes of each record.
async fn mirror(
    tx: &Transaction<'_>,
    statements: &Statements,
    (schema, workspace): (&str, &str),
    rows: &[&ChangeRow<'_>],
) -> Result<(), Trouble> {
    let mut newest: HashMap<(Route, &str), (i64, Timestamp)> = HashMap::new();
    for row in rows {
        let Some(record) = row.mirrored() else { continue };
        let (seq, first) = newest.entry(record).or_insert((row.change.seq, row.observed_at));
        *seq = row.change.seq.max(*seq);
        *first = row.observed_at.min(*first);
    }
    let mut by_route: HashMap<Route, (Vec<i64>, Vec<Timestamp>)> = HashMap::new();
    for ((route, _), (seq, first)) in newest {
        let (seqs, firsts) = by_route.entry(route).or_default();
        seqs.push(seq);
        firsts.push(first);
    }
    let writes = by_route.iter().map(|(route, (seqs, firsts))| async move {
        let values: [&(dyn ToSql + Sync); 3] = [&workspace, seqs, firsts];
        let written = tx.execute(&statements.mirrors[route], &values).await;
        written.map_err(|e| Trouble::of_route("writing to the table", schema, *route, &e))
    });
    futures_util::future::try_join_all(writes).await.map(|_| ())
}

/// Removes what the mirror and the log hold of forgotten records.
async fn forget(
    tx: &Transaction<'_>,
    layout: &Layout,
    workspace: &str,
    rows: &[&ChangeRow<'_>],
) -> Result<(), Trouble> {
    let failed = |error| Trouble::of("removing a forgotten record", &error);
    let schema = quoted(&layout.schema);
    for row in rows.iter().filter(|row| row.change.kind == Kind::Forgotten) {
        let route = row.change.route.as_str();
        let Some(id) = row.change.record_id.as_deref().map(plain) else { continue };
        let delete =
            format!("DELETE FROM {schema}.{} WHERE workspace = $1 AND id = $2", quoted(route));
        tx.execute(&delete, &[&workspace, &id]).await.map_err(failed)?;
        let erase = format!(
            "UPDATE {schema}.changes SET body = $4, exact = NULL \
             WHERE workspace = $1 AND route = $2 AND record_id = $3"
        );
        let values: [&(dyn ToSql + Sync); 4] = [&workspace, &route, &id, &Jsonb(&row.body)];
        tx.execute(&erase, &values).await.map_err(failed)?;
    }
    Ok(())
}
