//! The shapes in which a change leaves this program. Pure: text in, text out.
//!
//! A shape is chosen in the configuration and is the same at every attempt, so that a repeat has
//! the same bytes. Text from a record never changes the structure of what is written around it.

mod cloudevents;
mod csv;
mod json_slots;
mod template;
mod values;

use std::borrow::Cow;

use serde::Serialize;
use shopmirror_core::record::{Change, Kind};

pub use cloudevents::CloudEvents;
pub use csv::{Columns, CsvCell, csv_row, guarded};
pub use template::{Escape, Template, TemplateError};
pub use values::{Context, DIGEST_NAMES, NAMES, as_text};

/// How a change is written for a destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Format {
    /// `{"type","timestamp","data"}` as the Standard Webhooks specification proposes.
    #[default]
    Standard,
    /// CloudEvents 1.0.
    CloudEvents(CloudEvents),
    /// The record exactly as the workspace sent it; for a gap, the gap.
    Raw,
    /// What the operator's template makes of it.
    Template {
        /// The template.
        template: Template,
        /// The media type of its output.
        content_type: String,
    },
}

/// One change as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shaped {
    /// The body.
    pub body: String,
    /// The media type of the body.
    pub content_type: Cow<'static, str>,
    /// Headers that belong to the shape, in lower case. Their values are visible ASCII.
    pub headers: Vec<(&'static str, String)>,
}

impl Shaped {
    fn new(body: String, content_type: impl Into<Cow<'static, str>>) -> Self {
        Self {
            body,
            content_type: content_type.into(),
            headers: Vec::new(),
        }
    }
}

const JSON: &str = "application/json";

impl Format {
    /// Writes one change.
    ///
    /// # Errors
    /// [`TemplateError`] if the template fails for this change.
    pub fn shape(&self, change: &Change) -> Result<Shaped, TemplateError> {
        let shaped = match self {
            Self::Standard => Shaped::new(standard(change), JSON),
            Self::CloudEvents(events) => events.shape(change),
            Self::Raw => Shaped {
                headers: vec![
                    ("shopmirror-type", change.event_type()),
                    ("shopmirror-seq", change.seq.to_string()),
                ],
                ..Shaped::new(change.body.clone(), JSON)
            },
            Self::Template {
                template,
                content_type,
            } => {
                let body = template.render(&Context::for_change(change))?;
                Shaped::new(body, content_type.clone())
            }
        };
        Ok(shaped)
    }

    /// Writes one change as one line of JSON without its end: the `data` object in place of the
    /// whole envelope, because a line needs no second type and time.
    ///
    /// # Errors
    /// [`TemplateError`] if the template fails for this change.
    pub fn line(&self, change: &Change) -> Result<String, TemplateError> {
        let text = match self {
            Self::Standard => change.data_json(),
            Self::CloudEvents(events) => events.structured(change),
            Self::Raw | Self::Template { .. } => self.shape(change)?.body,
        };
        Ok(on_one_line(text))
    }
}

/// JSON text on one line: a JSON string holds no line break, so each one stands between members.
pub(crate) fn on_one_line(text: String) -> String {
    if text.contains(['\n', '\r']) {
        text.replace(['\n', '\r'], " ")
    } else {
        text
    }
}

/// A change as a webhook with `format = "standard"` sends it.
#[derive(Serialize)]
pub(crate) struct StandardEvent<'c> {
    /// What happened to what, for example `leads.created`.
    #[serde(rename = "type")]
    event_type: String,
    /// When the page that showed the change was read (RFC 3339, UTC, microseconds).
    timestamp: &'c str,
    /// The change.
    data: &'c Change,
}

fn standard(change: &Change) -> String {
    let event = StandardEvent {
        event_type: change.event_type(),
        timestamp: &change.observed_at,
        data: change,
    };
    serde_json::to_string(&event).expect("a change holds valid JSON texts and plain values")
}

/// The text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a change is about, for people and for grouping: `leads/12`; for a gap, the route.
fn subject(change: &Change) -> String {
    match &change.record_id {
        Some(id) if change.kind.is_notice() => format!("{}/{id}", change.kind),
        Some(id) if change.kind != Kind::Gap => format!("{}/{id}", change.route),
        _ => change.route.to_string(),
    }
}
