//! Searches for customers that were missed between two polls, by the names, e-mail addresses and
//! numbers in other routes' records.
//!
//! One search at a time, a bounded number per gap. The last row of the log that was searched is
//! stored with the gap, so that a restart continues there.

use std::collections::HashSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use shopmirror_core::backoff::Backoff;
use shopmirror_core::clock::{Clock, stamp};
use shopmirror_core::record::{Fields, Kind, Page, Route};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::MAX_TERM;
use crate::api::{ApiError, Class, Client, Retry};
use crate::poll::{BackgroundClient, BackgroundError};
use crate::store::{Gap, Search, Store, StoreError};

/// How long a gap is worked on after it was found.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Records of other routes are read from this long before the gap.
const LEAD: SignedDuration = SignedDuration::from_hours(1);
/// The most searches per gap.
const MAX_SEARCHES: i64 = 200;
/// How many rows of the log are read together. Each person they name costs a few look-ups.
const STEP: i64 = 500;
/// The shortest term that is searched, in characters.
const MIN_TERM: usize = 3;
/// Waits after a search that failed for a reason that may pass.
const BUSY: Backoff = Backoff {
    base: Duration::from_secs(2),
    cap: Duration::from_secs(300),
};
/// The shortest time between two readings of the log while there is a gap.
const BETWEEN: Duration = Duration::from_secs(10);
/// The shortest time between two looks for a gap.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// How long to wait while every poller is paused or the disk is full.
const PAUSE: Duration = Duration::from_secs(30);

/// The search for the customers of gaps.
pub struct MissedCustomers {
    /// Where gaps and names are read and customers stored.
    pub store: Store,
    /// Sends the searches.
    pub background: BackgroundClient,
    /// The time.
    pub clock: Clock,
}

