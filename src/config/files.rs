//! The keys that name a file which is only read.
//!
//! Before serde sees a table, what stands in the file takes the place of its name, so that `url_file`
//! and `url` are one key for the checks, and a reload reads each file again. A file that is read later
//! keeps its name, as a path from the folder of the configuration.

use std::borrow::Cow;

use toml::de::DeValue;

use super::table::Table;
use crate::small_file::{self, FileError};

/// A file that holds a secret may be this many bytes long.
pub(super) const SECRET_MAX: u64 = 4096;
const TEMPLATE_MAX: u64 = 256 * 1024;

/// The keys whose file takes the place of a value, and the key of that value.
pub(super) const CONTENTS: [(&str, &str); 6] = [
    ("url_file", "url"),
    ("template_file", "template"),
    ("secret_file", "secret_file"),
    ("login_file", "login_file"),
    ("access_key_file", "access_key_file"),
    ("token_file", "token_file"),
];
/// The keys whose file is read when it is needed.
const PATHS: [&str; 3] = ["api_key_file", "ca_file", "credentials_file"];

pub(super) fn put_in_place(table: &mut Table<'_>) {
    let base = &table.report.base.dir;
    for key in PATHS {
        if let Some((_, value)) = table.entries.get_mut(key)
            && let Some(path) = value.get_ref().as_str()
            && !path.is_empty()
        {
            let path = base.join(path).to_string_lossy().into_owned();
            *value.get_mut() = DeValue::String(Cow::Owned(path));
        }
    }
    for (file_key, key) in CONTENTS {
        let Some((place, mut value)) = table.entries.remove(file_key) else { continue };
        if file_key != key && table.has(key) {
            let message = format!("`{file_key}`: give `{key}` or `{file_key}`, not both");
            table.refuse_file(place, message);
        }
        let path = value.get_ref().as_str().map(|path| base.join(path));
        let content = path.as_deref().map(|path| content(key, path));
        if file_key == "url_file" {
            table.url_file = path;
        }
        match content {
            None => {}
            Some(Ok(text)) if text.is_empty() => {
                let message = format!("`{file_key}`: the file is empty");
                table.refuse_file(value.span().start, message);
                continue;
            }
            Some(Ok(text)) => *value.get_mut() = DeValue::String(Cow::Owned(text)),
            Some(Err(error)) => {
                table.refuse_file(value.span().start, format!("`{file_key}`: {error}"));
                continue;
            }
        }
        table.entries.entry(key.to_owned()).or_insert((place, value));
    }
}

fn content(key: &str, path: &std::path::Path) -> Result<String, FileError> {
    match key {
        // An editor ends the last line; that end is no part of what is sent.
        "template" => {
            small_file::text(path, TEMPLATE_MAX).map(|text| text.trim_end_matches('\n').into())
        }
        _ => small_file::secret_text(path, SECRET_MAX).map(|text| text.trim().to_owned()),
    }
}
