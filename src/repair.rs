//! Repair: searches for customers that were missed between two polls, by the names, e-mail addresses
//! and numbers in other routes' records.
//!
//! Uses what polls leave of the budget: one search at a time, a bounded number per gap. How far the
//! log was searched is stored with the gap, so that a restart continues there. What is found never
//! proves that nothing is missing.

use std::collections::HashSet;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::{ApiError, Class, Retry};
use crate::backoff::Backoff;
use crate::clock::{Clock, stamp};
use crate::poll::{BackgroundClient, BackgroundError};
use crate::record::{Fields, Kind, Page};
use crate::store::{PersonField, Repairable, Search, Store, StoreError};

/// How long after it was found a gap is worked on.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Records of other routes are read from this long before the gap.
const LEAD: SignedDuration = SignedDuration::from_hours(1);
/// The most searches per gap.
const MOST_SEARCHES: i64 = 200;
/// Rows of the log looked at together. Each person they name costs a few look-ups by index.
const STEP: i64 = 500;
/// The most people remembered as known to the mirror, so that they are not looked up again.
const MOST_KNOWN: usize = 10_000;
/// The longest term the workspace takes, in characters (contract, "Limits").
const LONGEST_TERM: usize = 100;
/// Waits after a search that failed for a reason that may pass.
const BUSY: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300) };
/// The shortest time between two readings of the log while there is a gap.
const BETWEEN: Duration = Duration::from_secs(10);
/// How long to wait while every poller is paused or the disk is full.
const PAUSE: Duration = Duration::from_secs(30);

/// The repair of the customers' gaps.
pub struct Repair {
    /// Where gaps and names are read and customers stored.
    pub store: Store,
    /// Sends the searches.
    pub background: BackgroundClient,
    /// The time.
    pub clock: Clock,
}

