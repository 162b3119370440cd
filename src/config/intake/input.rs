//! The input fields of the contract ("Lead (input)", "Self check-in (input)") and how long each may be.
//!
//! A text that is too long is cut where a part of it still means the same thing; a number, an address or
//! a code is not, because the rest would be another one.

use super::Intake;

/// No limit is stated.
const ANY: usize = usize::MAX;

/// What may be sent of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntakeLimit {
    /// The most characters.
    pub most: usize,
    /// Whether a longer text is cut; otherwise it is not sent.
    pub is_cut: bool,
}

/// One field: its limits in a lead and in a self check-in; 0 where the route has no such field.
struct Field(&'static str, usize, usize, bool);

const FIELDS: [Field; 19] = [
    Field("name", 60, 255, true),
    Field("mobile_number", 20, 20, false),
    Field("email", 255, 255, false),
    Field("mobile_country_code", 10, 10, false),
    Field("device_type", 100, 255, true),
    Field("device_brand", 100, 255, true),
    Field("device_model", 100, 255, true),
    // Free text for the contract; no person writes more.
    Field("comment", 10_000, 10_000, true),
    Field("phone_number", 20, 0, false),
    Field("contact_person_name", 60, 0, true),
    Field("source", 100, 0, true),
    Field("next_follow_up", ANY, 0, false),
    Field("serial_number", 0, 255, false),
    Field("serial_number_2", 0, 191, false),
    Field("device_password", 0, 191, false),
    Field("accessories", 0, ANY, false),
    Field("is_recovery", 0, ANY, false),
    Field("is_pickup_booked", 0, ANY, false),
    Field("scheduled_on", 0, ANY, false),
];

const ADDRESS_FIELDS: [Field; 4] = [
    Field("address_line", 200, 255, true),
    Field("city", 100, 255, true),
    Field("state", 100, 255, true),
    Field("zip_code", 20, 20, false),
];

/// Which of the maps a field stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakePart {
    /// `fields`
    Own,
    /// `fields.address`
    Address,
    /// `fields.custom_fields`
    Custom,
}

impl Intake {
    /// What may be sent of a field; `None` if there is no such field.
    #[must_use]
    pub fn limit(self, part: IntakePart, name: &str) -> Option<IntakeLimit> {
        let fields: &[Field] = match part {
            IntakePart::Own => &FIELDS,
            IntakePart::Address => &ADDRESS_FIELDS,
            IntakePart::Custom => return Some(IntakeLimit { most: 1_000, is_cut: true }),
        };
        let Field(_, lead, checkin, is_cut) = fields.iter().find(|field| field.0 == name)?;
        let most = match self {
            Self::Lead => *lead,
            Self::SelfCheckin => *checkin,
        };
        (most > 0).then_some(IntakeLimit { most, is_cut: *is_cut })
    }
}
