//! Searches for customers that were missed between two polls, by the names, e-mail addresses and
//! numbers in other routes' records.
//!
//! One search at a time, a bounded number per gap. How far the log was searched is stored with the
//! gap, so that a restart goes on there.

use std::collections::HashSet;
use std::time::Duration;

use jiff::SignedDuration;
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

/// How long after it was found a gap is worked on.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Records of other routes are read from this long before the gap.
const LEAD: SignedDuration = SignedDuration::from_hours(1);
/// The most searches per gap.
const MAX_SEARCHES: i64 = 200;
/// Rows of the log looked at together. Each person they name costs a few look-ups by index.
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
        // A search that is cut here is made again after the next start.
        stop.run_until_cancelled(self.search_always())
            .await
            .unwrap_or(Ok(()))
    }

    async fn search_always(&self) -> Result<(), StoreError> {
        let mut changed = self.store.last_seq();
        loop {
            changed.mark_unchanged();
            match self.search_gaps().await {
                Err(error) if error.is_transient() || error.is_of_one_route() => {
                    tracing::warn!(%error, "missed customers cannot be searched for now; the search is tried again");
                    sleep(PAUSE).await;
                }
                searched => searched?,
            }
            if changed.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Works on each young gap of customers, the oldest first.
    async fn search_gaps(&self) -> Result<(), StoreError> {
        let since = self
            .clock
            .now()
            .wall
            .checked_sub(LIFE)
            .map(stamp)
            .unwrap_or_default();
        let mut gaps = self.store.read(|reader| reader.gaps()).await?;
        gaps.retain(|gap| {
            let is_young = gap.found_at >= since && gap.searches < MAX_SEARCHES;
            gap.is_unsettled() && gap.route == Route::Customers.as_str() && is_young
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

    /// Searches by what the log has gained since this gap was last worked on.
    async fn search_gap(&self, gap: Gap) -> Result<(), StoreError> {
        let Gap {
            mut searched_seq,
            mut searches,
            ..
        } = gap;
        if searched_seq == 0 {
            let from = gap
                .from_at
                .parse()
                .ok()
                .and_then(|at: jiff::Timestamp| at.checked_sub(LEAD).ok());
            let from = from.map_or_else(|| gap.from_at.clone(), stamp);
            searched_seq = self
                .store
                .read(move |reader| reader.position_at(&from))
                .await?;
        }
        let (mut found, mut refused) = (0, 0);
        let mut asked = HashSet::new();
        while searches < MAX_SEARCHES {
            let business = gap.business.as_deref();
            let Some((terms, last)) = self.terms_after(searched_seq, business).await? else {
                break;
            };
            for term in terms {
                if searches == MAX_SEARCHES || !asked.insert(term.to_lowercase()) {
                    continue;
                }
                searches += 1;
                let asked_after = self.store.seq();
                match self.search(&term, business).await {
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
                        found += self.store.store_found(search).await?.created;
                    }
                    Err(error) => {
                        if refused == 0 {
                            tracing::warn!(%error, "the workspace refused a search for a missed customer; the search goes on with the next term");
                        }
                        refused += 1;
                    }
                }
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
                    people.extend(person(body));
                })?;
                let terms = terms(people, |field, text| reader.has_customer(field, text))?;
                Ok(last.map(|last| (terms, last)))
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
            let search = async |client: &Client| client.search_customers(term, business).await;
            let wait = match self.background.request(search).await {
                Ok(page) => return Ok(page),
                Err(BackgroundError::Paused(_) | BackgroundError::Stopped) => PAUSE,
                Err(BackgroundError::Api(error)) => {
                    failures = failures.saturating_add(1);
                    match (error.class(), error.retry()) {
                        // A key or an address is wrong, not the term: wait until it is fixed.
                        (Class::KeyRefused | Class::KeyForbidden | Class::WrongHost, _) => PAUSE,
                        (_, Retry::Never) => return Err(error),
                        (_, Retry::Backoff) => BUSY.wait(failures, fastrand::f64(), None),
                        (_, Retry::After(asked)) => {
                            BUSY.wait(failures, fastrand::f64(), Some(asked))
                        }
                    }
                }
            };
            sleep(wait).await;
        }
    }
}

/// What tells a person: fields of a customer and their texts, the strongest first; at least one.
type Person = Vec<(&'static str, String)>;

/// The person that a record names, by e-mail address and number, or by name if that is all it
/// shows.
fn person(body: &str) -> Option<Person> {
    let fields = Fields::of(body)?;
    let told = |field, name| {
        let text = text(fields.get(name));
        (MIN_TERM..=MAX_TERM)
            .contains(&text.chars().count())
            .then_some((field, text))
    };
    let strong = told("email", "email")
        .into_iter()
        .chain(told("mobile_number", "mobile_number"));
    let name = || told("name", "customer_name").or_else(|| told("name", "name"));
    let person: Person = strong.collect();
    if person.is_empty() {
        name().map(|name| vec![name])
    } else {
        Some(person)
    }
}

/// One term for each person whom the mirror does not have, the strongest thing known of them.
fn terms<E>(
    people: Vec<Person>,
    mut has: impl FnMut(&str, &str) -> Result<bool, E>,
) -> Result<Vec<String>, E> {
    let mut terms = Vec::new();
    for person in people {
        let mut is_known = false;
        for (field, text) in &person {
            is_known = is_known || has(field, text)?;
        }
        terms.extend(
            person
                .into_iter()
                .next()
                .filter(|_| !is_known)
                .map(|(_, text)| text),
        );
    }
    Ok(terms)
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
        let people = bodies.iter().filter_map(|body| person(body)).collect();
        let has = |_: &str, text: &str| Ok::<_, std::convert::Infallible>(known.contains(&text));
        terms(people, has).unwrap()
    }

    #[test]
    fn a_person_is_searched_by_the_strongest_thing_known_of_them() {
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
