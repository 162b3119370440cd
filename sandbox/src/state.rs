//! What the sandbox remembers, behind its one lock.
//!
//! Owns the clock and lets the shop grow before each read. Nothing here waits: the lock
//! is held only while data is read or edited.

use std::time::Duration;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::fault::Script;
use super::fields::Fields;
use super::intake::{CheckIn, FIRST_CHECKIN, Intake};
use super::journal::{Input, Journal};
use super::keys::{KEY_PREFIX, Keys, Provider};
use super::options::Options;
use super::records::{RecordError, Records, Row};
use super::requests::Log;
use super::route::Route;
use super::shop::{Growth, invented};

/// The host name that gets 412 unless the settings name another.
///
/// Clients accept plain http for `localhost` as they do for 127.0.0.1, so the two names are the
/// standard host and the shop's own domain of one sandbox.
const STANDARD_HOST: &str = "localhost";
/// Where the clock starts by default: a fixed time, so that runs are alike.
const USUAL_START: &str = "2026-03-03T10:30:00Z";

const WORKSPACE_NAME: &str = "Northside Device Repair (sandbox)";
/// The fastest clock: a day in less than a second.
const FASTEST: f64 = 100_000.0;

pub(super) struct Inner {
    pub(super) records: Records,
    pub(super) growth: Growth,
    pub(super) keys: Keys,
    pub(super) intake: Intake,
    pub(super) journal: Journal,
    pub(super) script: Script,
    pub(super) log: Log,
    pub(super) requests_per_minute: u32,
    pub(super) businesses: &'static [i64],
    pub(super) standard_host: Option<String>,
    /// The display name that pings tell; none if they tell none.
    pub(super) workspace_name: Option<String>,
    pub(super) automation_key: String,
    pub(super) rest_key: String,
    born: Instant,
    pub(super) start: Timestamp,
    /// How far the clock has been moved ahead by hand.
    moved: SignedDuration,
    /// The time that the clock shows while kept inputs are replayed.
    held: Option<Timestamp>,
    speed: f64,
    rng: Rng,
    invented: usize,
    pub(super) request_ids: u64,
    /// Counts the changes that a state file must contain.
    pub(super) changes: u64,
}

impl Inner {
    pub(super) fn new(options: &Options) -> Self {
        let usual = USUAL_START.parse().expect("a valid timestamp");
        let start = options.start.unwrap_or(usual);
        let mut rng = Rng::with_seed(options.seed ^ 0x5eed);
        let mut key = |kind: &str| format!("{KEY_PREFIX}{kind}_{:016x}", rng.u64(..));
        let (automation_key, rest_key) = (key("auto"), key("rest"));
        let mut keys = Keys::default();
        keys.put(
            automation_key.clone(),
            "automation".to_owned(),
            Provider::Automation,
        );
        keys.put(rest_key.clone(), "rest".to_owned(), Provider::RestApi);
        let first_ids = [48_200, 31_000, 9_100, 27_500, 190_000, 700];
        let mut records = Records::new(first_ids, options.date_formats.clone());
        let growth = Growth::new(
            options.shop,
            options.past_in.as_ref(),
            options.seed,
            start,
            &mut records,
        );
        Self {
            records,
            growth,
            keys,
            intake: Intake::new(),
            journal: Journal::new(options.state_file.is_some()),
            script: Script::default(),
            log: Log::default(),
            requests_per_minute: options.requests_per_minute,
            businesses: options.shop.businesses(),
            standard_host: Some(STANDARD_HOST.to_owned()),
            workspace_name: Some(WORKSPACE_NAME.to_owned()),
            automation_key,
            rest_key,
            born: Instant::now(),
            start,
            moved: SignedDuration::ZERO,
            held: None,
            speed: if options.speed.is_finite() {
                options.speed.clamp(0.0, FASTEST)
            } else {
                1.0
            },
            request_ids: rng.u64(..1 << 32) << 24,
            rng,
            invented: 0,
            changes: 0,
        }
    }

