mod bounds;
mod ends;
mod import;
mod lag;
mod lists;
mod memory;
mod restored;
mod rules;
mod search;
mod vanished;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use shopmirror_core::record::{Record, Route, field_text};

use super::*;
use crate::store::{Store, fixtures};

/// A list as the workspace holds it: the state of each record, by its id.
type List = BTreeMap<i64, u32>;

/// What one poller has been shown.
#[derive(Default)]
struct Shown {
    limit: u32,
    /// The lowest id of its first page.
    first: Option<i64>,
    ids: BTreeSet<i64>,
    /// Its last page that held records.
    last: List,
    /// Whether the process ended since.
    ended: bool,
    /// An answer under way.
    late: Option<(Page, PollFacts)>,
    /// Of each gap, the id that it lies above and the highest id of the page that showed it.
    gaps: Vec<(i64, i64)>,
}

fn page<'a>(records: impl Iterator<Item = (&'a i64, &'a u32)>) -> Page {
    let text = |(id, state): (&i64, &u32)| format!(r#"{{"id":{id},"state":{state}}}"#);
    fixtures::page(&records.map(text).collect::<Vec<_>>())
}

fn shown_as(page: &Page, record: &Record) -> (i64, u32) {
    let state = field_text(page.text(record), "state")
        .unwrap()
        .parse()
        .unwrap();
    (record.id.as_integer().unwrap(), state)
}

fn facts(limit: u32, asked_after: i64) -> PollFacts {
    PollFacts {
        at: jiff::Timestamp::now(),
        asked_after,
        limit,
        page_age: Duration::ZERO,
        served_business: None,
    }
}

/// Two pollers that see one list, bursts of any length, edits, searches, answers that come late,
/// limits that change, and an end without warning now and then.
async fn live(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mirror.db");
    let mut store = Store::open(&path).unwrap();
    let keys = ["1", "2"].map(|name| PollerId {
        route: Route::Customers,
        business: Some(name.to_owned()),
    });
    let mut shown = [Shown::default(), Shown::default()];
    let mut list = List::new();
    let mut newest = 0;
    let mut late_search: Option<Search> = None;
    for _ in 0..40 {
        let most = [2, 6, 14][random.usize(..3)];
        for _ in 0..random.u32(..most) {
            newest += random.i64(1..3);
            list.insert(newest, 0);
        }
        if let Some(state) = random.choice(list.values_mut()) {
            *state += 1;
        }
        if random.u8(..8) == 0 {
            drop(store);
            store = Store::open(&path).unwrap();
            late_search = None;
            shown
                .iter_mut()
                .for_each(|poller| (poller.ended, poller.late) = (true, None));
        }
        if random.u8(..4) == 0 {
            let few: List = list
                .iter()
                .filter(|_| random.u8(..4) == 0)
                .map(|(i, s)| (*i, *s))
                .collect();
            let search = Search {
                business: None,
                page: page(few.iter().rev().take(25)),
                kind: Kind::Baseline,
                at: jiff::Timestamp::now(),
                asked_after: store.seq(),
                backfill_term: None,
            };
            match late_search.take() {
                Some(late) => store.store_found(late).await.map(drop).unwrap(),
                None if random.u8(..2) == 0 => late_search = Some(search),
                None => store.store_found(search).await.map(drop).unwrap(),
            }
        }
        let which = random.usize(..2);
        let poller = &mut shown[which];
        if poller.limit == 0 || random.u8(..10) == 0 {
            poller.limit = random.u32(3..12);
        }
        let empty = random.u8(..12) == 0;
        let most = if empty { 0 } else { poller.limit as usize };
        let answer = page(list.iter().rev().take(most));
        let facts = facts(poller.limit, store.seq());
        let (is_late, (answer, facts)) = match poller.late.take() {
            Some(late) => (true, late),
            None if random.u8(..4) == 0 => {
                poller.late = Some((answer, facts));
                continue;
            }
            None => (false, (answer, facts)),
        };
        let answered: List = answer
            .records()
            .iter()
            .map(|r| shown_as(&answer, r))
            .collect();
        let ids: Vec<i64> = answer
            .records()
            .iter()
            .filter_map(|r| r.id.as_integer())
            .collect();
        let stored = store
            .store_page(keys[which].clone(), answer, facts, None)
            .await
            .unwrap();
        if let Some(gap) = &stored.gap {
            let after = gap.after_id.as_ref().map(|id| id.parse().unwrap());
            let highest = ids.first().map_or(i64::MIN, |id| *id);
            poller.gaps.push((after.unwrap_or(i64::MIN), highest));
        }
        if !ids.is_empty() {
            let follows_on = answered
                .iter()
                .any(|(id, state)| poller.last.get(id) == Some(state));
            assert!(
                !follows_on || poller.ended || stored.gap.is_none(),
                "seed {seed}: {stored:?}"
            );
            poller.last = answered;
            poller.ended = false;
        }
        poller.first = poller
            .first
            .or(Some(ids.last().map_or(newest + 1, |id| *id)));
        poller.ids.extend(ids.iter().copied());

        // The mirror shows each record of the page as the page did.
        for id in ids.iter().filter(|_| !is_late) {
            let key = id.to_string();
            let read = store.read(move |reader| reader.record(Route::Customers, &key));
            let row = read.await.unwrap().unwrap();
            assert_eq!(
                row["state"].as_u64(),
                Some(list[id].into()),
                "seed {seed}: record {id}"
            );
        }
    }
    // A state only ever grows: one that falls was brought back.
    let mut states = BTreeMap::new();
    for change in store
        .read(|reader| reader.changes_after(0, usize::MAX >> 1))
        .await
        .unwrap()
    {
        let Some(id) = change.record_id else { continue };
        let state: i64 = field_text(&change.body, "state").unwrap().parse().unwrap();
        let before = states.insert(id.clone(), state).unwrap_or(-1);
        assert!(
            before < state,
            "seed {seed}: {id} went from {before} to {state}"
        );
    }
    for poller in &shown {
        let (Some(first), Some(last)) = (poller.first, poller.ids.last()) else {
            continue;
        };
        for (id, _) in list.range(first..=*last) {
            let told = poller
                .gaps
                .iter()
                .any(|(after, highest)| after < id && id < highest);
            assert!(
                poller.ids.contains(id) || told,
                "seed {seed}: {id} was missed silently"
            );
        }
    }
}

#[tokio::test]
async fn whatever_a_poller_was_not_shown_lies_in_a_gap_and_the_mirror_shows_the_last_page() {
    for seed in 0..8 {
        live(seed).await;
    }
}
