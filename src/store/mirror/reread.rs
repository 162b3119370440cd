//! Reading the derived columns of a table again, from the log: in bounded steps between the polls,
//! after the rules of one of its fields changed.
//!
//! A record that is stored meanwhile is read by the new rules at once. A step that was committed
//! stays, whatever happens to the process.

use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::reading::ReadSettings;
use shopmirror_core::record::{Fields, Route};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::mirror::field_rules::{self, FieldRules};
use crate::store::mirror::{Mirror, derived, job_states};
use crate::store::open::write_tx;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// Records of one step.
const STEP: usize = 500;

/// A table whose derived columns are being read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reread {
    /// The route.
    pub route: Route,
    /// Records that were read again.
    pub done: i64,
    /// About how many there are.
    pub total: i64,
}

/// Lets a table be read again, unless it is empty.
pub(in crate::store) fn begin(connection: &Connection, route: Route) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT OR REPLACE INTO _rereads (route, after_id, done, total)
        SELECT :route, '', 0, count(*)
        FROM \"{route}\"
        HAVING count(*) > 0"
    );
    connection.run(&sql, named_params! { ":route": route.as_str() })?;
    Ok(())
}

/// Whether a table is being read again.
pub(in crate::store) fn is_running(
    connection: &Connection,
    route: Route,
) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM _rereads WHERE route = :route)";
    connection.value(sql, named_params! { ":route": route.as_str() })
}

/// The records of a table after one, each as received last.
pub(in crate::store) fn next_sql(route: Route) -> String {
    format!(
        "SELECT m.id, c.body
        FROM \"{route}\" m
        JOIN changes c ON c.seq = m._seq
        WHERE m.id > :after
        ORDER BY m.id
        LIMIT {STEP}"
    )
}

/// Writes the derived columns of the row `:id`, if one of them differs.
fn update_sql(route: Route) -> String {
    let mut sets = Vec::new();
    let mut differs = Vec::new();
    for (place, name) in (2..).zip(derived::names(route)) {
        sets.push(format!("{name} = ?{place}"));
        differs.push(format!("{name} IS NOT ?{place}"));
    }
    format!(
        "UPDATE \"{route}\"
        SET {}
        WHERE id = ?1
            AND ({})",
        sets.join(", "),
        differs.join(" OR ")
    )
}

impl Store {
    /// Takes the settings by which values are read.
    ///
    /// # Errors
    /// If the file cannot be written; values are read as before.
    pub async fn configure_reading(&self, settings: ReadSettings) -> Result<(), StoreError> {
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            if field_rules::configure(&tx, &settings)? {
                tx.commit()?;
            }
            Ok(())
        })
        .await
    }

    /// Reads a few hundred records again, if there are some to read again; returns whether there
    /// may be more.
    pub async fn reread_step(&self) -> Result<bool, StoreError> {
        self.write(|writer| {
            if next(&writer.connection)?.is_none() {
                return Ok(false);
            }
            let tx = write_tx(&mut writer.connection)?;
            step(&tx)?;
            tx.commit()?;
            Ok(true)
        })
        .await
    }
}

impl Reader {
    /// The tables that are being read again.
    pub fn rereads(&self) -> Result<Vec<Reread>, StoreError> {
        let sql = "
            SELECT route, done, total
            FROM _rereads
            ORDER BY route";
        Ok(self.connection.rows(sql, [])?)
    }
}

#[derive(Deserialize)]
struct Next {
    route: Route,
    after_id: String,
}

fn next(connection: &Connection) -> rusqlite::Result<Option<Next>> {
    let sql = "
        SELECT route, after_id
        FROM _rereads
        ORDER BY route
        LIMIT 1";
    connection.row(sql, [])
}

/// Reads the next records again.
fn step(connection: &Connection) -> rusqlite::Result<()> {
    let Some(Next { route, after_id }) = next(connection)? else {
        return Ok(());
    };
    let rules = FieldRules::load(connection, route)?;
    let mirror = Mirror::load(connection, route)?;
    let update = update_sql(route);
    let records: Vec<(String, String)> = connection
        .prepare_cached(&next_sql(route))?
        .query_map(named_params! { ":after": after_id }, |row| row.try_into())?
        .collect::<rusqlite::Result<_>>()?;
    let mut jobs = Vec::new();
    for (id, body) in &records {
        let fields = Fields::parse(body).unwrap_or_default();
        let mut values = vec![id.clone().into()];
        values.extend(rules.cells(&fields));
        if connection.run(&update, rusqlite::params_from_iter(values))? > 0 {
            jobs.extend(mirror.jobs_of(connection, id)?);
        }
    }
    job_states::refresh(connection, &jobs)?;
    let Some((last, _)) = records.last() else {
        let sql = "DELETE FROM _rereads WHERE route = :route";
        connection.run(sql, named_params! { ":route": route.as_str() })?;
        return Ok(());
    };
    let done = i64::try_from(records.len()).expect("a step is small");
    let sql = "
        UPDATE _rereads
        SET after_id = :last, done = done + :done
        WHERE route = :route";
    connection.run(
        sql,
        named_params! { ":last": last, ":done": done, ":route": route.as_str() },
    )?;
    Ok(())
}
