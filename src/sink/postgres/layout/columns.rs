//! Which column of a mirror table holds which field, and the statement that writes its rows.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Client;

use super::{MIRROR, literal, quoted};
use crate::record::Route;
use crate::sink::postgres::trouble::Trouble;

/// A field past this many columns is kept in `body` only.
const MAX: usize = 256;
/// The longest name of a column in PostgreSQL, in bytes.
const MAX_NAME: usize = 63;
/// Columns that every table has; PostgreSQL refuses others of these names.
const SYSTEM: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

/// The columns of one mirror table that hold fields.
#[derive(Debug, Clone, Default)]
pub(in crate::sink::postgres) struct Columns {
    by_field: HashMap<String, String>,
    /// The names in use, without the difference of case that people overlook.
    taken: HashSet<String>,
}

impl Columns {
    pub(super) async fn load(client: &Client, schema: &str, route: Route) -> Result<Self, Trouble> {
        let query =
            format!("SELECT field, \"column\" FROM {}.columns WHERE route = $1", quoted(schema));
        let rows = client
            .query(&query, &[&route.as_str()])
            .await
            .map_err(|e| Trouble::of("reading which columns hold which fields", &e))?;
        let mut columns = Self::default();
        for row in rows {
            columns.put(row.get(0), row.get(1));
        }
        Ok(columns)
    }

    /// Each field with its column, in order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        let mut pairs: Vec<(&String, &String)> = self.by_field.iter().collect();
        pairs.sort();
        pairs.into_iter()
    }

    /// Gives no field these columns, which others made.
    pub(super) fn avoid<'a>(&mut self, columns: impl IntoIterator<Item = &'a String>) {
        self.taken.extend(columns.into_iter().map(|column| column.to_lowercase()));
    }

    fn put(&mut self, field: String, column: String) {
        self.taken.insert(column.to_lowercase());
        self.by_field.insert(field, column);
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_field.len() >= MAX
    }

    /// Whether the field has a column, or is the id.
    pub(in crate::sink::postgres) fn holds(&self, field: &str) -> bool {
        field == "id" || self.by_field.contains_key(field)
    }

    /// Gives a field a column of its own; `None` if it has one or the table is full.
    pub(super) fn name(&mut self, field: &str) -> Option<String> {
        if self.holds(field) || self.is_full() {
            return None;
        }
        let base: String = field.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        let base = if base.is_empty() { "field" } else { base.as_str() };
        let free = |name: &str| {
            let lower = name.to_lowercase();
            !self.taken.contains(&lower)
                && !SYSTEM.contains(&lower.as_str())
                && MIRROR.iter().all(|(own, _)| *own != lower)
        };
        let column = std::iter::once(cut(base, MAX_NAME).to_owned())
            .chain((2..).map(|n| {
                let suffix = format!("_{n}");
                format!("{}{suffix}", cut(base, MAX_NAME - suffix.len()))
            }))
            .find(|name| free(name))
            .expect("the suffixes do not end");
        self.put(field.to_owned(), column.clone());
        Some(column)
    }

    /// The statement that brings the rows of a mirror table up to date with changes in the log:
    /// `$1` is the workspace, `$2` their numbers, `$3` when each record was first seen here.
    ///
    /// A later change is never replaced by an earlier one, and a forgotten record stays away.
    pub(in crate::sink::postgres) fn upsert(&self, schema: &str, route: Route) -> String {
        let schema = quoted(schema);
        let (names, values) = self.names_and_values();
        let sets: String = self
            .pairs()
            .map(|(_, column)| quoted(column))
            .map(|column| format!(", {column} = excluded.{column}"))
            .collect();
        format!(
            "INSERT INTO {schema}.{route} AS m \
             (workspace, id, body, _business, _first_seen_at, _changed_at, _seq{names}) \
             SELECT c.workspace, c.record_id, c.body, c.business, p.first, c.observed_at, c.seq{values} \
             FROM unnest($2::bigint[], $3::timestamptz[]) AS p (seq, first) \
             JOIN {schema}.changes c ON c.workspace = $1 AND c.seq = p.seq \
             WHERE NOT EXISTS (SELECT FROM {schema}.changes f WHERE f.workspace = c.workspace \
             AND f.route = c.route AND f.record_id = c.record_id AND f.kind = 'forgotten') \
             ON CONFLICT (workspace, id) DO UPDATE SET body = excluded.body, \
             _business = excluded._business, _changed_at = excluded._changed_at, \
             _seq = excluded._seq{sets} \
             WHERE excluded._seq > m._seq OR NOT EXISTS (SELECT FROM {schema}.changes o \
             WHERE o.workspace = m.workspace AND o.seq = m._seq)",
            route = quoted(route.as_str()),
        )
    }

    /// The statement that fills an empty mirror table with the newest version of each record in the
    /// log, of every shop.
    pub(super) fn refill(&self, schema: &str, route: Route) -> String {
        let schema = quoted(schema);
        let (names, values) = self.names_and_values();
        format!(
            "INSERT INTO {schema}.{table} \
             (workspace, id, body, _business, _first_seen_at, _changed_at, _seq{names}) \
             SELECT c.workspace, c.record_id, c.body, c.business, p.first, c.observed_at, c.seq{values} \
             FROM (SELECT workspace, max(seq) AS seq, min(observed_at) AS first FROM {schema}.changes \
             WHERE route = '{route}' AND record_id IS NOT NULL AND kind <> 'gap' \
             GROUP BY workspace, record_id HAVING NOT bool_or(kind = 'forgotten')) AS p \
             JOIN {schema}.changes c ON c.workspace = p.workspace AND c.seq = p.seq",
            table = quoted(route.as_str()),
        )
    }

    /// The columns that hold fields, and where their values come from in a change `c`.
    fn names_and_values(&self) -> (String, String) {
        let (mut names, mut values) = (String::new(), String::new());
        for (field, column) in self.pairs() {
            names.push_str(&format!(", {}", quoted(column)));
            values.push_str(&format!(", c.body ->> {}", literal(field)));
        }
        (names, values)
    }
}

/// The beginning of a text of at most this many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_a_column_of_its_own() {
        let mut columns = Columns::default();
        let long = "é".repeat(60);
        for (field, column) in [
            ("name", "name"),
            ("Name", "Name_2"),
            ("workspace", "workspace_2"),
            ("body", "body_2"),
            ("_seq", "_seq_2"),
            ("xmin", "xmin_2"),
            ("", "field"),
            ("a\nb", "a_b"),
            ("a\u{1}b", "a_b_2"),
            (long.as_str(), &long[..62]),
        ] {
            assert_eq!(columns.name(field).as_deref(), Some(column), "{field:?}");
            assert_eq!(columns.name(field), None);
        }
        let other = format!("{long}x");
        let named = columns.name(&other).unwrap();
        assert!(named.ends_with("_2") && named.len() <= MAX_NAME, "{named}");
        assert_eq!(columns.name("id"), None);
    }
}
