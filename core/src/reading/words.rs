//! The fields whose words reports use: what a payment is and how it was made, who changed a status,
//! what was repaired. The contract names none of them: the configuration does, or the first of some
//! usual names that is sent counts.

use serde::{Deserialize, Serialize};

use super::ReadSettings;
use crate::record::{Fields, Route};

/// A field whose words reports use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordField {
    /// The route.
    pub route: Route,
    /// Its name in reports and in the configuration.
    pub name: &'static str,
    /// The names that it may have in records, the best first.
    usual: &'static [&'static str],
}

/// Who changed a status.
pub const CHANGED_BY: WordField = WordField {
    route: Route::JobStatusChanges,
    name: "changed_by",
    usual: &[
        "changed_by",
        "changed_by_name",
        "user_name",
        "updated_by",
        "created_by",
    ],
};

/// What a payment is, such as a refund.
pub const PAYMENT_TYPE: WordField = WordField {
    route: Route::Payments,
    name: "type",
    usual: &["payment_type", "transaction_type", "type", "kind"],
};

/// How a payment stands, such as void.
pub const PAYMENT_STATUS: WordField = WordField {
    route: Route::Payments,
    name: "status",
    usual: &["payment_status", "status"],
};

/// How a payment was made, such as in cash.
pub const PAYMENT_METHOD: WordField = WordField {
    route: Route::Payments,
    name: "method",
    usual: &["payment_mode", "payment_method", "method", "mode"],
};

/// What was repaired.
pub const JOB_DEVICE: WordField = WordField {
    route: Route::Jobs,
    name: "device",
    usual: &["device_model", "device_name", "device", "device_type"],
};

/// All of them.
pub const WORD_FIELDS: [WordField; 5] = [
    CHANGED_BY,
    PAYMENT_TYPE,
    PAYMENT_STATUS,
    PAYMENT_METHOD,
    JOB_DEVICE,
];

impl WordField {
    /// The names that the field may have in records, the best first.
    fn names<'s>(&self, settings: &'s ReadSettings) -> Vec<&'s str> {
        match settings.configured_source(self.route, self.name) {
            Some("") => Vec::new(),
            Some(name) => vec![name],
            None => self.usual.to_vec(),
        }
    }

    /// The fields of records that have the words, of those that are sent, the best first.
    pub fn sources<'s>(
        &self,
        settings: &'s ReadSettings,
        is_sent: impl Fn(&str) -> bool,
    ) -> Vec<&'s str> {
        let mut names = self.names(settings);
        names.retain(|name| is_sent(name));
        names
    }
}

/// What a payment is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PaymentKind {
    /// Money received.
    Payment,
    /// Money paid back: by its type, or by a negative amount.
    Refund,
    /// It does not count.
    Void,
}

impl PaymentKind {
    /// Its word: `refund`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Says what each payment is.
#[derive(Debug, Clone)]
pub(super) struct PaymentReader {
    type_fields: Vec<String>,
    status_fields: Vec<String>,
    refund_types: Vec<String>,
    void_statuses: Vec<String>,
}

impl PaymentReader {
    pub(super) fn new(settings: &ReadSettings) -> Self {
        Self {
            type_fields: owned(PAYMENT_TYPE.names(settings)),
            status_fields: owned(PAYMENT_STATUS.names(settings)),
            refund_types: compared(&settings.refund_types),
            void_statuses: compared(&settings.void_statuses),
        }
    }

    /// What a payment is by its words and by the sign of its amount; `None` if it may be a payment
    /// or a refund.
    pub(super) fn kind(&self, fields: &Fields<'_>, sign: Option<f64>) -> Option<PaymentKind> {
        if has_word(fields, &self.status_fields, &self.void_statuses) {
            return Some(PaymentKind::Void);
        }
        if has_word(fields, &self.type_fields, &self.refund_types) {
            return Some(PaymentKind::Refund);
        }
        let kind = if sign? < 0.0 {
            PaymentKind::Refund
        } else {
            PaymentKind::Payment
        };
        Some(kind)
    }
}

fn owned(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Words in the form in which they are compared.
fn compared(words: &[String]) -> Vec<String> {
    words
        .iter()
        .map(|word| word.trim().to_lowercase())
        .collect()
}

/// Whether the first of these fields that says something says one of these words.
fn has_word(fields: &Fields<'_>, names: &[String], words: &[String]) -> bool {
    if words.is_empty() {
        return false;
    }
    for name in names {
        if let Some(word) = fields.get(name).and_then(word) {
            return words.contains(&word);
        }
    }
    false
}

/// The word of a value, in the form in which words are compared; `None` if it says nothing.
fn word(json: &str) -> Option<String> {
    let text = match serde_json::from_str(json) {
        Ok(text) => text,
        Err(_) if json == "null" => return None,
        Err(_) => json.to_owned(),
    };
    let word = text.trim().to_lowercase();
    (!word.is_empty()).then_some(word)
}
