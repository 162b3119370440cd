//! Repair: customers that slipped out between two polls are searched for by what other routes'
//! records say of them.
//!
//! Works on what polls leave of the budget, one search at a time, a bounded number a gap. How far
//! the log was searched is kept with the gap, so that a restart goes on where it was. What is found
//! never counts as proof that nothing is missing.

use std::collections::HashSet;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::{Class, Retry};
use crate::backoff::Backoff;
use crate::clock::{Clock, stamp};
use crate::poll::{BackgroundClient, BackgroundError};
use crate::record::{Change, Kind, Page, Route};
use crate::store::{Repairable, Search, Store, StoreError};

/// A gap is searched for no longer than this after it was found.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Records of other routes are looked at from this long before the gap on.
const LEAD: SignedDuration = SignedDuration::from_hours(1);
/// Searches a gap is worth.
const MOST_SEARCHES: i64 = 200;
/// Rows of the log looked at together; each look reads the whole mirror of customers once.
const STEP: usize = 2_000;
/// The longest term the workspace takes, in characters (contract, "Limits").
const LONGEST_TERM: usize = 100;
/// Waits after a search that failed in a way that may pass.
const BUSY: Backoff = Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(300) };
/// The shortest time between two looks at the log while there is a gap.
const BETWEEN: Duration = Duration::from_secs(10);
/// How long nothing is tried while every poller is paused, or the disk is full.
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