    pub(super) fn elapsed(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.born)
    }

    /// The sandbox's clock.
    pub(super) fn now(&self) -> Timestamp {
        if let Some(held) = self.held {
            return held;
        }
        let seconds = self.elapsed(Instant::now()).as_secs_f64() * self.speed;
        let passed = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX);
        let passed = passed.saturating_add(self.moved);
        self.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Moves the clock ahead.
    pub(super) fn move_clock(&mut self, ahead: SignedDuration) {
        self.moved = self.moved.saturating_add(ahead);
        self.changed();
    }

    /// Counts a change that a state file must contain.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Lets the shop catch up with the clock; returns the clock's time.
    pub(super) fn grow(&mut self) -> Timestamp {
        let now = self.now();
        self.growth.advance(now, &mut self.records);
        for index in self.growth.take_arrived() {
            if let Some(checkin) = self.intake.checkins.get_mut(index) {
                checkin.open = false;
            }
        }
        now
    }

    pub(super) fn next_request_id(&mut self) -> String {
        self.request_ids += 1;
        format!("req_{:016x}", self.request_ids)
    }

    /// A new key's text.
    pub(super) fn fresh_key(&mut self) -> String {
        format!(
            "{KEY_PREFIX}key_{:016x}{:016x}",
            self.rng.u64(..),
            self.rng.u64(..)
        )
    }

    /// Follows one of the first two keys to its new text.
    pub(super) fn renamed(&mut self, old: &str, new: &str) {
        for own in [&mut self.automation_key, &mut self.rest_key] {
            if own == old {
                new.clone_into(own);
            }
        }
        self.changed();
    }

    /// Puts an input into the workspace; returns the record's id, or null.
    pub(super) fn put(&mut self, input: &Input) -> Result<Value, RecordError> {
        let at = self.grow();
        let id = self.apply(at, input)?;
        self.journal.note(at, input);
        self.changed();
        Ok(id)
    }

    /// Puts in a new record of intake and returns its id.
    pub(super) fn record(&mut self, input: &Input) -> u64 {
        let id = self.put(input).ok().as_ref().and_then(number);
        id.expect("a record without an id of its own gets a free integer")
    }

    /// Replays a kept input at its own time.
    pub(super) fn put_again(&mut self, at: Timestamp, input: &Input) -> Result<(), RecordError> {
        self.held = Some(at);
        let done = self.put(input).map(|_| ());
        self.held = None;
        done
    }

    /// Adds plausible records, edits records, and hands what intake made to the shop.
    fn apply(&mut self, at: Timestamp, input: &Input) -> Result<Value, RecordError> {
        match input {
            Input::Lead { business, fields } => {
                let created = fields.clone().with("created_at", format!("{at:.6}"));
                let row = self.records.create(Route::Leads, *business, created, at);
                self.growth.follow(at, row, *business, fields);
                Ok(self.records.id(Route::Leads, row))
            }
            Input::CheckIn {
                business,
                fields,
                device_password,
            } => {
                let index = self.intake.checkins.len();
                self.growth.book(at, index, *business, fields);
                let fields = fields.clone().with("created_at", format!("{at:.6}"));
                let device_password = device_password.clone();
                let checkin = CheckIn {
                    business: *business,
                    fields,
                    device_password,
                    open: true,
                };
                self.intake.checkins.push(checkin);
                Ok((FIRST_CHECKIN + index as u64).into())
            }
            Input::Add {
                route,
                business,
                record,
            } => {
                let mut given = record.clone();
                let id = given.remove("id");
                if let Some(id) = &id {
                    self.records.free(*route, id)?;
                }
                self.invented += 1;
                let mut fields = invented(&mut self.rng, *route, self.invented)
                    .with("created_at", format!("{at:.6}"));
                fields.merge(given);
                let business = business.unwrap_or(self.businesses[0]);
                let row: Row = match id {
                    None => self.records.create(*route, business, fields, at),
                    Some(id) => self.records.create_as(*route, business, id, fields, at)?,
                };
                Ok(self.records.id(*route, row))
            }
            Input::Edit { route, id, fields } => {
                let row = self.records.find(*route, id)?;
                let mut changes = fields.clone();
                if changes.remove("id").is_some_and(|new| new != *id) {
                    return Err(RecordError::Id);
                }
                let moves = *route == Route::Jobs
                    && ["status", "status_stage"]
                        .iter()
                        .any(|name| changes.contains_key(*name));
                self.records.edit(*route, row, changes, at);
                if moves {
                    self.note_status_change(row, at);
                }
                Ok(id.clone())
            }
            Input::Pause { paused } => {
                self.growth.pause(at, *paused);
                Ok(Value::Null)
            }
            Input::ByLastChange { yes } => {
                self.records.list_by_last_change(*yes);
                Ok(Value::Null)
            }
            Input::StringIds { yes } => {
                self.records.send_ids_as_strings(*yes);
                Ok(Value::Null)
            }
        }
    }

    /// Adds the status change that the shop's software makes when somebody sets a job's status.
    fn note_status_change(&mut self, job: Row, at: Timestamp) {
        let (business, job) = self.records.get(Route::Jobs, job);
        let copied = [
            "job_number",
            "customer_name",
            "device_brand",
            "device_model",
            "status",
            "status_stage",
        ];
        let change = copied
            .iter()
            .fold(Fields::default(), |change, name| {
                change.with(name, job.get(name).clone())
            })
            .with("changed_by", "Portal")
            .with("comment", Value::Null)
            .with("created_at", format!("{at:.6}"));
        self.records
            .create(Route::JobStatusChanges, business, change, at);
    }
}

/// The integer of an id that is sent as a number or as a string.
fn number(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}
