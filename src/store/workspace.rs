//! Which workspace filled the store, and which other one was met instead: two rows of the table
//! `_meta`.
//!
//! A workspace is known by its display name, which a ping tells. The address and the key are kept
//! as a digest: while they stay the same, so does the workspace, whatever its name is.

use jiff::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::kept::Kept;
use super::meta;
use super::operate::Operator;
use super::reader::Reader;

/// The longest name that is kept, in characters.
const MAX_NAME: usize = 200;

/// The workspace that fills the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownWorkspace {
    /// Its display name when it was last read.
    pub name: String,
    /// The address and key that lead to it, as a digest that tells neither.
    pub account: String,
    /// When its name was last read.
    pub at: Timestamp,
}

/// Another workspace, to which address and key led.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherWorkspace {
    /// The name of the workspace that filled the store.
    pub expected: String,
    /// The name of the one that was met.
    pub found: String,
    /// The address and key that led to it, as a digest.
    pub account: String,
    /// When it was met.
    pub at: Timestamp,
}

impl std::fmt::Display for OtherWorkspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            expected, found, ..
        } = self;
        write!(
            f,
            "the store has the records of the workspace {expected:?}, but base_url and the key lead to \
             {found:?}: nothing is read from it. Correct base_url or the key, or give {found:?} a store of \
             its own (path in [store]). If it is the same shop under another name, run `shopmirror check --accept-workspace`"
        )
    }
}

/// What the operator has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// The other workspace that was met.
    Met(OtherWorkspace),
    /// The address and key, whose workspace has told no name.
    Unnamed {
        /// The name that the store keeps.
        name: String,
    },
    /// Nothing, because this one was met with another address or key.
    Outdated(OtherWorkspace),
    /// Nothing, because the address and key are those of before.
    Nothing,
}

impl KnownWorkspace {
    /// Whether this address and key are those of before, so that nothing needs to be compared.
    #[must_use]
    pub fn is_of(&self, account: &str) -> bool {
        self.account == account
    }
}

/// Compares the name that the workspace behind an address and key tells, with `known`, the one that
/// filled the store; returns what is to be kept of it. The same address and key cannot lead to
/// another workspace, because a key belongs to one.
///
/// # Errors
/// It is another workspace.
pub fn judge_workspace(
    known: Option<&KnownWorkspace>,
    account: String,
    name: &str,
    at: Timestamp,
) -> Result<KnownWorkspace, OtherWorkspace> {
    let name: String = name.trim().chars().take(MAX_NAME).collect();
    match known {
        Some(known) if known.name != name && !known.is_of(&account) => Err(OtherWorkspace {
            expected: known.name.clone(),
            found: name,
            account,
            at,
        }),
        _ => Ok(KnownWorkspace { name, account, at }),
    }
}

fn known(connection: &Connection) -> rusqlite::Result<Option<KnownWorkspace>> {
    meta::read(connection, Kept::WORKSPACE.0)
}

/// The one that was met since the workspace that fills the store told its name last.
fn other(connection: &Connection) -> rusqlite::Result<Option<OtherWorkspace>> {
    let other: Option<OtherWorkspace> = meta::read(connection, Kept::OTHER_WORKSPACE.0)?;
    let known = known(connection)?;
    Ok(other.filter(|other| known.is_none_or(|known| known.at < other.at)))
}

impl Operator {
    /// Takes the workspace to which this address and key lead for the one that filled the store.
    ///
    /// # Errors
    /// Nothing is changed.
    pub fn accept_workspace(&mut self, account: &str) -> Result<Acceptance, StoreError> {
        let known = known(&self.connection)?.filter(|known| !known.is_of(account));
        let (taken, acceptance) = match (other(&self.connection)?, known) {
            (Some(other), _) if other.account != account => {
                return Ok(Acceptance::Outdated(other));
            }
            (Some(other), _) => {
                let OtherWorkspace {
                    found: name,
                    account,
                    at,
                    ..
                } = other.clone();
                (KnownWorkspace { name, account, at }, Acceptance::Met(other))
            }
            (None, Some(known)) => {
                let name = known.name.clone();
                let account = account.to_owned();
                (
                    KnownWorkspace { account, ..known },
                    Acceptance::Unnamed { name },
                )
            }
            (None, None) => return Ok(Acceptance::Nothing),
        };
        meta::write(&self.connection, Kept::WORKSPACE.0, &taken)?;
        Ok(acceptance)
    }
}

impl Reader {
    /// Which workspace fills the store; `None` if its name was never read.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn workspace(&self) -> Result<Option<KnownWorkspace>, StoreError> {
        Ok(known(&self.connection)?)
    }

    /// Which other workspace was met last, if the address and key still have to be corrected.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn other_workspace(&self) -> Result<Option<OtherWorkspace>, StoreError> {
        Ok(other(&self.connection)?)
    }
}