impl MissedCustomers {
    /// Searches until stopped, whenever there is a gap and something new to search by.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails for a reason that does not pass.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StoreError> {
        // A search that is cut here is repeated after the next start.
        match stop.run_until_cancelled(self.search_always()).await {
            Some(ended) => ended,
            None => Ok(()),
        }
    }

    async fn search_always(&self) -> Result<(), StoreError> {
        let mut changed = self.store.last_seq();
        loop {
            changed.mark_unchanged();
            match self.search_gaps().await {
                Err(error) if error.is_transient() || error.is_of_one_route() => {
                    tracing::warn!(
                        %error,
                        "missed customers cannot be searched for now; the search is tried again"
                    );
                    sleep(PAUSE).await;
                }
                searched => searched?,
            }
            // Changes that come in quick succession cost one look.
            sleep(BETWEEN_LOOKS).await;
            if changed.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Works on each young gap of customers, the oldest first.
    async fn search_gaps(&self) -> Result<(), StoreError> {
        let since = match self.clock.now().wall.checked_sub(LIFE) {
            Ok(since) => stamp(since),
            Err(_) => String::new(),
        };
        let mut gaps = self.store.read(|reader| reader.gaps()).await?;
        gaps.retain(|gap| {
            let is_young = gap.found_at >= since && gap.searches < MAX_SEARCHES;
            let may_be_found = gap.is_unsettled() && gap.left_out_id.is_none();
            may_be_found && gap.route == Route::Customers.as_str() && is_young
        });
        if gaps.is_empty() {
            return Ok(());
        }
        for gap in gaps.into_iter().rev() {
            self.search_gap(gap).await?;
        }
        sleep(BETWEEN).await;
        Ok(())
    }

    /// Searches by the rows that the log has gained since this gap was last worked on.
    async fn search_gap(&self, gap: Gap) -> Result<(), StoreError> {
        let mut searched_seq = gap.searched_seq;
        let mut searches = gap.searches;
        if searched_seq == 0 {
            let from = lead_from(&gap.from_at);
            let read = self.store.read(move |reader| reader.position_at(&from));
            searched_seq = read.await?;
        }
        let mut found = 0;
        let mut refused = 0;
        let mut tried = HashSet::new();
        while searches < MAX_SEARCHES {
            let business = gap.business.as_deref();
            let Some((terms, last)) = self.terms_after(searched_seq, business).await? else {
                break;
            };
            for term in terms {
                if searches == MAX_SEARCHES || !tried.insert(term.to_lowercase()) {
                    continue;
                }
                searches += 1;
                let asked_after = self.store.seq();
                let page = match self.search(&term, business).await {
                    Ok(page) => page,
                    Err(error) => {
                        if refused == 0 {
                            tracing::warn!(
                                %error,
                                "the workspace refused a search for a missed customer; the search \
                                 continues with the next term"
                            );
                        }
                        refused += 1;
                        continue;
                    }
                };
                let search = Search {
                    business: gap.business.clone(),
                    page,
                    // Customers from before the gap are not forwarded as new.
                    kind: Kind::Baseline,
                    at: self.clock.now().wall,
                    asked_after,
                    backfill_term: None,
                };
                found += self.store.store_found(search).await?.created;
            }
            searched_seq = last;
            self.store
                .gap_searched(gap.id, searched_seq, searches)
                .await?;
        }
        if found > 0 {
            tracing::info!(
                gap = gap.id,
                searches,
                refused,
                found,
                "missed customers were found and forwarded; see `shopmirror gaps`"
            );
        }
        Ok(())
    }

    /// The terms to search by in the next rows of the log, and the last of these rows; `None` at
    /// the end of the log.
    async fn terms_after(
        &self,
        seq: i64,
        business: Option<&str>,
    ) -> Result<Option<(Vec<String>, i64)>, StoreError> {
        let business = business.map(str::to_owned);
        self.store
            .read_long(move |reader| {
                let mut people = Vec::new();
                let last = reader.each_naming_record(seq, STEP, business.as_deref(), |body| {
                    people.push(person(body));
                })?;
                let Some(last) = last else {
                    return Ok(None);
                };
                let terms = terms(people, |field, text| reader.has_customer(field, text))?;
                Ok(Some((terms, last)))
            })
            .await
    }

    /// Searches until there is a response.
    ///
    /// # Errors
    /// The term was refused.
    async fn search(&self, term: &str, business: Option<&str>) -> Result<Page, ApiError> {
        let mut failures = 0_u32;
        loop {
            let searched = self
                .background
                .request(async |client: &Client| client.search_customers(term, business).await)
                .await;
            let wait = match searched {
                Ok(page) => return Ok(page),
                Err(BackgroundError::Paused(_) | BackgroundError::Stopped) => PAUSE,
                Err(BackgroundError::Api(error)) => {
                    failures = failures.saturating_add(1);
                    match wait_after(&error, failures) {
                        Some(wait) => wait,
                        None => return Err(error),
                    }
                }
            };
            sleep(wait).await;
        }
    }
}

/// The time from which records of other routes are read for a gap that begins at `from_at`.
fn lead_from(from_at: &str) -> String {
    let Ok(at) = from_at.parse::<Timestamp>() else {
        return from_at.to_owned();
    };
    match at.checked_sub(LEAD) {
        Ok(from) => stamp(from),
        Err(_) => from_at.to_owned(),
    }
}

/// How long to wait after a search that failed; `None` if the term is refused.
fn wait_after(error: &ApiError, failures: u32) -> Option<Duration> {
    match error.class() {
        // A key, an address or the way is wrong, not the term: wait until it is fixed.
        Class::KeyRefused | Class::KeyForbidden | Class::WrongHost | Class::Between => {
            return Some(PAUSE);
        }
        Class::RouteBroken | Class::Busy | Class::BadPage => {}
    }
    match error.retry() {
        Retry::Never => None,
        Retry::Backoff => Some(BUSY.wait(failures, fastrand::f64(), None)),
        Retry::After(wait) => Some(BUSY.wait(failures, fastrand::f64(), Some(wait))),
    }
}

/// What identifies a person: a field of a customer and its text.
type Identifier = (&'static str, String);

/// What identifies the person that a record names, the strongest first: e-mail address and number,
/// or the name if that is all it shows; empty if it names nobody.
fn person(body: &str) -> Vec<Identifier> {
    let Some(fields) = Fields::parse(body) else {
        return Vec::new();
    };
    let mut person = Vec::new();
    for field in ["email", "mobile_number"] {
        if let Some(term) = term(fields.get(field)) {
            person.push((field, term));
        }
    }
    if !person.is_empty() {
        return person;
    }
    for field in ["customer_name", "name"] {
        if let Some(term) = term(fields.get(field)) {
            return vec![("name", term)];
        }
    }
    Vec::new()
}

/// One term for each person whom the mirror does not have: the strongest identifier.
fn terms<E>(
    people: Vec<Vec<Identifier>>,
    mut has_customer: impl FnMut(&str, &str) -> Result<bool, E>,
) -> Result<Vec<String>, E> {
    let mut terms = Vec::new();
    for person in people {
        let mut is_stored = false;
        for (field, text) in &person {
            is_stored = is_stored || has_customer(field, text)?;
        }
        if is_stored {
            continue;
        }
        if let Some((_, strongest)) = person.into_iter().next() {
            terms.push(strongest);
        }
    }
    Ok(terms)
}

/// A field's value as a search term; `None` if it is too short or too long for one.
fn term(value: Option<&str>) -> Option<String> {
    let text = text(value);
    if !(MIN_TERM..=MAX_TERM).contains(&text.chars().count()) {
        return None;
    }
    Some(text)
}

/// A field's value as text; empty if it is neither a text nor a number.
fn text(value: Option<&str>) -> String {
    match value.map(serde_json::from_str) {
        Some(Ok(Value::String(text))) => text.trim().to_owned(),
        Some(Ok(Value::Number(number))) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn searched(bodies: &[&str], known: &[&str]) -> Vec<String> {
        let people = bodies.iter().map(|body| person(body)).collect();
        let searched: Result<_, std::convert::Infallible> =
            terms(people, |_, text| Ok(known.contains(&text)));
        searched.unwrap()
    }

    #[test]
    fn a_person_is_searched_by_their_strongest_identifier() {
        let bodies = [
            r#"{"id":1,"customer_name":"Ann Lee","email":"Ann@example.com","mobile_number":"0700"}"#,
            r#"{"id":3,"name":"Bo","email":null,"mobile_number":"0701"}"#,
            r#"{"id":4,"customer_name":"Cy Day","amount":1}"#,
            r#"{"id":6,"name":"Al"}"#,
            "[]",
        ];
        assert_eq!(
            searched(&bodies, &[]),
            ["Ann@example.com", "0701", "Cy Day"]
        );
    }

    #[test]
    fn whoever_the_mirror_has_is_not_searched() {
        let bodies = [
            r#"{"id":1,"customer_name":"Ann Lee","email":"ann@example.com","mobile_number":"0700"}"#,
            r#"{"id":2,"customer_name":"Ann Lee","email":"other@example.com","mobile_number":"0702"}"#,
            r#"{"id":3,"customer_name":"Ann Lee"}"#,
        ];
        // Two people may share a name: the second is another as far as anybody can tell.
        assert_eq!(
            searched(&bodies, &["0700", "Ann Lee"]),
            ["other@example.com"]
        );
    }
}
