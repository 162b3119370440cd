//! `init` if the configuration exists: changes the keys that the options name, and leaves
//! the rest of the file as it was written, with its comments.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::Context;
use rustix::fs::{Gid, Uid};
use toml_edit::{DocumentMut, Item, value};

use crate::cli::exit::{CONFIG, refuse};
use crate::config::Config;
use crate::files::owner::folder_of;

/// A key of the configuration, and its value from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    pub(super) value: String,
}

/// Changes the file, unless it would not be a configuration any more.
pub(super) fn apply(path: &Path, changes: &[Change]) -> anyhow::Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let changed = changed(&text, changes)?;
    Config::parse_file_text(&changed, path)?;
    replace(path, &changed).with_context(|| format!("writing {}", path.display()))
}

fn changed(text: &str, changes: &[Change]) -> anyhow::Result<String> {
    let Ok(mut document) = text.parse::<DocumentMut>() else {
        return refuse(
            CONFIG,
            "the configuration is no TOML: run `shopmirror check`, which says where",
        );
    };
    // At the end, so that no comment comes to stand below another table.
    let mut added = String::new();
    for change in changes {
        let Some(section) = document.get_mut(change.section) else {
            let value = value(&change.value);
            added += &format!("\n[{}]\n{} = {value}\n", change.section, change.key);
            continue;
        };
        let Some(section) = section.as_table_like_mut() else {
            let name = change.section;
            return refuse(CONFIG, format!("{name} must be a table: write [{name}]"));
        };
        match section.get_mut(change.key).and_then(Item::as_value_mut) {
            Some(old) => {
                // With the comment behind it.
                let decor = old.decor().clone();
                *old = change.value.as_str().into();
                *old.decor_mut() = decor;
            }
            None => {
                section.insert(change.key, value(&change.value));
            }
        }
    }
    Ok(document.to_string() + &added)
}

/// Writes the file whole beside its place, with its owner and mode, and moves it there.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    // A link stays one.
    let path = path.canonicalize()?;
    let before = fs::metadata(&path)?;
    let mut file = tempfile::NamedTempFile::new_in(folder_of(&path))?;
    let owner = Uid::from_raw(before.uid());
    rustix::fs::fchown(&file, Some(owner), Some(Gid::from_raw(before.gid())))?;
    let mode = fs::Permissions::from_mode(before.mode() & 0o7777);
    file.as_file().set_permissions(mode)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    fs::File::open(folder_of(&path))?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_the_rest_of_the_file_as_it_was_written() {
        let text = "# Mine.\n[workspace]\nbase_url   =  \"https://a.example.com/api\" # old\n\n\
                    [status]\n# Off.\n#listen = \"x\"\n";
        let change = |section, key, value: &str| Change {
            section,
            key,
            value: value.to_owned(),
        };
        let changes = [
            change("workspace", "base_url", "https://b.example.com/api"),
            change("reports", "currency", "EUR"),
        ];
        let after = changed(text, &changes).unwrap();
        let wanted = text.replace("a.example", "b.example") + "\n[reports]\ncurrency = \"EUR\"\n";
        assert_eq!(after, wanted);
        assert!(changed("[workspace", &changes).is_err());
    }
}
