//! What clients and the portal put into the workspace, with the time of each input.
//!
//! The shop's own history follows from its seed, so a workspace is the seed and this list: grown
//! up to each time and given each input again, it is the same workspace, ids and versions
//! included. Bounded: once full, it logs one warning and keeps nothing more.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::Fields;
use super::route::Route;

/// Inputs that a state file keeps.
const MAX_INPUTS: usize = 50_000;

/// One input from a client or the portal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub(super) enum Input {
    Lead {
        business: i64,
        fields: Fields,
    },
    CheckIn {
        business: i64,
        fields: Fields,
        device_password: Option<String>,
    },
    Add {
        route: Route,
        business: Option<i64>,
        record: Map<String, Value>,
    },
    Edit {
        route: Route,
        id: Value,
        fields: Map<String, Value>,
    },
    Pause {
        paused: bool,
    },
    StringIds {
        yes: bool,
    },
    ByLastChange {
        yes: bool,
    },
}

/// An input and its time on the sandbox's clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) at: Timestamp,
    #[serde(flatten)]
    pub(super) input: Input,
}

/// The inputs so far, oldest first; kept only when there is a file to keep them in.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: Vec<Entry>,
    kept: bool,
    full: bool,
}

impl Journal {
    pub(super) fn new(kept: bool) -> Self {
        Self {
            kept,
            ..Self::default()
        }
    }

    pub(super) fn note(&mut self, at: Timestamp, input: &Input) {
        if !self.kept || self.full {
            return;
        }
        if self.entries.len() == MAX_INPUTS {
            self.full = true;
            tracing::warn!(
                most = MAX_INPUTS,
                "the state file is full: inputs from now on are lost at the next start; \
                 start with another --state file"
            );
            return;
        }
        self.entries.push(Entry {
            at,
            input: input.clone(),
        });
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
