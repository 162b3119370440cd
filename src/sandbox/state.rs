//! What the sandbox remembers, behind its one lock.
//!
//! Owns the clock and puts growth before every look at the records. Nothing here waits: the lock
//! is held for look-ups and edits only.

use std::time::Duration;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Options;
use super::fault::Script;
use super::keys::{Keys, Provider};
use super::records::{RecordError, Records, Row};
use super::requests::Log;
use super::route::Route;
use super::shop::{Growth, invented};

/// The name under which the workspace answers 412 unless told otherwise.
const STANDARD_HOST: &str = "standard.localhost";
/// Where the clock starts when no start is given: a fixed moment, so that runs are alike.
const USUAL_START: &str = "2026-03-03T10:30:00Z";

/// The fastest clock: a day in less than a second.
const FASTEST: f64 = 100_000.0;

pub(super) struct Inner {
    pub(super) records: Records,
    pub(super) growth: Growth,
    pub(super) keys: Keys,
    pub(super) script: Script,
    pub(super) log: Log,
    pub(super) requests_per_minute: u32,
    pub(super) businesses: &'static [i64],
    pub(super) standard_host: Option<String>,
    pub(super) automation_key: String,
    pub(super) rest_key: String,
    born: Instant,
    start: Timestamp,
    speed: f64,
    rng: Rng,
    invented: usize,
    request_ids: u64,
}

impl Inner {
    pub(super) fn new(options: &Options) -> Self {
        let usual = USUAL_START.parse().expect("a valid timestamp");
        let start = options.start.unwrap_or(usual);
        let mut rng = Rng::with_seed(options.seed ^ 0x5eed);
        let mut key = |kind: &str| format!("sandbox_{kind}_{:016x}", rng.u64(..));
        let (automation_key, rest_key) = (key("auto"), key("rest"));
        let mut keys = Keys::default();
        keys.put(automation_key.clone(), "automation".to_owned(), Provider::Automation);
        keys.put(rest_key.clone(), "rest".to_owned(), Provider::RestApi);
        let mut records = Records::new([48_200, 31_000, 9_100, 27_500, 190_000, 700]);
        let growth = Growth::new(options.shop, options.seed, start, &mut records);
        Self {
            records,
            growth,
            keys,
            script: Script::default(),
            log: Log::default(),
            requests_per_minute: options.requests_per_minute,
            businesses: options.shop.businesses(),
            standard_host: Some(STANDARD_HOST.to_owned()),
            automation_key,
            rest_key,
            born: Instant::now(),
            start,
            speed: if options.speed.is_finite() { options.speed.clamp(0.0, FASTEST) } else { 1.0 },
            request_ids: rng.u64(..1 << 32) << 24,
            rng,
            invented: 0,
        }
    }

    pub(super) fn elapsed(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.born)
    }

    /// The sandbox's clock.
    pub(super) fn now(&self) -> Timestamp {
        let seconds = self.elapsed(Instant::now()).as_secs_f64() * self.speed;
        let passed = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Lets the shop catch up with the clock.
    pub(super) fn grow(&mut self) {
        let now = self.now();
        self.growth.advance(now, &mut self.records);
    }

    pub(super) fn next_request_id(&mut self) -> String {
        self.request_ids += 1;
        format!("req_{:016x}", self.request_ids)
    }

    /// Adds a plausible record with the given fields over it and returns its id as sent.
    pub(super) fn add(
        &mut self,
        route: Route,
        business: Option<i64>,
        mut given: Map<String, Value>,
    ) -> Result<Value, RecordError> {
        self.grow();
        let at = self.now();
        self.invented += 1;
        let mut fields =
            invented(&mut self.rng, route, self.invented).with("created_at", format!("{at:.6}"));
        let id = given.remove("id");
        fields.merge(given);
        let business = business.unwrap_or(self.businesses[0]);
        let row: Row = match id {
            None => self.records.create(route, business, fields, at),
            Some(id) => self.records.create_as(route, business, id, fields, at)?,
        };
        Ok(self.records.id(route, row))
    }

    /// Changes fields of a record.
    pub(super) fn edit(
        &mut self,
        route: Route,
        id: &Value,
        mut changes: Map<String, Value>,
    ) -> Result<(), RecordError> {
        self.grow();
        let row = self.records.find(route, id)?;
        if changes.remove("id").is_some_and(|new| new != *id) {
            return Err(RecordError::Id);
        }
        let now = self.now();
        self.records.edit(route, row, changes, now);
        Ok(())
    }
}