/// Why the work ends early.
enum Interrupted {
    Stopped,
    Store(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Repair {
    /// Searches until stopped, whenever there is a gap and something new to search by.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails for a reason that does not pass.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StoreError> {
        let mut changed = self.store.last_seq();
        let mut gaps_found = self.store.gaps_found();
        loop {
            changed.mark_unchanged();
            gaps_found.mark_unchanged();
            let since = self.clock.now().wall.checked_sub(LIFE).map(stamp).unwrap_or_default();
            let outcome = match self.store.read(move |reader| reader.repairable_gaps(&since)).await
            {
                Ok(gaps) => self.repair_all(gaps, &stop).await,
                Err(error) => Err(error.into()),
            };
            let mut has_gap = true;
            match outcome {
                Ok(worked) => has_gap = worked,
                Err(Interrupted::Stopped) => return Ok(()),
                Err(Interrupted::Store(error)) if error.passes() => self.pause(PAUSE, &stop).await,
                Err(Interrupted::Store(error)) => return Err(error),
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                grown = changed.changed(), if has_gap => if grown.is_err() { return Ok(()) },
                found = gaps_found.changed() => if found.is_err() { return Ok(()) },
            }
        }
    }

    /// Works on each gap; returns false if none can be worked on.
    async fn repair_all(
        &self,
        gaps: Vec<Repairable>,
        stop: &CancellationToken,
    ) -> Result<bool, Interrupted> {
        let mut worked = false;
        for gap in gaps.into_iter().filter(|gap| gap.searches < MOST_SEARCHES) {
            self.repair(gap, stop).await?;
            worked = true;
        }
        if worked {
            self.pause(BETWEEN, stop).await;
        }
        Ok(worked)
    }

    /// Searches by what the log has gained since this gap was last worked on.
    async fn repair(&self, at: Repairable, stop: &CancellationToken) -> Result<(), Interrupted> {
        let Repairable { gap, mut searched_seq, searches } = at;
        if searched_seq == 0 {
            let from =
                gap.from_at.parse().ok().and_then(|at: jiff::Timestamp| at.checked_sub(LEAD).ok());
            let from = from.map_or_else(|| gap.from_at.clone(), stamp);
            searched_seq = self.store.read(move |reader| reader.position_at(&from)).await?;
        }
        let mut tally = SearchTally { searches, ..SearchTally::default() };
        let mut known = People::default();
        while tally.may_search() {
            let business = gap.business.as_deref();
            let (terms, last);
            (terms, last, known) = self.terms_after(searched_seq, business, known).await?;
            let Some(last) = last else { break };
            for term in terms {
                if !tally.may_search() {
                    break;
                }
                tally.searches += 1;
                let asked_after = self.store.seq();
                match self.search(&term, business, stop).await? {
                    Ok(page) => {
                        let search = Search {
                            business: gap.business.clone(),
                            page,
                            // Customers from before the gap are not forwarded as new.
                            kind: Kind::Baseline,
                            at: self.clock.now().wall,
                            asked_after,
                            backfill_term: None,
                        };
                        tally.found += self.store.store_found(search).await?.created;
                    }
                    Err(error) => tally.refuse(&error),
                }
            }
            searched_seq = last;
            self.store.gap_searched(gap.id, searched_seq, tally.searches).await?;
        }
        tally.log(gap.id, searches);
        Ok(())
    }

    /// The terms to search by in the next rows of the log, the last of these rows, and the people that
    /// the mirror is known to have: `known` and those found now.
    async fn terms_after(
        &self,
        seq: i64,
        business: Option<&str>,
        mut known: People,
    ) -> Result<(Vec<String>, Option<i64>, People), StoreError> {
        let business = business.map(str::to_owned);
        self.store
            .read_long(move |reader| {
                let mut people = People::default();
                let business = business.as_deref();
                let last = reader.each_naming_record(seq, STEP, business, |body| {
                    people.add(body, &known);
                })?;
                let has = |field, text: &str| reader.has_customer(field, text);
                known.remember(people.forget(has)?);
                Ok((people.terms(), last, known))
            })
            .await
    }

    /// Searches until there is a response; the inner error is a refusal of the term.
    async fn search(
        &self,
        term: &str,
        business: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<Result<Page, ApiError>, Interrupted> {
        let mut failures = 0_u32;
        loop {
            let outcome = tokio::select! {
                () = stop.cancelled() => return Err(Interrupted::Stopped),
                outcome = self.background.search(term, business) => outcome,
            };
            let wait = match outcome {
                Ok(page) => return Ok(Ok(page)),
                Err(BackgroundError::Stopped) => {
                    stop.cancelled().await;
                    return Err(Interrupted::Stopped);
                }
                Err(BackgroundError::Paused(_)) => PAUSE,
                Err(BackgroundError::Api(error)) => {
                    failures = failures.saturating_add(1);
                    match error.retry() {
                        Retry::Backoff => BUSY.wait(failures, fastrand::f64(), None),
                        Retry::After(asked) => BUSY.wait(failures, fastrand::f64(), Some(asked)),
                        // The key or the address is wrong, not the term: wait until it is fixed.
                        Retry::Never if concerns_every_request(error.class()) => PAUSE,
                        Retry::Never => return Ok(Err(error)),
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => return Err(Interrupted::Stopped),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn pause(&self, wait: Duration, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// What the searches for one gap came to.
#[derive(Debug, Default)]
struct SearchTally {
    /// All searches made for the gap so far.
    searches: i64,
    found: usize,
    refused: usize,
}

impl SearchTally {
    fn may_search(&self) -> bool {
        self.searches < MOST_SEARCHES
    }

    /// Counts a refused search and logs the first.
    fn refuse(&mut self, error: &ApiError) {
        if self.refused == 0 {
            tracing::warn!(%error, "the workspace refused a search for a missed customer; the search goes on with the next term");
        }
        self.refused += 1;
    }

    /// Logs the result; `before` searches were made in earlier rounds.
    fn log(&self, gap: i64, before: i64) {
        let searches = self.searches - before;
        if self.refused > 1 {
            tracing::warn!(
                gap,
                searches,
                refused = self.refused,
                "the workspace refused several searches for missed customers"
            );
        }
        if self.found > 0 {
            tracing::info!(
                gap,
                searches,
                found = self.found,
                "missed customers were found and forwarded; see `shopmirror gaps`"
            );
        } else if !self.may_search() {
            tracing::warn!(
                gap,
                searches = MOST_SEARCHES,
                "the search for missed customers has ended without a result; see `shopmirror gaps`"
            );
        }
    }
}

/// True if an error of this class is about the key or the address and not about the request.
fn concerns_every_request(class: Class) -> bool {
    matches!(class, Class::KeyRefused | Class::KeyForbidden | Class::WrongHost)
}

/// E-mail address, number and name of a person, as far as known.
type Person = [String; 3];

/// People named in other routes' records.
#[derive(Debug, Default)]
struct People {
    /// In the order in which they were named.
    named: Vec<Person>,
    all: HashSet<Person>,
}

impl People {
    /// Adds the person that a record names, unless they are here or among those `known`.
    fn add(&mut self, body: &str, known: &Self) {
        let Some(fields) = Fields::of(body) else { return };
        let [email, mobile, customer, name] =
            ["email", "mobile_number", "customer_name", "name"].map(|name| fields.get(name));
        let person = [
            text(email),
            text(mobile),
            Some(text(customer)).filter(|name| !name.is_empty()).unwrap_or_else(|| text(name)),
        ];
        // Many records of one person cost one look-up.
        if !known.all.contains(&person) && self.all.insert(person.clone()) {
            self.named.push(person);
        }
    }

    /// Drops the people that the mirror has, found by e-mail or number, or by name if that is all a
    /// record shows; returns them.
    fn forget<E>(
        &mut self,
        mut has: impl FnMut(PersonField, &str) -> Result<bool, E>,
    ) -> Result<Vec<Person>, E> {
        let (mut unknown, mut known) = (Vec::new(), Vec::new());
        for person in std::mem::take(&mut self.named) {
            let [email, mobile, name] = &person;
            let only_named = email.is_empty() && mobile.is_empty();
            let parts = [
                (PersonField::Email, email, true),
                (PersonField::Mobile, mobile, true),
                (PersonField::Name, name, only_named),
            ];
            let mut is_known = false;
            for (field, text, counts) in parts {
                if counts && !is_known && !text.is_empty() {
                    is_known = has(field, text)?;
                }
            }
            if is_known { known.push(person) } else { unknown.push(person) }
        }
        self.named = unknown;
        Ok(known)
    }

    /// Keeps people, so that they are not looked up again; forgets the others when there are too many.
    fn remember(&mut self, people: Vec<Person>) {
        if self.all.len() + people.len() > MOST_KNOWN {
            self.all.clear();
        }
        self.all.extend(people);
    }

    /// What to search for: one term per person, without repeats.
    fn terms(self) -> Vec<String> {
        let mut seen = HashSet::new();
        self.named
            .into_iter()
            .filter_map(|person| person.into_iter().find(|part| is_term(part)))
            .filter(|term| seen.insert(plain(term)))
            .collect()
    }
}

/// A field's value as text; empty if it is neither a text nor a number.
fn text(value: Option<&str>) -> String {
    match value.map(serde_json::from_str) {
        Some(Ok(Value::String(text))) => text.trim().to_owned(),
        Some(Ok(Value::Number(number))) => number.to_string(),
        _ => String::new(),
    }
}

fn is_term(text: &str) -> bool {
    (3..=LONGEST_TERM).contains(&text.chars().count())
}

/// A text in the form in which two systems are compared: trimmed, in lower case.
fn plain(text: &str) -> String {
    text.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people<'a>(bodies: impl IntoIterator<Item = &'a str>, known: &People) -> People {
        let mut people = People::default();
        bodies.into_iter().for_each(|body| people.add(body, known));
        people
    }

    #[test]
    fn a_person_is_searched_once_by_the_strongest_thing_known_of_them() {
        let bodies = [
            r#"{"id":1,"customer_name":"Ann Lee","email":"Ann@example.com","mobile_number":"0700"}"#,
            r#"{"id":2,"name":"Ann Lee","email":"ann@example.com ","mobile_number":null}"#,
            r#"{"id":3,"name":"Bo","email":null,"mobile_number":"0701"}"#,
            r#"{"id":4,"customer_name":"Cy Day","amount":1}"#,
            r#"{"id":5,"name":"Bo","mobile_number":"0701"}"#,
            "[]",
        ];
        let terms = people(bodies, &People::default()).terms();
        assert_eq!(terms, ["Ann@example.com", "0701", "Cy Day"]);
    }

    #[test]
    fn whoever_the_mirror_has_is_not_searched_and_not_looked_up_again() {
        let bodies = [
            r#"{"id":1,"customer_name":"Ann Lee","email":"ann@example.com","mobile_number":"0700"}"#,
            r#"{"id":2,"customer_name":"Ann Lee","email":"other@example.com","mobile_number":"0702"}"#,
            r#"{"id":3,"customer_name":"Ann Lee"}"#,
        ];
        let mut found = people(bodies, &People::default());
        let has = |field, text: &str| {
            Ok::<_, std::convert::Infallible>(match field {
                PersonField::Email => false,
                PersonField::Mobile => text == "0700",
                PersonField::Name => text == "Ann Lee",
            })
        };
        let mut known = People::default();
        known.remember(found.forget(has).unwrap());
        // Two people may share a name: the second is another as far as anybody can tell.
        assert_eq!(found.terms(), ["other@example.com"]);
        assert_eq!(people(bodies, &known).terms(), ["other@example.com"]);
    }
}
