//! Leads and self check-ins as records: making them, finding those already there, showing them.
//!
//! A lead made here belongs to the shop: the reads show it at once and it changes with the
//! shop. A self check-in becomes a repair when the customer comes in.

use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::intake::check::Clean;
use crate::intake::field::Destination;
use crate::intake::form::Duplicates;
use crate::intake::ledger::Made;
use crate::intake::{CheckIn, Definition, FIRST_CHECKIN};
use crate::journal::Input;
use crate::route::Route;
use crate::shop::people;
use crate::state::Inner;

/// Who a new lead is assigned to.
const RECEPTION: &str = "Reception";

impl Inner {
    /// The record that a submission duplicates, if the form's policy looks for one.
    pub(super) fn same_as(
        &self,
        destination: Destination,
        clean: &Clean,
        policy: Duplicates,
    ) -> Option<Made> {
        let mobile = clean.text("mobile_number");
        let code = clean.text("mobile_country_code");
        match destination {
            Destination::Lead => {
                let by_mobile = matches!(
                    policy,
                    Duplicates::Default | Duplicates::Skip | Duplicates::MatchMobile
                );
                let by_email = matches!(
                    policy,
                    Duplicates::Default | Duplicates::Skip | Duplicates::MatchEmail
                );
                let email = clean.text("email").filter(|_| by_email);
                let mobile = mobile.filter(|_| by_mobile).map(|mobile| (mobile, code));
                let id = self.records.find_newest(Route::Leads, |fields| {
                    mobile.is_some_and(|(mobile, code)| {
                        fields.get("mobile_number") == mobile
                            && fields.get("mobile_country_code").as_str() == code
                    }) || email.is_some_and(|email| {
                        fields.text("email").to_lowercase() == email.to_lowercase()
                    })
                })?;
                Some(Made {
                    object: destination,
                    id,
                })
            }
            Destination::SelfCheckin => {
                let mobile = mobile.filter(|_| policy == Duplicates::Skip)?;
                let same = |one: &CheckIn| one.open && one.fields.text("mobile_number") == mobile;
                let index = self.intake.checkins.iter().rposition(same)?;
                Some(Made {
                    object: destination,
                    id: FIRST_CHECKIN + index as u64,
                })
            }
        }
    }

    /// Makes the record, in the reads and in the shop.
    pub(super) fn make(
        &mut self,
        destination: Destination,
        business: i64,
        clean: &Clean,
        fixed_source: bool,
    ) -> Made {
        let definitions = self.intake.definitions.get(destination.form_type());
        let custom = custom_fields(definitions.map_or(&[], Vec::as_slice), &clean.custom);
        let input = match destination {
            Destination::Lead => Input::Lead {
                business,
                fields: lead_fields(clean, custom, fixed_source),
            },
            Destination::SelfCheckin => Input::CheckIn {
                business,
                fields: checkin_fields(clean, custom),
                device_password: clean.text("device_password").map(str::to_owned),
            },
        };
        let id = self.record(&input);
        Made {
            object: destination,
            id,
        }
    }

    /// The record as intake shows it.
    pub(super) fn shown(&mut self, made: Made) -> Value {
        match made.object {
            Destination::Lead => self.records.shown(Route::Leads, made.id, "lead"),
            Destination::SelfCheckin => self.shown_checkin(made.id),
        }
    }

    /// A self check-in as the API shows it; null if there is none with that id.
    pub(crate) fn shown_checkin(&self, id: u64) -> Value {
        let index = id
            .checked_sub(FIRST_CHECKIN)
            .and_then(|index| usize::try_from(index).ok());
        let checkin = index.and_then(|index| self.intake.checkins.get(index));
        checkin.map_or(Value::Null, |checkin| {
            shown(&self.records.sent(&id.into()), checkin)
        })
    }
}

fn shown(id: &Value, checkin: &CheckIn) -> Value {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), id.clone());
    shown.insert("object".to_owned(), "self_checkin".into());
    shown.extend(
        checkin
            .fields
            .iter()
            .map(|(name, value)| (name.to_owned(), value.clone())),
    );
    Value::Object(shown)
}

/// The defined fields, null if not sent, and the other custom fields.
fn custom_fields(definitions: &[Definition], sent: &Map<String, Value>) -> Value {
    let defined = definitions
        .iter()
        .map(|one| (one.field_name.clone(), Value::Null));
    let mut custom: Map<String, Value> = defined.collect();
    custom.extend(
        sent.iter()
            .map(|(label, value)| (label.clone(), value.clone())),
    );
    Value::Object(custom)
}

fn sent(clean: &Clean, name: &str) -> Value {
    clean.values.get(name).cloned().unwrap_or(Value::Null)
}

fn known(clean: &Clean, name: &str, look_up: fn(&str) -> Option<&'static str>) -> Value {
    clean.text(name).and_then(look_up).into()
}

/// The catalogue's spelling, or the name as given.
fn named(clean: &Clean, name: &str, look_up: fn(&str) -> Option<&'static str>) -> Value {
    clean
        .text(name)
        .map(|text| look_up(text).unwrap_or(text))
        .into()
}

fn lead_fields(clean: &Clean, custom: Value, fixed_source: bool) -> Fields {
    let source = if fixed_source {
        sent(clean, "source")
    } else {
        known(clean, "source", people::source)
    };
    Fields::default()
        .with("name", sent(clean, "name"))
        .with("contact_person_name", sent(clean, "contact_person_name"))
        .with("mobile_country_code", sent(clean, "mobile_country_code"))
        .with("mobile_number", sent(clean, "mobile_number"))
        .with("phone_number", sent(clean, "phone_number"))
        .with("email", sent(clean, "email"))
        .with("source", source)
        .with("status", "New")
        .with("status_stage", "open")
        .with("assigned_to", RECEPTION)
        .with("next_follow_up", sent(clean, "next_follow_up"))
        .with(
            "device_type",
            known(clean, "device_type", people::device_type),
        )
        .with(
            "device_brand",
            named(clean, "device_brand", people::device_brand),
        )
        .with(
            "device_model",
            named(clean, "device_model", people::device_model),
        )
        .with("comment", sent(clean, "comment"))
        .with("address", sent(clean, "address"))
        .with("custom_fields", custom)
}

fn checkin_fields(clean: &Clean, custom: Value) -> Fields {
    let flag = |name: &str| clean.values.get(name).cloned().unwrap_or(false.into());
    Fields::default()
        .with("name", sent(clean, "name"))
        .with("mobile_country_code", sent(clean, "mobile_country_code"))
        .with("mobile_number", sent(clean, "mobile_number"))
        .with("email", sent(clean, "email"))
        .with(
            "device_type",
            known(clean, "device_type", people::device_type),
        )
        .with(
            "device_brand",
            named(clean, "device_brand", people::device_brand),
        )
        .with(
            "device_model",
            named(clean, "device_model", people::device_model),
        )
        .with("serial_number", sent(clean, "serial_number"))
        .with("serial_number_2", sent(clean, "serial_number_2"))
        .with(
            "accessories",
            clean
                .values
                .get("accessories")
                .cloned()
                .unwrap_or(json!([])),
        )
        .with("comment", sent(clean, "comment"))
        .with("is_recovery", flag("is_recovery"))
        .with("is_pickup_booked", flag("is_pickup_booked"))
        .with("scheduled_on", sent(clean, "scheduled_on"))
        .with("address", sent(clean, "address"))
        .with("custom_fields", custom)
}
