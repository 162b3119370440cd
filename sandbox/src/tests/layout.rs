//! No circle among the top-level modules: each can be read without the ones that use it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each top-level module with the other top-level modules its files name, nested files included.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let inside = path.strip_prefix(&src).unwrap().with_extension("");
            let module = inside.iter().next().unwrap().to_string_lossy().into_owned();
            if module == "lib" || module == "tests" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let root = if inside.iter().count() == 1 {
                    "use super::"
                } else {
                    "use crate::"
                };
                uses.entry(module).or_default().extend(named(&path, root));
            }
        }
    }
    uses
}

/// The modules that the `use` lines of a file name, up to its tests.
fn named(path: &PathBuf, root: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let trees = shipped.lines().filter_map(|line| line.strip_prefix(root));
    let word = |text: &str| {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let names = trees.flat_map(|tree| match tree.strip_prefix('{') {
        Some(group) => group.split(", ").map(word).collect(),
        None => vec![word(tree)],
    });
    names.collect()
}

#[test]
fn no_module_is_used_by_what_it_uses() {
    let mut uses = uses();
    assert!(uses.len() > 15, "the files were read: {uses:?}");
    for (module, used) in &uses {
        for name in used {
            assert!(
                uses.contains_key(name),
                "{module} uses {name} by way of the root"
            );
        }
    }
    // A module that uses nothing more is done, until none is left or a circle remains.
    loop {
        let done: Vec<String> = uses
            .iter()
            .filter(|(_, used)| used.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        if done.is_empty() {
            break;
        }
        uses.retain(|name, _| !done.contains(name));
        uses.values_mut()
            .for_each(|used| used.retain(|name| !done.contains(name)));
    }
    assert!(uses.is_empty(), "these modules use one another: {uses:?}");
}
