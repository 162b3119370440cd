//! The names of the tables: the schema that they are in, and the role that writes to them.

/// The schema of the tables, and the role that writes to them.
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) role: String,
}

impl Schema {
    /// A table of the schema, in quotes.
    pub(super) fn table(&self, name: &str) -> String {
        format!("{}.{}", quoted(&self.name), quoted(name))
    }
}

/// An identifier in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as an SQL literal, whatever the server's settings.
pub(super) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