/// What ends the work before it is done.
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
    /// Searches whenever there is a gap and something new to search by, until stopped.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails in a way that waiting cannot mend.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StoreError> {
        let mut changed = self.store.last_seq();
        loop {
            changed.mark_unchanged();
            let since = self.clock.now().wall.checked_sub(LIFE).map(stamp).unwrap_or_default();
            let outcome = match self.store.read(move |reader| reader.repairable_gaps(&since)).await
            {
                Ok(gaps) => self.repair_all(gaps, &stop).await,
                Err(error) => Err(error.into()),
            };
            match outcome {
                Ok(()) => {}
                Err(Interrupted::Stopped) => return Ok(()),
                Err(Interrupted::Store(error)) if error.passes() => self.pause(PAUSE, &stop).await,
                Err(Interrupted::Store(error)) => return Err(error),
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                grown = changed.changed() => if grown.is_err() { return Ok(()) },
            }
        }
    }

    async fn repair_all(
        &self,
        gaps: Vec<Repairable>,
        stop: &CancellationToken,
    ) -> Result<(), Interrupted> {
        let mut worked = false;
        for gap in gaps.into_iter().filter(|gap| gap.searches < MOST_SEARCHES) {
            self.repair(gap, stop).await?;
            worked = true;
        }
        if worked {
            // Each look reads the whole mirror of customers once.
            self.pause(BETWEEN, stop).await;
        }
        Ok(())
    }

    /// Goes through what the log has gained since this gap was last looked after.
    async fn repair(&self, at: Repairable, stop: &CancellationToken) -> Result<(), Interrupted> {
        let Repairable { gap, mut searched_seq, searches } = at;
        if searched_seq == 0 {
            let from =
                gap.from_at.parse().ok().and_then(|at: jiff::Timestamp| at.checked_sub(LEAD).ok());
            let from = from.map_or_else(|| gap.from_at.clone(), stamp);
            searched_seq = self.store.read_long(move |reader| reader.position_at(&from)).await?;
        }
        let (mut made, mut found) = (0, 0);
        loop {
            let business = gap.business.clone();
            let (terms, last) = self
                .store
                .read_long(move |reader| {
                    let rows = reader.changes_after(searched_seq, STEP)?;
                    let last = rows.last().map(|row| row.seq);
                    let mut people = people(&rows, business.as_deref());
                    if !people.is_empty() {
                        let mut known = HashSet::new();
                        reader.each_customer(business.as_deref(), |customer| {
                            known.extend(
                                [customer.email, customer.mobile, customer.name]
                                    .into_iter()
                                    .map(|text| plain(&text))
                                    .filter(|text| people.contains(text)),
                            );
                        })?;
                        people.forget(&known);
                    }
                    Ok((people.terms(), last))
                })
                .await?;
            let Some(last) = last else { break };
            for term in terms {
                if searches + made >= MOST_SEARCHES {
                    break;
                }
                made += 1;
                let asked_after = self.store.seq();
                if let Some(page) = self.search(&term, gap.business.as_deref(), stop).await? {
                    let search = Search {
                        business: gap.business.clone(),
                        page,
                        // Whoever was there before the gap is no news.
                        kind: Kind::Baseline,
                        at: self.clock.now().wall,
                        asked_after,
                        backfill_term: None,
                    };
                    found += self.store.store_found(search).await?.created;
                }
            }
            searched_seq = last;
            self.store.gap_searched(gap.id, searched_seq, searches + made).await?;
            if searches + made >= MOST_SEARCHES {
                break;
            }
        }
        if found > 0 {
            tracing::info!(
                gap = gap.id,
                searches = made,
                found,
                "customers that were missed are found and forwarded; see `shopmirror gaps`"
            );
        } else if searches + made >= MOST_SEARCHES {
            tracing::warn!(
                gap = gap.id,
                searches = MOST_SEARCHES,
                "the search for missed customers is given up; see `shopmirror gaps`"
            );
        }
        Ok(())
    }

    /// Searches, however long it takes to be answered; `None` when the term is refused.
    async fn search(
        &self,
        term: &str,
        business: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<Option<Page>, Interrupted> {
        let mut failures = 0_u32;
        loop {
            let answer = tokio::select! {
                () = stop.cancelled() => return Err(Interrupted::Stopped),
                answer = self.background.search(term, business) => answer,
            };
            let wait = match answer {
                Ok(page) => return Ok(Some(page)),
                Err(BackgroundError::Stopped) => {
                    stop.cancelled().await;
                    return Err(Interrupted::Stopped);
                }
                Err(BackgroundError::Paused(_)) => PAUSE,
                Err(BackgroundError::Api(error)) => {
                    failures = failures.saturating_add(1);
                    let asked = match error.retry() {
                        Retry::Never => None,
                        Retry::Backoff => Some(None),
                        Retry::After(wait) => Some(Some(wait)),
                    };
                    match asked {
                        Some(asked) => BUSY.wait(failures, fastrand::f64(), asked),
                        // The term is not to blame: the key or the address is about to be mended.
                        None if stops_all(error.class()) => PAUSE,
                        None => {
                            tracing::warn!(%error, "a search for a missed customer failed");
                            return Ok(None);
                        }
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

/// Whether an answer of this class is about the key or the address, not about the question.
fn stops_all(class: Class) -> bool {
    matches!(class, Class::KeyRefused | Class::KeyForbidden | Class::WrongHost)
}

/// People named in other routes' records, by the strongest thing that names them.
#[derive(Debug, Default)]
struct People {
    /// E-mail, number and name of each, as far as known.
    list: Vec<[String; 3]>,
    /// All of these as [`plain`] makes them.
    named: HashSet<String>,
}

/// Reads the people from rows of the log that are of another route and of this branch.
fn people(rows: &[Change], business: Option<&str>) -> People {
    let mut people = People::default();
    for row in rows {
        // First pages show what was there before; they say nothing of the time of the gap.
        let other =
            row.route != Route::Customers && matches!(row.kind, Kind::Created | Kind::Updated);
        if other && row.business.as_deref() == business {
            people.add(&row.body);
        }
    }
    people
}

impl People {
    fn add(&mut self, body: &str) {
        let Ok(Value::Object(record)) = serde_json::from_str(body) else { return };
        let text = |name: &str| match record.get(name) {
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let name = Some(text("customer_name")).filter(|name| !name.is_empty());
        let person = [text("email"), text("mobile_number"), name.unwrap_or_else(|| text("name"))];
        for part in person.iter().filter(|part| !part.is_empty()) {
            self.named.insert(plain(part));
        }
        self.list.push(person);
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    fn contains(&self, text: &str) -> bool {
        self.named.contains(text)
    }

    /// Drops whoever the mirror has: by e-mail or number, or by name when a record shows no more.
    fn forget(&mut self, known: &HashSet<String>) {
        self.list.retain(|[email, mobile, name]| {
            let has = |text: &String| !text.is_empty() && known.contains(&plain(text));
            let only_named = email.is_empty() && mobile.is_empty();
            !(has(email) || has(mobile) || (only_named && has(name)))
        });
    }

    /// What to search for: one term a person, none twice.
    fn terms(self) -> Vec<String> {
        let mut seen = HashSet::new();
        self.list
            .into_iter()
            .filter_map(|person| person.into_iter().find(|part| is_term(part)))
            .filter(|term| seen.insert(plain(term)))
            .collect()
    }
}

fn is_term(text: &str) -> bool {
    (3..=LONGEST_TERM).contains(&text.chars().count())
}

/// A text as two systems would agree on it.
fn plain(text: &str) -> String {
    text.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(route: Route, body: &str) -> Change {
        Change {
            seq: 1,
            event_id: "evt_1".into(),
            route,
            record_id: Some("1".into()),
            kind: Kind::Created,
            version: 1,
            observed_at: "2026-01-02T03:04:05.000000Z".into(),
            business: None,
            body: body.into(),
            before: None,
        }
    }

    #[test]
    fn a_person_is_searched_once_by_the_strongest_thing_known_of_them() {
        let rows = [
            row(
                Route::Jobs,
                r#"{"id":1,"customer_name":"Ann Lee","email":"Ann@example.com","mobile_number":"0700"}"#,
            ),
            row(
                Route::Leads,
                r#"{"id":2,"name":"Ann Lee","email":"ann@example.com ","mobile_number":null}"#,
            ),
            row(Route::Leads, r#"{"id":3,"name":"Bo","email":null,"mobile_number":"0701"}"#),
            row(Route::Payments, r#"{"id":4,"customer_name":"Cy Day","amount":1}"#),
            row(Route::Customers, r#"{"id":5,"name":"Di Oz"}"#),
        ];
        assert_eq!(people(&rows, None).terms(), ["Ann@example.com", "0701", "Cy Day"]);
        assert!(people(&rows, Some("2")).is_empty());
    }

    #[test]
    fn whoever_the_mirror_has_is_not_searched() {
        let rows = [
            row(
                Route::Jobs,
                r#"{"id":1,"customer_name":"Ann Lee","email":"ann@example.com","mobile_number":"0700"}"#,
            ),
            row(
                Route::Jobs,
                r#"{"id":2,"customer_name":"Ann Lee","email":"other@example.com","mobile_number":"0702"}"#,
            ),
            row(Route::Payments, r#"{"id":3,"customer_name":"Ann Lee"}"#),
        ];
        let mut people = people(&rows, None);
        people.forget(&HashSet::from(["0700".to_owned(), "ann lee".to_owned()]));
        // Two people may share a name: the second is another as far as anybody can tell.
        assert_eq!(people.terms(), ["other@example.com"]);
    }
}
