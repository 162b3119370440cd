//! Which column of a file is which field of a record: by its name, or as the operator says.

use serde::Serialize;
use shopmirror_core::reading::fields_of;
use shopmirror_core::record::Route;

use super::sheet::Sheet;
use crate::cli::exit::{USAGE, refuse};
use crate::cli::output::cell;
use crate::store::Reader;

/// Fields that each record may have, beside those that the mirror has seen.
const USUAL: [&str; 6] = [
    "id",
    "name",
    "customer_name",
    "status",
    "status_stage",
    "created_at",
];

/// A field and the column that it is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    field: String,
    column: String,
}

/// Parses `FIELD=COLUMN`.
pub(super) fn mapping(text: &str) -> Result<Mapping, String> {
    let Some((field, column)) = text.split_once('=') else {
        return Err("write FIELD=COLUMN, for example created_at=\"Taken in\"".to_owned());
    };
    let field = field.trim();
    if field.is_empty() || field.starts_with('_') {
        return Err("the field needs a name that does not begin with _".to_owned());
    }
    Ok(Mapping {
        field: field.to_owned(),
        column: column.trim().to_owned(),
    })
}

/// A field of records, and the column of the file that it is taken from.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct TakenColumn {
    pub(super) field: String,
    pub(super) column: String,
}

/// The columns of a file, each with its field if it is taken.
pub(super) struct Columns {
    names: Vec<String>,
    /// Of each column the field; `None` if it is not taken.
    pub(super) fields: Vec<Option<String>>,
}

impl Columns {
    /// Finds the fields of the columns.
    ///
    /// # Errors
    /// If no column is the id, or a field has two columns.
    pub(super) fn find(
        sheet: &Sheet,
        route: Route,
        reader: &Reader,
        mappings: &[Mapping],
    ) -> anyhow::Result<Self> {
        let mut known: Vec<String> = reader.columns(route)?;
        known.retain(|column| !column.starts_with('_'));
        known.extend(USUAL.map(str::to_owned));
        known.extend(fields_of(route).iter().map(|field| field.name.to_owned()));
        Self::matched(&sheet.columns, &known, mappings)
    }

    fn matched(names: &[String], known: &[String], mappings: &[Mapping]) -> anyhow::Result<Self> {
        let mut fields: Vec<Option<String>> = vec![None; names.len()];
        for mapping in mappings {
            let Some(place) = names.iter().position(|name| *name == mapping.column) else {
                return refuse(
                    USAGE,
                    format!(
                        "no column is named {:?}: there are {}",
                        cell(&mapping.column, 60),
                        list(names)
                    ),
                );
            };
            fields[place] = Some(mapping.field.clone());
        }
        for (place, name) in names.iter().enumerate() {
            let field = field_name(name);
            let is_mapped = mappings.iter().any(|mapping| mapping.field == field);
            if fields[place].is_none() && !is_mapped && known.contains(&field) {
                fields[place] = Some(field);
            }
        }
        let columns = Self {
            names: names.to_vec(),
            fields,
        };
        columns.check()?;
        Ok(columns)
    }

    fn check(&self) -> anyhow::Result<()> {
        let mut seen: Vec<&String> = Vec::new();
        for field in self.fields.iter().flatten() {
            if seen.contains(&field) {
                return refuse(
                    USAGE,
                    format!("two columns are {field}: name one with --map {field}=COLUMN"),
                );
            }
            seen.push(field);
        }
        if seen.iter().any(|field| *field == "id") {
            return Ok(());
        }
        refuse(
            USAGE,
            format!(
                "no column is `id`: name it with --map id=COLUMN; there are {}",
                list(&self.names)
            ),
        )
    }

    /// Each field with its column.
    pub(super) fn taken(&self) -> Vec<TakenColumn> {
        let mut taken = Vec::new();
        for (name, field) in self.names.iter().zip(&self.fields) {
            if let Some(field) = field {
                taken.push(TakenColumn {
                    field: field.clone(),
                    column: name.clone(),
                });
            }
        }
        taken
    }

    /// The columns that are not taken.
    pub(super) fn others(&self) -> Vec<String> {
        let mut others = Vec::new();
        for (name, field) in self.names.iter().zip(&self.fields) {
            if field.is_none() {
                others.push(name.clone());
            }
        }
        others
    }
}

/// The name of a column as a field is written: `Created At` is `created_at`.
fn field_name(column: &str) -> String {
    column.trim().to_lowercase().replace([' ', '-'], "_")
}

fn list(names: &[String]) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("{:?}", cell(name, 40)))
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_column_is_a_field_by_its_name_or_as_the_operator_says() {
        let file = names(&["Job", "Created At", "Paid", "Secret note"]);
        let known = names(&["id", "created_at"]);
        let mappings = [
            mapping("id=Job").unwrap(),
            mapping("paid_amount=Paid").unwrap(),
        ];
        let columns = Columns::matched(&file, &known, &mappings).unwrap();
        assert_eq!(columns.others(), ["Secret note"]);
        let taken = &columns.taken()[1];
        assert_eq!(
            (&*taken.field, &*taken.column),
            ("created_at", "Created At")
        );
        for wrong in ["id=Jobs", "name=Paid"] {
            let mappings = [mapping(wrong).unwrap()];
            assert!(
                Columns::matched(&file, &known, &mappings).is_err(),
                "{wrong}"
            );
        }
        assert!(mapping("_seq=Job").is_err() && mapping("id").is_err());
    }
}
