//! Positions that only passed changes a sink did not ask for: kept in memory, saved late and together.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::store::error::StoreError;
use crate::store::open::write_tx;

pub(in crate::store) const PASS: &str =
    "UPDATE _sinks SET position = ?3, filtered = filtered + ?4 WHERE name = ?1 AND position = ?2";

/// A position that passed only changes its sink did not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Passed {
    pub(in crate::store) from: i64,
    pub(in crate::store) to: i64,
    pub(in crate::store) filtered: i64,
}

/// Positions that passed only changes their sinks did not ask for, until they are saved together.
#[derive(Debug, Default)]
pub(in crate::store) struct PassedPositions {
    positions: Mutex<BTreeMap<String, Passed>>,
}

impl PassedPositions {
    pub(in crate::store) fn add(&self, sink: &str, passed: Passed) {
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        match positions.get_mut(sink) {
            Some(known) if known.to == passed.from => {
                known.to = passed.to;
                known.filtered += passed.filtered;
            }
            // It was read again from an earlier position.
            _ => {
                positions.insert(sink.to_owned(), passed);
            }
        }
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take(&self) -> BTreeMap<String, Passed> {
        std::mem::take(&mut *self.positions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Saves them in the transaction of `save`; keeps them for the next time if it fails.
    pub(in crate::store) fn saved_with(
        &self,
        connection: &mut Connection,
        save: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let passed = self.take();
        let outcome = (|| {
            let tx = write_tx(connection)?;
            for (sink, passed) in &passed {
                let Passed { from, to, filtered } = passed;
                tx.prepare_cached(PASS)?.execute((sink, from, to, filtered))?;
            }
            save(&tx)?;
            tx.commit()
        })();
        if outcome.is_err() {
            let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
            for (sink, before) in passed {
                match positions.get_mut(&sink) {
                    Some(later) if later.from == before.to => {
                        later.from = before.from;
                        later.filtered += before.filtered;
                    }
                    Some(_) => {}
                    None => {
                        positions.insert(sink, before);
                    }
                }
            }
        }
        Ok(outcome?)
    }
}

/// Saves the positions that passed only changes their sinks did not ask for.
pub(in crate::store) fn save_passed(
    connection: &mut Connection,
    passed: &PassedPositions,
) -> Result<(), StoreError> {
    if passed.is_empty() { Ok(()) } else { passed.saved_with(connection, |_| Ok(())) }
}
