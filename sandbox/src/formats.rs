//! The formats in which the shop writes the dates that it enters (contract, "Read records").
//!
//! A record keeps such a date as ISO 8601; a read shows it in the format of its field.

use std::collections::BTreeMap;

use jiff::civil::{Date, DateTime};
use serde_json::Value;

/// The fields with dates that the shop enters.
const FIELDS: [&str; 4] = [
    "next_follow_up",
    "scheduled_on",
    "estimated_delivery",
    "received_at",
];

/// The format of each field that has one of its own, as strftime writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateFormats(BTreeMap<&'static str, String>);

impl Default for DateFormats {
    /// `received_at` is not ISO 8601.
    fn default() -> Self {
        Self([("received_at", "%d/%m/%Y %H:%M".to_owned())].into())
    }
}

impl DateFormats {
    /// Takes the format of a field, as `received_at=%d/%m/%Y`.
    ///
    /// # Errors
    /// If there is no such field, or if it is no format.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, format) = text
            .split_once('=')
            .ok_or("a date format is FIELD=FORMAT, such as received_at=%d/%m/%Y")?;
        let Some(field) = FIELDS.iter().find(|field| **field == name) else {
            return Err(format!(
                "the shop enters no date {name:?}: use one of {}",
                FIELDS.join(", ")
            ));
        };
        if shown(DateTime::default(), format).is_none() {
            return Err(format!("{format:?} is no format of a date"));
        }
        self.0.insert(field, format.to_owned());
        Ok(())
    }

    /// A value of a field as a read shows it; any other text than a date stays as it is.
    pub(super) fn show(&self, field: &str, value: &Value) -> Option<Value> {
        let format = self.0.get(field)?;
        let text = value.as_str()?;
        let at: DateTime = match text.parse::<DateTime>() {
            Ok(at) => at,
            Err(_) => text.parse::<Date>().ok()?.into(),
        };
        shown(at, format).map(Value::String)
    }
}

fn shown(at: DateTime, format: &str) -> Option<String> {
    jiff::fmt::strtime::format(format, at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_shown_in_the_format_of_its_field() {
        let mut formats = DateFormats::default();
        formats.set("next_follow_up=%d.%m.%Y").unwrap();
        let show = |field: &str, text: &str| formats.show(field, &text.into());
        let shown = |text: &str| Some(Value::from(text));
        assert_eq!(show("next_follow_up", "2026-11-27"), shown("27.11.2026"));
        assert_eq!(
            show("received_at", "2026-11-27T10:30:00"),
            shown("27/11/2026 10:30")
        );
        assert_eq!(show("received_at", "soon"), None);
        assert_eq!(
            show("estimated_delivery", "2026-11-27"),
            None,
            "it has none"
        );
        assert_eq!(formats.show("received_at", &Value::Null), None);
        for bad in ["next_follow_up", "created_at=%Y", "next_follow_up=%!"] {
            assert!(DateFormats::default().set(bad).is_err(), "{bad}");
        }
    }
}
