//! The nouns of the product: routes, pollers, record ids, pages and changes.
//!
//! Nothing here does I/O or knows a clock. An id is opaque (contract, "Versioning" 4): the number
//! 123 and the string "123" are one id, "00123" is another.

mod change;
mod event;
mod fields;
mod found;
mod made;
mod meaning;

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use jiff::Timestamp;

pub use change::{Change, Kind, NOTICE_ROUTE, TEST_ID};
pub use event::Event;
pub use fields::{CLOCK_SKEW, Fields, field_text, parse_timestamp};
pub use found::FoundRecord;
pub use made::{MadeOutcome, MadeRecord};
pub use meaning::{FieldChange, changed_fields, same_meaning, same_record};

/// One of the six `triggers/*` reads of the workspace API (contract, "Automation-read routes").
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    strum::Display,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub enum Route {
    /// Recent repairs.
    Jobs,
    /// Recent customers.
    Customers,
    /// Recent leads.
    Leads,
    /// Recent payments.
    Payments,
    /// Recent repair status changes.
    JobStatusChanges,
    /// Recent outsourced repairs.
    OutsourcedJobs,
}

impl Route {
    /// Every route, in the order the documents list them.
    pub const ALL: [Self; 6] = [
        Self::Jobs,
        Self::Customers,
        Self::Leads,
        Self::Payments,
        Self::JobStatusChanges,
        Self::OutsourcedJobs,
    ];

    /// The route's name in tables, configuration and events: `job_status_changes`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A word that names no route.
#[derive(Debug, thiserror::Error)]
#[error(
    "unknown route {0:?}: use one of jobs, customers, leads, payments, job_status_changes, outsourced_jobs"
)]
pub struct UnknownRoute(String);

impl FromStr for Route {
    type Err = UnknownRoute;

    fn from_str(text: &str) -> Result<Self, UnknownRoute> {
        let wanted = text.replace('-', "_");
        Self::ALL
            .into_iter()
            .find(|route| route.as_str() == wanted)
            .ok_or_else(|| UnknownRoute(text.to_owned()))
    }
}

/// What one poller asks for: a route, in one business or in the workspace's default one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PollerId {
    /// The route that is polled.
    pub route: Route,
    /// The branch sent as `X-Business`; `None` is the workspace default.
    pub business: Option<String>,
}

impl fmt::Display for PollerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&poller_name(self.route.as_str(), self.business.as_deref()))
    }
}

/// The name of a poller: the route, and the business if one is named, `leads@12`.
#[must_use]
pub fn poller_name(route: &str, business: Option<&str>) -> String {
    match business {
        Some(business) => format!("{route}@{business}"),
        None => route.to_owned(),
    }
}

/// The id of a record, as opaque text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(String);

/// Why a record's `id` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The member is an object, an array, a boolean, null or a fraction.
    #[error("the id is neither an integer nor a string")]
    NotAnId,
    /// The text is empty, or longer than [`RecordId::MAX_LEN`] bytes.
    #[error("the id is empty or too long")]
    Unusable,
    /// The text holds a NUL, which ends a text in SQLite and is in none of PostgreSQL.
    #[error("the id holds a NUL")]
    HoldsNul,
}

impl RecordId {
    /// The longest id that is stored, in bytes; a longer one is refused with its page.
    pub const MAX_LEN: usize = 255;

    /// Reads an id from the JSON text of the member `id`: an integer of any size, or a string.
    ///
    /// # Errors
    /// [`IdError`] when the value is neither, or cannot be stored.
    pub fn from_json(text: &str) -> Result<Self, IdError> {
        let id = if text.starts_with('"') {
            serde_json::from_str::<String>(text).map_err(|_| IdError::NotAnId)?
        } else {
            let digits = text.strip_prefix('-').unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(IdError::NotAnId);
            }
            text.to_owned()
        };
        Self::from_text(id)
    }

    /// Takes an id that is text already, as an operator types it or the store holds it.
    ///
    /// # Errors
    /// [`IdError`] when it is empty, too long or holds a NUL.
    pub fn from_text(id: impl Into<String>) -> Result<Self, IdError> {
        let id = id.into();
        if id.is_empty() || id.len() > Self::MAX_LEN {
            return Err(IdError::Unusable);
        }
        if id.contains('\0') {
            return Err(IdError::HoldsNul);
        }
        Ok(Self(id))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as an integer while it is one; only for estimates, never for identity.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        self.0.parse().ok()
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One item of a page: its id, and where its exact text is in the page's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The record's id.
    pub id: RecordId,
    /// The bytes of [`Page::body`] that hold the record's JSON object.
    pub span: Range<usize>,
    /// The bytes of its value `created_at`.
    created_at: Option<Range<usize>>,
}

/// Why an item of a page is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is JSON, but not an object.
    #[error("not an object")]
    NotAnObject,
    /// It has no member `id`.
    #[error("no id")]
    NoId,
    /// Its `id` holds a NUL: the page is read without it.
    #[error("the id holds a NUL")]
    LeftOut(LeftOut),
    /// Its `id` cannot be used.
    #[error("{0}")]
    BadId(#[from] IdError),
}

