//! The state file: what clients and the portal put into the sandbox, kept across starts.
//!
//! Holds the seed, the clock and every input, not the shop's own history, which follows from
//! them. A file is replaced as a whole or not at all; one that is not ours is never touched.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::intake::Definition;
use super::intake::form::Form;
use super::intake::ledger::{Kept, Ledger};
use super::journal::Entry;
use super::keys::Keys;
use super::options::Options;
use super::shop::Shop;
use super::state::Inner;

const KIND: &str = "shopmirror sandbox state";
const VERSION: u32 = 1;
/// The largest file that is read.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file cannot be read or written.
    #[error("cannot use the state file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file was made by something else, or by a newer version.
    #[error("{path} is not a state file of this sandbox: name another file, or move it away")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to a sandbox of another seed or shop.
    #[error(
        "{path} was made with --seed {seed} --shop {shop}: start with these options, or name another file"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// Its seed.
        seed: u64,
        /// Its shop.
        shop: Shop,
    },
}

/// The file's content.
#[derive(Serialize, Deserialize)]
struct State {
    kind: String,
    version: u32,
    seed: u64,
    shop: Shop,
    start: Timestamp,
    now: Timestamp,
    request_ids: u64,
    requests_per_minute: u32,
    standard_host: Option<String>,
    automation_key: String,
    rest_key: String,
    keys: Keys,
    forms: Vec<((u32, String), Form)>,
    definitions: std::collections::BTreeMap<String, Vec<Definition>>,
    ledger: Kept,
    inputs: Vec<Entry>,
}

/// Where a sandbox's state is kept.
#[derive(Debug, Clone)]
pub(super) struct StateFile {
    path: PathBuf,
    seed: u64,
    shop: Shop,
}

impl StateFile {
    pub(super) fn of(options: &Options) -> Option<Self> {
        let path = options.state_file.clone()?;
        Some(Self {
            path,
            seed: options.seed,
            shop: options.shop,
        })
    }

    /// The sandbox as it was left, or a fresh one when there is no file yet.
    pub(super) fn open(&self, options: &Options) -> Result<Inner, StateError> {
        let state = match self.read() {
            Ok(text) => serde_json::from_slice::<State>(&text)
                .ok()
                .filter(|state| state.kind == KIND && state.version == VERSION)
                .ok_or_else(|| StateError::Foreign {
                    path: self.path.clone(),
                })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let inner = Inner::new(options);
                // Written now, so that a path that cannot be written fails at the start.
                self.write(&self.encode(&inner))?;
                return Ok(inner);
            }
            Err(source) => return Err(self.io(source)),
        };
        if (state.seed, state.shop) != (self.seed, self.shop) {
            let (seed, shop) = (state.seed, state.shop);
            return Err(StateError::Other {
                path: self.path.clone(),
                seed,
                shop,
            });
        }
        let start = Some(state.start);
        let mut inner = Inner::new(&Options {
            start,
            ..options.clone()
        });
        for entry in &state.inputs {
            // An input that was accepted once is accepted again: the history is the same.
            if inner.put_again(entry.at, &entry.input).is_err() {
                return Err(StateError::Foreign {
                    path: self.path.clone(),
                });
            }
        }
        inner.move_clock(state.now.duration_since(inner.now()));
        inner.grow();
        inner.request_ids = state.request_ids;
        inner.requests_per_minute = state.requests_per_minute;
        inner.standard_host = state.standard_host;
        (inner.automation_key, inner.rest_key) = (state.automation_key, state.rest_key);
        inner.keys = state.keys;
        inner.intake.forms = state.forms.into_iter().collect();
        inner.intake.definitions = state.definitions;
        inner.intake.ledger = Ledger::restore(state.ledger);
        Ok(inner)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        if fs::metadata(&self.path)?.len() > MAX_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it is far too large",
            ));
        }
        fs::read(&self.path)
    }

    /// The file's text for a sandbox as it is now.
    pub(super) fn encode(&self, inner: &Inner) -> Vec<u8> {
        let state = State {
            kind: KIND.to_owned(),
            version: VERSION,
            seed: self.seed,
            shop: self.shop,
            start: inner.start,
            now: inner.now(),
            request_ids: inner.request_ids,
            requests_per_minute: inner.requests_per_minute,
            standard_host: inner.standard_host.clone(),
            automation_key: inner.automation_key.clone(),
            rest_key: inner.rest_key.clone(),
            keys: inner.keys.clone(),
            forms: inner.intake.forms.clone().into_iter().collect(),
            definitions: inner.intake.definitions.clone(),
            ledger: inner.intake.ledger.keep(),
            inputs: inner.journal.entries().to_vec(),
        };
        serde_json::to_vec(&state).expect("the state is plain data with text for names")
    }

    /// Replaces the file: a reader sees either the old text or the new one.
    pub(super) fn write(&self, text: &[u8]) -> Result<(), StateError> {
        replace(&self.path, text).map_err(|source| self.io(source))
    }

    fn io(&self, source: io::Error) -> StateError {
        StateError::Io {
            path: self.path.clone(),
            source,
        }
    }
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = folder.join(name);
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::{Route, Sandbox};

    fn options(path: &Path) -> Options {
        Options {
            state_file: Some(path.to_owned()),
            ..Options::default()
        }
    }

    #[test]
    fn a_sandbox_opened_again_is_the_one_that_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&folder.path().join("state.json"));
        let first = Sandbox::open(&options).unwrap();
        first.advance_clock(600);
        let id = first.add_record(Route::Leads, None, Map::new()).unwrap();
        first.pause_growth(true);
        let edit = json!({"status": "Won"}).as_object().unwrap().clone();
        first.edit(Route::Leads, &id, edit).unwrap();
        first.burst(Route::Jobs, 3);
        first.save().unwrap();
        let again = Sandbox::open(&options).unwrap();
        let truth = |sandbox: &Sandbox| {
            Route::ALL.map(|route| serde_json::to_string(&sandbox.truth(route)).unwrap())
        };
        assert_eq!(truth(&first), truth(&again));
        assert_eq!(first.automation_key(), again.automation_key());
        assert!(again.now() >= first.now() - std::time::Duration::from_secs(60));
    }

    #[test]
    fn a_file_that_is_not_ours_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shopping.json");
        fs::write(&path, "{\"milk\": 2}").unwrap();
        let refused = Sandbox::open(&options(&path)).err().unwrap();
        assert!(matches!(refused, StateError::Foreign { .. }));
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"milk\": 2}");
    }

    #[test]
    fn another_seed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        Sandbox::open(&options(&path)).unwrap();
        let other = Options {
            seed: 2,
            ..options(&path)
        };
        assert!(matches!(
            Sandbox::open(&other).err().unwrap(),
            StateError::Other { seed: 1, .. }
        ));
    }
}
