//! Which workspace filled the store, and which other one answered instead: two rows of the table
//! `_meta`.
//!
//! A workspace is recognised by its display name, which a ping returns. The address and the key are
//! stored as a digest: while they stay the same, so does the workspace, whatever its name is.

use jiff::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::meta::{self, MetaKey};
use super::operator::Operator;
use super::reader::Reader;

/// The longest name that is stored, in characters.
const MAX_NAME: usize = 200;

/// The workspace that fills the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredWorkspace {
    /// Its display name when it was last read.
    pub name: String,
    /// The address and key that lead to it, as a digest that reveals neither.
    pub account: String,
    /// When its name was last read.
    pub at: Timestamp,
}

/// Another workspace, to which address and key led.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherWorkspace {
    /// The name of the workspace that filled the store.
    pub expected: String,
    /// The name of the one that answered.
    pub found: String,
    /// The address and key that led to it, as a digest.
    pub account: String,
    /// When it answered.
    pub at: Timestamp,
}

impl std::fmt::Display for OtherWorkspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            expected, found, ..
        } = self;
        write!(
            f,
            "the store has the records of the workspace {expected:?}, but base_url and the key \
             lead to {found:?}: nothing is read from it. Correct base_url or the key, or give \
             {found:?} a store of its own (path in [store]). If it is the same shop under another \
             name, run `shopmirror check --accept-workspace`"
        )
    }
}

/// What the operator has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// The other workspace that answered.
    Met(OtherWorkspace),
    /// The address and key, whose workspace has not reported its name.
    Unnamed {
        /// The name in the store.
        name: String,
    },
    /// Nothing, because this one answered to another address or key.
    Outdated(OtherWorkspace),
    /// Nothing, because the address and key are those of before.
    Nothing,
}

impl StoredWorkspace {
    /// Whether this address and key are those of before, so that nothing needs to be compared.
    #[must_use]
    pub fn is_of(&self, account: &str) -> bool {
        self.account == account
    }
}

/// Compares the name that the workspace behind an address and key reports, with `known`, the one
/// that filled the store; returns the row to store. The same address and key cannot lead to another
/// workspace, because a key belongs to one.
///
/// # Errors
/// It is another workspace.
pub fn judge_workspace(
    known: Option<&StoredWorkspace>,
    account: String,
    name: &str,
    at: Timestamp,
) -> Result<StoredWorkspace, OtherWorkspace> {
    let name: String = name.trim().chars().take(MAX_NAME).collect();
    match known {
        Some(known) if known.name != name && !known.is_of(&account) => Err(OtherWorkspace {
            expected: known.name.clone(),
            found: name,
            account,
            at,
        }),
        _ => Ok(StoredWorkspace { name, account, at }),
    }
}

fn known(connection: &Connection) -> rusqlite::Result<Option<StoredWorkspace>> {
    meta::read(connection, MetaKey::WORKSPACE.0)
}

/// The other workspace, if it answered after the one that fills the store did last.
fn other(connection: &Connection) -> rusqlite::Result<Option<OtherWorkspace>> {
    let other: Option<OtherWorkspace> = meta::read(connection, MetaKey::OTHER_WORKSPACE.0)?;
    match (other, known(connection)?) {
        (Some(other), Some(known)) if known.at >= other.at => Ok(None),
        (other, _) => Ok(other),
    }
}

impl Operator {
    /// Accepts the workspace to which this address and key lead as the one that filled the store.
    pub fn accept_workspace(&mut self, account: &str) -> Result<Acceptance, StoreError> {
        let tx = self.write_tx()?;
        if let Some(other) = other(&tx)? {
            if other.account != account {
                return Ok(Acceptance::Outdated(other));
            }
            let accepted = StoredWorkspace {
                name: other.found.clone(),
                account: other.account.clone(),
                at: other.at,
            };
            meta::write(&tx, MetaKey::WORKSPACE.0, &accepted)?;
            tx.commit()?;
            return Ok(Acceptance::Met(other));
        }
        match known(&tx)? {
            Some(known) if !known.is_of(account) => {
                let name = known.name.clone();
                let accepted = StoredWorkspace {
                    account: account.to_owned(),
                    ..known
                };
                meta::write(&tx, MetaKey::WORKSPACE.0, &accepted)?;
                tx.commit()?;
                Ok(Acceptance::Unnamed { name })
            }
            _ => Ok(Acceptance::Nothing),
        }
    }
}

impl Reader {
    /// Which workspace fills the store; `None` if its name was never read.
    pub fn workspace(&self) -> Result<Option<StoredWorkspace>, StoreError> {
        Ok(known(&self.connection)?)
    }

    /// Which other workspace answered, if the address and key still have to be corrected.
    pub fn other_workspace(&self) -> Result<Option<OtherWorkspace>, StoreError> {
        Ok(other(&self.connection)?)
    }
}