/// A record that no store can hold, because its id holds a NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The JSON text of its id, in which the NUL is escaped.
    pub id_json: String,
    /// When the workspace says that it was created.
    pub created_at: Option<Timestamp>,
}

impl Record {
    /// Reads the record whose JSON text stands at `span` of a page's body. Its other fields are
    /// read when they are needed.
    ///
    /// # Errors
    /// [`RecordError`] for the first thing that is missing.
    pub fn read(body: &str, span: Range<usize>) -> Result<Self, RecordError> {
        let text = &body[span.clone()];
        let head = fields::head(text).ok_or(RecordError::NotAnObject)?;
        let id_json = head.id.ok_or(RecordError::NoId)?;
        let id = match RecordId::from_json(id_json) {
            Ok(id) => id,
            Err(IdError::HoldsNul) => {
                return Err(RecordError::LeftOut(LeftOut {
                    id_json: id_json.to_owned(),
                    created_at: head.created_at.and_then(parse_timestamp),
                }));
            }
            Err(error) => return Err(error.into()),
        };
        let created_at = head.created_at.map(|value| place_in(body, value));
        Ok(Self {
            id,
            span,
            created_at,
        })
    }
}

/// Where `part` is in the text that it was cut from.
fn place_in(body: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - body.as_ptr() as usize;
    start..start + part.len()
}

/// The decoded response to one poll; every record's text is kept exactly as received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    body: String,
    records: Vec<Record>,
    duplicates: usize,
    left_out: Vec<LeftOut>,
}

impl Page {
    /// Joins a body and the records found in it, whose spans lie inside the body. If an id occurs
    /// twice, its first record counts, which is the newest in both orders of the contract.
    #[must_use]
    pub fn new(body: String, mut records: Vec<Record>) -> Self {
        let duplicates = remove_repeated(&mut records);
        Self {
            body,
            records,
            duplicates,
            left_out: Vec::new(),
        }
    }

    /// The same page, of which these records were left out.
    #[must_use]
    pub fn without(self, left_out: Vec<LeftOut>) -> Self {
        Self { left_out, ..self }
    }

    /// The records that were left out because no store can hold their id. They count for how full
    /// the page is.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The body that it was decoded from.
    #[must_use]
    pub fn body(&self) -> &str {
        &self.body
    }

    /// How many records were left out because their id occurs earlier on the page. They count for
    /// how full the page is, and for nothing else.
    #[must_use]
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// The records in the order of the page, which carries no promise.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The exact JSON text of one of this page's records.
    #[must_use]
    pub fn text(&self, record: &Record) -> &str {
        &self.body[record.span.clone()]
    }

    /// When the workspace says that one of this page's records was created; `None` if it does not
    /// say, or not as a time.
    #[must_use]
    pub fn created_at(&self, record: &Record) -> Option<Timestamp> {
        let value = record.created_at.clone()?;
        parse_timestamp(&self.body[value])
    }

    /// The fields of one of this page's records. They are read each time.
    #[must_use]
    pub fn fields(&self, record: &Record) -> Fields<'_> {
        Fields::parse(self.text(record)).expect("a record is an object")
    }
}

/// Removes each record whose id occurs earlier; returns how many these were.
fn remove_repeated(records: &mut Vec<Record>) -> usize {
    let mut seen = HashSet::with_capacity(records.len());
    let mut is_repeated = Vec::with_capacity(records.len());
    for record in records.iter() {
        is_repeated.push(!seen.insert(record.id.as_str()));
    }
    let before = records.len();
    let mut places = is_repeated.iter();
    records.retain(|_| places.next() == Some(&false));
    before - records.len()
}

#[cfg(feature = "fixtures")]
pub mod fixtures;
#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Result<RecordId, IdError> {
        RecordId::from_json(text)
    }

    #[test]
    fn a_number_and_the_same_digits_as_a_string_are_one_id() {
        assert_eq!(id("123"), id("\"123\""));
        assert_ne!(id("\"00123\""), id("123"));
    }

    #[test]
    fn ids_beyond_sixty_three_bits_keep_their_digits() {
        let big = id("92233720368547758079").unwrap();
        assert_eq!(big.as_str(), "92233720368547758079");
        assert_eq!(big.as_integer(), None);
    }

    #[test]
    fn values_that_are_no_id_are_refused() {
        for bad in ["1.5", "1e3", "true", "null", "{}", "[1]", "-", ""] {
            assert_eq!(id(bad), Err(IdError::NotAnId), "{bad}");
        }
        assert_eq!(id("\"\""), Err(IdError::Unusable));
        assert_eq!(id("\"a\\u0000b\""), Err(IdError::HoldsNul));
        assert_eq!(
            id(&format!("\"{}\"", "x".repeat(256))),
            Err(IdError::Unusable)
        );
    }

    #[test]
    fn a_route_is_read_with_either_separator() {
        for route in Route::ALL {
            assert_eq!(route.as_str().parse::<Route>().unwrap(), route);
            assert_eq!(
                route.as_str().replace('_', "-").parse::<Route>().unwrap(),
                route
            );
        }
        assert!("invoices".parse::<Route>().is_err());
    }
}
