//! The keys for the shape in which a sink writes a change: `format`, `template` and `content_type`.
//!
//! A template is compiled here, so that `check` reports its problems without any change. It may
//! hold a token, so no message quotes it.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::table::Table;
use crate::files::read;
use crate::shape::{CloudEvents, Escape, Format, NAMES, Template};

const TEMPLATE_MAX: u64 = 256 * 1024;

#[derive(Deserialize)]
struct ShapeKeys {
    #[serde(default)]
    format: FormatName,
    template: Option<String>,
    #[serde(default, deserialize_with = "in_file")]
    template_file: Option<String>,
    #[serde(default = "json")]
    content_type: String,
}

/// The value of `format`.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormatName {
    #[default]
    Standard,
    CloudEvents,
    Raw,
    Template,
}

fn json() -> String {
    "application/json".to_owned()
}

fn in_file<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let text = read::text(&PathBuf::deserialize(d)?, TEMPLATE_MAX);
    let text = text.map_err(|error| {
        D::Error::custom(format!(
            "names a file that the user of the service cannot use: {error}"
        ))
    })?;
    // An editor ends the last line; that line break is not part of the template.
    Ok(Some(text.trim_end_matches('\n').to_owned()))
}

/// The shape; `None` only if a problem was noted. `source` is the source of CloudEvents.
pub(super) fn read(table: &Table<'_>, source: &str) -> Option<Format> {
    let ShapeKeys {
        format,
        template,
        template_file,
        content_type,
    } = table.read(&[])?;
    let template_key = if template_file.is_some() {
        "template_file"
    } else {
        "template"
    };
    if format != FormatName::Template {
        for key in [template_key, "content_type"] {
            if table.has(key) {
                table.note(
                    key,
                    "is only for format = \"template\": add that, or remove this",
                );
            }
        }
    }
    match format {
        FormatName::Standard => Some(Format::Standard),
        FormatName::CloudEvents => Some(Format::CloudEvents(CloudEvents {
            source: source.to_owned(),
        })),
        FormatName::Raw => Some(Format::Raw),
        FormatName::Template => {
            let Some(text) = template_file.or(template) else {
                table.note_here(
                    "format = \"template\" needs `template`: what to send, with values in {{ }}; \
                     or name its file with template_file",
                );
                return None;
            };
            let escape = Escape::for_media_type(&content_type);
            let template = compiled(table, &[template_key], &text, escape, &NAMES)?;
            Some(Format::Template {
                template,
                content_type,
            })
        }
    }
}

/// The template at a path; `None` only if a problem was noted.
pub(super) fn compiled(
    table: &Table<'_>,
    path: &[&str],
    text: &str,
    escape: Escape,
    names: &[&str],
) -> Option<Template> {
    match Template::compile(text, escape, names) {
        Ok(template) => Some(template),
        Err(error) => {
            table.note_inside(path, format!("in `{}`, {error}", path[0]));
            None
        }
    }
}
