//! One row of the log.

use std::str::FromStr;

use serde::ser::{Error as _, Serializer};
use serde::{Deserialize, Serialize};

use super::meaning::{FieldChange, changed_fields};
use super::{Event, Route};

/// What a row of the log says.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// The record stood on the first page a poller ever saw.
    Baseline,
    /// The record is new.
    Created,
    /// The record's meaning changed.
    Updated,
    /// The record is gone from its list; its text is the last one that was shown.
    Vanished,
    /// Records may have been missed.
    Gap,
    /// The operator had the record's data removed.
    Forgotten,
    /// This program says that something is wrong, or that it is over. It is in no log.
    Alert,
    /// A report that was made at its time. It is in no log.
    Report,
}

impl Kind {
    /// Every kind that is in the log.
    pub const ALL: [Self; 6] = [
        Self::Baseline,
        Self::Created,
        Self::Updated,
        Self::Vanished,
        Self::Gap,
        Self::Forgotten,
    ];

    /// The kind's name in the log, in configuration and in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether this program created it automatically: it has no route, no record and no row.
    #[must_use]
    pub fn is_notice(self) -> bool {
        matches!(self, Self::Alert | Self::Report)
    }
}

/// A word that names no kind of change.
#[derive(Debug, thiserror::Error)]
#[error("unknown kind of change {0:?}: use baseline, created, updated, vanished, gap or forgotten")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// How the event id of a change that only tries a sink begins.
pub const TEST_ID: &str = "test_";

/// What stands in place of a route in the names of notices.
pub const NOTICE_ROUTE: &str = "shopmirror";

/// One row of the append-only log, or a notice in the shape of one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// The row's number; grows, never reused. 0 for what is in no log.
    pub seq: i64,
    /// The same for every sink, retry, restart and replay of this change.
    pub event_id: String,
    /// The route the record belongs to. It says nothing about a notice: see [`Self::route_name`].
    pub route: Route,
    /// The record's id; `None` for a gap. For a notice, what it is about.
    pub record_id: Option<String>,
    /// What happened.
    pub kind: Kind,
    /// 1 for the first version of a record; a gap's number for a gap.
    pub version: i64,
    /// When the page that showed it was read, as RFC 3339 in UTC with microseconds.
    pub observed_at: String,
    /// The branch it was read from; `None` is the workspace default.
    pub business: Option<String>,
    /// The record's exact JSON text as received; for a gap, the gap as a JSON object.
    pub body: String,
    /// The text of the version before, when there is one and it is still in the log.
    pub before: Option<String>,
    /// The job of a status change or a payment in its current state, as JSON; for templates.
    pub job: Option<String>,
}

impl Change {
    /// The JSON text of the `data` object: what a `file` line holds and a webhook carries.
    ///
    /// It contains the record exactly as received.
    #[must_use]
    pub fn data_json(&self) -> String {
        serde_json::to_string(self).expect("a change holds valid JSON texts and plain values")
    }

    /// The name of the event: `leads.created`; for a notice `shopmirror.alert`.
    #[must_use]
    pub fn event_type(&self) -> String {
        let route = self.route_name().unwrap_or(NOTICE_ROUTE);
        format!("{route}.{}", self.kind)
    }

    /// The name of the route; `None` for a notice, which belongs to none.
    #[must_use]
    pub fn route_name(&self) -> Option<&'static str> {
        if self.kind.is_notice() {
            None
        } else {
            Some(self.route.as_str())
        }
    }

    /// The row's number; `None` for a notice, which is in no log.
    #[must_use]
    pub fn row(&self) -> Option<i64> {
        if self.kind.is_notice() {
            None
        } else {
            Some(self.seq)
        }
    }

    /// Whether an operator's command created it to try a sink. It is in no log.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.event_id.starts_with(TEST_ID)
    }

    /// The top-level fields that differ from the version before; empty for a first version.
    #[must_use]
    pub fn changed(&self) -> Vec<FieldChange<'_>> {
        match &self.before {
            Some(before) => changed_fields(before, &self.body),
            None => Vec::new(),
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Event::from_change(self)
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change {
        Change {
            seq: 7,
            event_id: "evt_1".into(),
            route: Route::Leads,
            record_id: Some("12".into()),
            kind: Kind::Updated,
            version: 2,
            observed_at: "2026-01-02T03:04:05.000000Z".into(),
            business: None,
            body: r#"{"id":12, "amount":10.10,"note":null}"#.into(),
            before: Some(r#"{"id":12,"amount":9.5}"#.into()),
            job: None,
        }
    }

    #[test]
    fn the_data_object_keeps_the_records_exact_text() {
        assert_eq!(
            change().data_json(),
            concat!(
                r#"{"event_id":"evt_1","seq":7,"route":"leads","record_id":"12","kind":"updated","#,
                r#""version":2,"observed_at":"2026-01-02T03:04:05.000000Z","business":null,"#,
                r#""record":{"id":12, "amount":10.10,"note":null},"#,
                r#""changed":{"amount":{"before":9.5,"after":10.10},"note":{"after":null}}}"#
            )
        );
        assert_eq!(change().event_type(), "leads.updated");
    }

    #[test]
    fn a_notice_belongs_to_no_route_and_a_gap_carries_its_bounds_in_place_of_a_record() {
        let data = |kind, body: &str| -> serde_json::Value {
            let change = Change {
                kind,
                record_id: None,
                body: body.into(),
                before: None,
                ..change()
            };
            serde_json::from_str(&change.data_json()).unwrap()
        };
        let null = serde_json::Value::Null;
        let alert = data(Kind::Alert, r#"{"state":"begun"}"#);
        assert_eq!((&alert["route"], &alert["seq"]), (&null, &null));
        assert_eq!(
            (&alert["kind"], &alert["record"]["state"]),
            (&"alert".into(), &"begun".into())
        );
        assert_eq!(
            Change {
                kind: Kind::Alert,
                ..change()
            }
            .event_type(),
            "shopmirror.alert"
        );
        assert!(
            Kind::ALL.iter().all(|kind| !kind.is_notice()),
            "none is a kind of the log"
        );
        let gap = data(Kind::Gap, r#"{"estimate":7}"#);
        assert_eq!(
            (&gap["record"], &gap["gap"]["estimate"]),
            (&null, &7.into())
        );
    }
}
