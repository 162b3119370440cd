//! The `data` object: the shape in which every sink and listing shows a change. The record stays
//! the exact text that the workspace sent.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::meaning::FieldChange;
use super::{Change, Kind};

/// One change: a row of the log, as sinks send it and as `log --json` prints it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Event<'c> {
    /// The same for every sink, retry, restart and replay of this change. Receivers use it to
    /// recognise a change that is sent again.
    event_id: &'c str,
    /// True for a change that only tries a sink; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    test: bool,
    /// The number of the change in the log. It grows and is never used again. Null for an alert and
    /// for a report, which are in no log.
    seq: Option<i64>,
    /// The route of the record; null for an alert and for a report.
    #[cfg_attr(feature = "schemas", schemars(with = "Option<super::Route>"))]
    route: Option<&'static str>,
    /// The id of the record, always as text; null for a gap. For an alert and for a report, what it
    /// is about.
    record_id: Option<&'c str>,
    /// What happened.
    kind: Kind,
    /// 1 for the first version of a record, then 2 and so on; the number of the gap for a gap.
    version: i64,
    /// When the page that showed the change was read (RFC 3339, UTC, microseconds).
    observed_at: &'c str,
    /// The business (branch) that the record was read from; null for the default of the workspace.
    business: Option<&'c str>,
    /// The record exactly as the workspace sent it; null for a gap. Of a forgotten
    /// record only the id is left. For an alert and for a report, its content.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")
    )]
    record: Option<&'c RawValue>,
    /// The top-level fields of the record that differ from the version before, by name; empty for a
    /// first version.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "std::collections::BTreeMap<String, Sides>")
    )]
    changed: Changed<'c>,
    /// The gap; only if `kind` is `gap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")
    )]
    gap: Option<&'c RawValue>,
}

impl<'c> Event<'c> {
    /// The shape of a change.
    ///
    /// # Errors
    /// If the body of the change is not JSON, which no row of the log is.
    pub fn from_change(change: &'c Change) -> Result<Self, serde_json::Error> {
        let body: &RawValue = serde_json::from_str(&change.body)?;
        let mut record = Some(body);
        let mut changed = Vec::new();
        let mut gap = None;
        if change.kind == Kind::Gap {
            gap = record.take();
        } else {
            changed = change.changed();
        }
        Ok(Self {
            event_id: &change.event_id,
            test: change.is_test(),
            seq: change.row(),
            route: change.route_name(),
            record_id: change.record_id.as_deref(),
            kind: change.kind,
            version: change.version,
            observed_at: &change.observed_at,
            business: change.business.as_deref(),
            record,
            changed: Changed(changed),
            gap,
        })
    }
}

#[derive(Debug)]
struct Changed<'c>(Vec<FieldChange<'c>>);

impl Serialize for Changed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for change in &self.0 {
            map.serialize_entry(&change.name, &Sides::from_change(change)?)?;
        }
        map.end()
    }
}

/// A field before and after a change. A side on which the field was absent is left out, so that
/// absent and null can be told apart.
#[derive(Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
struct Sides<'c> {
    /// The value in the version before; absent if the field was absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<serde_json::Value>"))]
    before: Option<&'c RawValue>,
    /// The value in this version; absent if the field is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(with = "Option<serde_json::Value>"))]
    after: Option<&'c RawValue>,
}

impl<'c> Sides<'c> {
    fn from_change<E: serde::ser::Error>(change: &FieldChange<'c>) -> Result<Self, E> {
        Ok(Self {
            before: raw_value(change.before)?,
            after: raw_value(change.after)?,
        })
    }
}

fn raw_value<E: serde::ser::Error>(text: Option<&str>) -> Result<Option<&RawValue>, E> {
    match text {
        Some(text) => serde_json::from_str(text).map(Some).map_err(E::custom),
        None => Ok(None),
    }
}
