//! What the database's catalogue says about the tables of one schema.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Client;

use super::{Columns, LOOKING, Required, tables};
use crate::record::Route;
use crate::sink::postgres::trouble::Trouble;

/// The tables of one schema: those that are there, and what is wrong with them.
pub(super) struct Found {
    /// Our tables that do not exist.
    pub(super) missing: Vec<&'static str>,
    /// Tables of routes that others changed so that they cannot be used, with what is wrong.
    pub(super) broken: HashMap<Route, String>,
    /// Each column with its type, by table.
    columns: HashMap<String, HashMap<String, String>>,
}

impl Found {
    /// Fails if a table belongs to another program. Beside a log of ours, a table of a route that is
    /// not as it must be is one that was changed: it stops only itself.
    pub(super) async fn look(client: &Client, schema: &str) -> Result<Self, Trouble> {
        let names: Vec<&str> = tables().into_iter().map(|(name, ..)| name).collect();
        let rows = client
            .query(
                "SELECT c.relname::text, c.relkind::text, a.attname::text, format_type(a.atttypid, a.atttypmod) \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
                 WHERE n.nspname = $1 AND c.relname = ANY($2)",
                // A schema that is shared with another program can hold many thousands of others.
                &[&schema, &names],
            )
            .await
            .map_err(|e| Trouble::of(LOOKING, &e))?;
        let mut kinds: HashMap<String, String> = HashMap::new();
        let mut columns: HashMap<String, HashMap<String, String>> = HashMap::new();
        for row in &rows {
            let table: String = row.get(0);
            let of_table = columns.entry(table.clone()).or_default();
            if let Some(column) = row.get::<_, Option<String>>(2) {
                of_table.insert(column, row.get::<_, Option<String>>(3).unwrap_or_default());
            }
            kinds.insert(table, row.get(1));
        }
        let mut found = Self { missing: Vec::new(), broken: HashMap::new(), columns };
        let is_in_use = kinds.contains_key("changes") && kinds.contains_key("positions");
        for (name, required, _) in tables() {
            let Some(kind) = kinds.get(name) else {
                found.missing.push(name);
                continue;
            };
            let Err(what) = ensure_ours(kind, &found.columns[name], required) else { continue };
            match name.parse::<Route>() {
                Ok(route) if is_in_use => {
                    found.broken.insert(route, format!("it {what}"));
                }
                _ => return Err(foreign(schema, name, &what)),
            }
        }
        Ok(found)
    }

    /// Whether every table is there, and every column that holds a field.
    pub(super) fn is_complete(&self, columns: &HashMap<Route, Columns>) -> bool {
        self.missing.is_empty()
            && columns.iter().all(|(route, columns)| self.lost(*route, columns).is_empty())
    }

    /// The fields of a table that exists whose columns do not, with these columns.
    pub(super) fn lost<'a>(
        &self,
        route: Route,
        columns: &'a Columns,
    ) -> Vec<(&'a String, &'a String)> {
        match self.columns.get(route.as_str()) {
            Some(there) if !self.broken.contains_key(&route) => {
                columns.pairs().filter(|(_, column)| !there.contains_key(*column)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The columns of a table whose type is not ours.
    pub(super) fn foreign_columns(&self, route: Route) -> HashSet<&String> {
        let there = self.columns.get(route.as_str()).into_iter().flatten();
        there.filter(|(_, kind)| *kind != "text").map(|(column, _)| column).collect()
    }
}

fn foreign(schema: &str, name: &str, what: &str) -> Trouble {
    Trouble::Server(format!(
        "{schema}.{name} {what}: it belongs to another program; name another `schema`, or rename it"
    ))
}

/// What is wrong with a table of this name, if it cannot be ours.
fn ensure_ours(
    kind: &str,
    columns: &HashMap<String, String>,
    required: &[Required],
) -> Result<(), String> {
    // An ordinary table or a partitioned one.
    if !["r", "p"].contains(&kind) {
        return Err("is not a table".to_owned());
    }
    for (column, wanted) in required {
        match columns.get(*column) {
            Some(found) if found == wanted => {}
            Some(found) => {
                return Err(format!("has a column {column} of type {found}, not {wanted}"));
            }
            None => return Err(format!("has no column {column}")),
        }
    }
    Ok(())
}
