//! The input fields of both records, their kinds and their limits, exactly as the contract lists
//! them.
//!
//! One table that validation and the OpenAPI document are both made from.

use serde::{Deserialize, Serialize};

/// What an intake creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Destination {
    Lead,
    SelfCheckin,
}

/// What a field may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Email,
    /// A date or a date-time.
    When,
    Flag,
    Integer,
    /// Texts, or one text with commas between them.
    Names,
    /// An object of these fields.
    Object(&'static [Field]),
    /// An object of label to value pairs; the field's limit is that of each value.
    Labels,
}

/// One input field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The most characters.
    pub(crate) longest: Option<usize>,
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        longest: None,
    }
}

const fn up_to(name: &'static str, longest: usize) -> Field {
    Field {
        name,
        kind: Kind::Text,
        longest: Some(longest),
    }
}

static LEAD_ADDRESS: [Field; 4] = [
    up_to("address_line", 200),
    up_to("city", 100),
    up_to("state", 100),
    up_to("zip_code", 20),
];

static CHECKIN_ADDRESS: [Field; 4] = [
    up_to("address_line", 255),
    up_to("city", 255),
    up_to("state", 255),
    up_to("zip_code", 20),
];

static LEAD: [Field; 16] = [
    up_to("name", 60),
    up_to("mobile_number", 20),
    Field {
        name: "email",
        kind: Kind::Email,
        longest: Some(255),
    },
    up_to("mobile_country_code", 10),
    up_to("phone_number", 20),
    up_to("contact_person_name", 60),
    up_to("source", 100),
    field("next_follow_up", Kind::When),
    field("comment", Kind::Text),
    up_to("device_type", 100),
    up_to("device_brand", 100),
    up_to("device_model", 100),
    field("address", Kind::Object(&LEAD_ADDRESS)),
    Field {
        name: "custom_fields",
        kind: Kind::Labels,
        longest: Some(1000),
    },
    field("business_id", Kind::Integer),
    up_to("form_id", 191),
];

static SELF_CHECKIN: [Field; 19] = [
    up_to("name", 255),
    up_to("mobile_number", 20),
    up_to("email", 255),
    up_to("mobile_country_code", 10),
    up_to("device_type", 255),
    up_to("device_brand", 255),
    up_to("device_model", 255),
    up_to("serial_number", 255),
    up_to("serial_number_2", 191),
    up_to("device_password", 191),
    field("accessories", Kind::Names),
    field("comment", Kind::Text),
    field("is_recovery", Kind::Flag),
    field("is_pickup_booked", Kind::Flag),
    field("scheduled_on", Kind::When),
    field("address", Kind::Object(&CHECKIN_ADDRESS)),
    field("custom_fields", Kind::Labels),
    field("business_id", Kind::Integer),
    up_to("form_id", 191),
];

impl Destination {
    /// The record's listed input fields.
    pub(crate) fn fields(self) -> &'static [Field] {
        match self {
            Self::Lead => &LEAD,
            Self::SelfCheckin => &SELF_CHECKIN,
        }
    }

    /// The name in the contract's `object` and `destination`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lead => "lead",
            Self::SelfCheckin => "self_checkin",
        }
    }

    /// The form type under which the shop defines the record's custom fields.
    pub(crate) const fn form_type(self) -> &'static str {
        match self {
            Self::Lead => "Lead",
            Self::SelfCheckin => "Self Check-in",
        }
    }

    /// Reads `lead` or `self_checkin`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Lead, Self::SelfCheckin]
            .into_iter()
            .find(|one| one.name() == name)
    }
}
