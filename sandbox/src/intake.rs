//! The rules behind every intake route: replay, form, destination, validation, duplicate,
//! record.
//!
//! A route or a receiver turns its request into a [`Submission`]; the contract's rules for
//! outcomes are applied once. Invariant: a submission makes one record or none, and whatever it
//! made is what its idempotency key returns.

pub(super) mod check;
pub(super) mod field;
pub(super) mod form;
pub(super) mod ledger;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::field::Destination;
use self::form::Form;
use self::ledger::Ledger;
use super::fields::Fields;
use super::keys::Provider;

/// A request to create a record, from any route.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Submission {
    pub(super) integration: u32,
    pub(super) provider: Provider,
    /// The route, with the adapter's name for receivers.
    pub(super) route: String,
    pub(super) how: How,
    /// The fields under the names they were sent with.
    pub(super) data: Map<String, Value>,
    pub(super) form_id: Option<String>,
    /// The destination that the request names.
    pub(super) destination: Option<Destination>,
    /// The business of the header, or the default one.
    pub(super) business: i64,
    pub(super) idempotency_key: Option<String>,
}

/// The rules for a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    /// Strict rules, for the destination of its route.
    Strict,
    /// Lenient rules; parked if its destination cannot be decided.
    Lenient,
    /// As lenient, and parked until its form is mapped and activated.
    Mapped,
    /// As lenient, with names that need no map and a fixed lead source.
    Fixed,
}

/// A self check-in as staff see it; the API never shows the password.
#[derive(Debug, Clone)]
pub(super) struct CheckIn {
    pub(super) business: i64,
    pub(super) fields: Fields,
    pub(super) device_password: Option<String>,
    /// Until the customer has come in.
    pub(super) open: bool,
}

/// A custom field that the shop defined for a form type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    pub(super) field_name: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) placeholder: Option<String>,
    #[serde(default)]
    pub(super) options: Vec<String>,
}

/// What intake knows besides the records that the reads show.
pub(super) struct Intake {
    pub(super) ledger: Ledger,
    /// By integration and form id.
    pub(super) forms: BTreeMap<(u32, String), Form>,
    /// By form type.
    pub(super) definitions: BTreeMap<String, Vec<Definition>>,
    pub(super) checkins: Vec<CheckIn>,
}

/// The id of the first self check-in.
pub(super) const FIRST_CHECKIN: u64 = 5_100;

impl Intake {
    pub(super) fn new() -> Self {
        Self {
            ledger: Ledger::default(),
            forms: BTreeMap::new(),
            definitions: usual_definitions(),
            checkins: Vec::new(),
        }
    }

    /// The names of the custom fields that the shop defined for a record.
    pub(super) fn defined(&self, destination: Destination) -> Vec<&str> {
        let of_form = self.definitions.get(destination.form_type());
        of_form
            .into_iter()
            .flatten()
            .map(|one| one.field_name.as_str())
            .collect()
    }

    /// The form that was named, or the integration's only form if none was named.
    pub(super) fn form(&self, sent: &Submission) -> Option<&Form> {
        if let Some(id) = &sent.form_id {
            return self.forms.get(&(sent.integration, id.clone()));
        }
        if sent.how != How::Lenient || sent.destination.is_some() {
            return None;
        }
        let mut own = self
            .forms
            .iter()
            .filter(|((owner, _), _)| *owner == sent.integration);
        let (_, only) = own.next()?;
        own.next().is_none().then_some(only)
    }
}

fn usual_definitions() -> BTreeMap<String, Vec<Definition>> {
    let usual = json!({
        "Lead": [
            {"field_name": "How did you hear of us?", "type": "select",
             "options": ["Website", "Referral", "Other"]},
            {"field_name": "Urgent", "type": "checkbox"},
        ],
        "Customer": [
            {"field_name": "VAT", "type": "group"},
            {"field_name": "Tags", "type": "tags"},
        ],
        "Job": [
            {"field_name": "Backup wanted", "type": "checkbox"},
            {"field_name": "Passcode given", "type": "text"},
        ],
        "Self Check-in": [{"field_name": "Preferred contact", "type": "text"}],
    });
    serde_json::from_value(usual).expect("the usual definitions are of their own form")
}
