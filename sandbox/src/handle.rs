//! The handle that tests and the server hold: one lock, and what may be done to the workspace.
//!
//! Does not know HTTP. Each method takes the lock once and never waits while it holds it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::fault::Fault;
use super::journal::Input;
use super::keys::Provider;
use super::options::Options;
use super::records::{RecordError, Truth};
use super::requests::Requests;
use super::route::Route;
use super::state::Inner;
use super::state_file::{StateError, StateFile};

/// A handle on one imitated workspace; clones share it.
#[derive(Clone)]
pub struct Sandbox(Arc<Workspace>);

struct Workspace {
    inner: Mutex<Inner>,
    file: Option<Saved>,
}

/// The state file, and the number of changes that it contains.
struct Saved {
    file: StateFile,
    changes: AtomicU64,
}

impl Sandbox {
    /// A workspace whose shop has been open for a while; it keeps nothing in a file.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the caller has no use for them after this"
    )]
    pub fn new(options: Options) -> Self {
        Self::with(Inner::new(&options), None)
    }

    /// A sandbox that keeps its state in [`Options::state_file`], as it was left there.
    ///
    /// [`crate::serve`] writes the file while it runs and once more at its end.
    ///
    /// # Errors
    /// When the file cannot be read or written, is not a state file, or has another seed or shop.
    pub fn open(options: &Options) -> Result<Self, StateError> {
        let Some(file) = StateFile::of(options) else {
            return Ok(Self::new(options.clone()));
        };
        let inner = file.open(options)?;
        let changes = AtomicU64::new(0);
        Ok(Self::with(inner, Some(Saved { file, changes })))
    }

    fn with(inner: Inner, file: Option<Saved>) -> Self {
        Self(Arc::new(Workspace {
            inner: Mutex::new(inner),
            file,
        }))
    }

    /// Writes the state file if there is one and something has changed since the last write.
    ///
    /// # Errors
    /// When the file cannot be written. The next call tries again.
    pub fn save(&self) -> Result<(), StateError> {
        let Some(saved) = &self.0.file else {
            return Ok(());
        };
        let (text, changes) = {
            let inner = self.lock();
            if saved.changes.load(Relaxed) == inner.changes {
                return Ok(());
            }
            (saved.file.encode(&inner), inner.changes)
        };
        saved.file.write(&text)?;
        saved.changes.store(changes, Relaxed);
        Ok(())
    }

    pub(super) fn must_be_saved(&self) -> bool {
        let saved = self.0.file.as_ref();
        saved.is_some_and(|saved| saved.changes.load(Relaxed) != self.lock().changes)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is complete before anything can panic.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn grown(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.grow();
        inner
    }

    /// The automation key that exists from the start.
    #[must_use]
    pub fn automation_key(&self) -> String {
        self.lock().automation_key.clone()
    }

    /// The REST API key that exists from the start; it may not read.
    #[must_use]
    pub fn rest_key(&self) -> String {
        self.lock().rest_key.clone()
    }

    /// Makes a key, known in the log by `name`.
    pub fn add_key(&self, key: &str, name: &str, provider: Provider) {
        let mut inner = self.lock();
        inner.keys.put(key.to_owned(), name.to_owned(), provider);
        inner.changed();
    }

    /// Disables or enables a key; false if there is no such key.
    pub fn disable_key(&self, key: &str, disabled: bool) -> bool {
        let mut inner = self.lock();
        let known = inner
            .keys
            .get_mut(key)
            .map(|key| key.disabled = disabled)
            .is_some();
        inner.changed();
        known
    }

    /// Adds a record; what `record` lacks is invented. Returns the id as it is sent.
    ///
    /// # Errors
    /// If the given id is taken or invalid.
    pub fn add_record(
        &self,
        route: Route,
        business: Option<i64>,
        record: Map<String, Value>,
    ) -> Result<Value, RecordError> {
        self.lock().put(&Input::Add {
            route,
            business,
            record,
        })
    }

    /// Adds `count` invented records to the default business at once.
    pub fn burst(&self, route: Route, count: usize) {
        self.burst_in(route, None, count);
    }

    /// Adds `count` invented records to a business at once.
    pub fn burst_in(&self, route: Route, business: Option<i64>, count: usize) {
        let mut inner = self.lock();
        for _ in 0..count {
            let record = Map::new();
            inner
                .put(&Input::Add {
                    route,
                    business,
                    record,
                })
                .expect("a record without an id gets a free one");
        }
    }

    /// Changes fields of a record.
    ///
    /// # Errors
    /// If there is no such record, or `fields` would change its id.
    pub fn edit(
        &self,
        route: Route,
        id: &Value,
        fields: Map<String, Value>,
    ) -> Result<(), RecordError> {
        self.lock()
            .put(&Input::Edit {
                route,
                id: id.clone(),
                fields,
            })
            .map(|_| ())
    }

    /// Scripts a fault after those scripted before.
    pub fn fault(&self, fault: Fault) {
        self.lock().script.add(fault);
    }

    /// Removes the pending faults.
    pub fn clear_faults(&self) {
        self.lock().script.clear();
    }

    /// Every record of a route ever made, oldest first, with its history.
    #[must_use]
    pub fn truth(&self, route: Route) -> Vec<Truth> {
        self.grown().records.truth(route)
    }

    /// The requests received so far.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.lock().log.told()
    }

    /// Stops the shop's own growth or resumes it; records added by hand still appear.
    pub fn pause_growth(&self, paused: bool) {
        self.lock()
            .put(&Input::Pause { paused })
            .expect("a pause has no id to be refused");
    }

    /// Sends integer ids as strings from now on, or as integers again.
    pub fn send_ids_as_strings(&self, yes: bool) {
        let told = self.lock().put(&Input::StringIds { yes });
        told.expect("the form of ids has no id to be refused");
    }

    /// Lists records newest first by their last change from now on, or by creation again. The
    /// contract says only "newest first".
    pub fn list_by_last_change(&self, yes: bool) {
        let done = self.lock().put(&Input::ByLastChange { yes });
        done.expect("the order of lists has no id to be refused");
    }

    /// Sets how many requests per minute one key may send.
    pub fn set_requests_per_minute(&self, limit: u32) {
        let mut inner = self.lock();
        inner.requests_per_minute = limit;
        inner.changed();
    }

    /// Simulates another client that sends this many requests per minute with the automation key; 0
    /// ends it.
    pub fn set_rival(&self, per_minute: u32) {
        let mut inner = self.lock();
        let key = inner.automation_key.clone();
        if let Some(key) = inner.keys.get_mut(&key) {
            key.window.set_rival(Instant::now(), per_minute);
        }
    }

    /// Sets the host name, without port, that gets 412; `None` for no name.
    pub fn set_standard_host(&self, name: Option<String>) {
        let mut inner = self.lock();
        inner.standard_host = name;
        inner.changed();
    }

    /// Sets the display name that pings tell; `None` for pings that tell none.
    pub fn set_workspace_name(&self, name: Option<&str>) {
        self.lock().workspace_name = name.map(str::to_owned);
    }

    /// Moves the sandbox's clock ahead by this many seconds; it never goes back.
    pub fn advance_clock(&self, seconds: u32) {
        let mut inner = self.lock();
        inner.move_clock(SignedDuration::from_secs(seconds.into()));
        inner.grow();
    }

    /// The sandbox's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lock().now()
    }
}
