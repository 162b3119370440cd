//! What a later process must know of this one's requests, also after a kill: when it began, and how
//! long the workspace asked to wait. One row of the table `meta`.
//!
//! Polls that changed nothing are written late, so a process that was killed has sent more requests
//! than `polls` tells.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};

use super::Store;
use super::error::StoreError;
use super::meta;
use super::reader::Reader;
use super::writer::Writer;

const NAME: &str = "spending";
/// This many starts are kept; their requests alone fill any minute.
const MOST_STARTS: usize = 64;

/// What earlier processes left to know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// The starts of processes that did not end in order, the oldest first.
    pub starts: Vec<ProcessStart>,
    /// Until when the workspace asked to wait.
    pub rest_until: Option<Timestamp>,
    /// The address and key to which it said so, as a digest; none if an earlier version noted it.
    #[serde(default)]
    pub rest_of: Option<String>,
}

/// The start of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStart {
    /// When it began.
    pub at: Timestamp,
    /// Requests that it may have sent at once.
    pub at_once: u32,
}

impl Store {
    /// Notes that this process begins and may send so many requests at once.
    ///
    /// # Errors
    /// Nothing is noted.
    pub async fn note_start(&self, at: Timestamp, at_once: u32) -> Result<(), StoreError> {
        self.write(move |writer| {
            update(&mut writer.connection, |spending| spending.begin(at, at_once))?;
            writer.has_noted_start = true;
            Ok(())
        })
        .await
    }

    /// Notes until when the workspace asked this account, a digest of address and key, to wait.
    ///
    /// # Errors
    /// Nothing is noted.
    pub async fn note_rest(&self, until: Timestamp, account: String) -> Result<(), StoreError> {
        self.write(move |writer| {
            Ok(update(&mut writer.connection, |spending| {
                spending.rest_until = Some(until);
                spending.rest_of = Some(account);
            })?)
        })
        .await
    }
}

impl Reader {
    /// What earlier processes left to know.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn spending(&self) -> Result<Spending, StoreError> {
        Ok(read(&self.connection)?)
    }
}

impl Spending {
    /// Until when the workspace asked this account to wait.
    #[must_use]
    pub fn rest_of(&self, account: &str) -> Option<Timestamp> {
        let is_its_own = self.rest_of.as_deref().is_none_or(|of| of == account);
        self.rest_until.filter(|_| is_its_own)
    }

    /// How far back the requests of an earlier process count: a minute, and a little for the network.
    pub const REACH: SignedDuration = SignedDuration::from_secs(61);

    fn begin(&mut self, at: Timestamp, at_once: u32) {
        // A time in the future was written while the clock was wrong.
        self.starts.retain(|start| start.at <= at);
        self.starts.push(ProcessStart { at, at_once });
        let counts = |next: &ProcessStart| at.duration_since(next.at) <= Self::REACH;
        let old = self.starts.iter().skip(1).take_while(|next| !counts(next)).count();
        self.starts.drain(..old.max(self.starts.len().saturating_sub(MOST_STARTS)));
    }
}

/// Forgets the start of this process, whose polls are all written.
pub(super) fn end_in_order(writer: &mut Writer) -> rusqlite::Result<()> {
    if writer.has_noted_start {
        update(&mut writer.connection, |spending| {
            spending.starts.pop();
        })?;
    }
    Ok(())
}

fn update(connection: &mut Connection, change: impl FnOnce(&mut Spending)) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut spending = read(&tx)?;
    change(&mut spending);
    let text = serde_json::to_string(&spending).expect("plain values");
    meta::set(&tx, NAME, &text)?;
    tx.commit()
}

/// A row that cannot be read counts as absent.
fn read(connection: &Connection) -> rusqlite::Result<Spending> {
    let text = meta::value(connection, NAME)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}
