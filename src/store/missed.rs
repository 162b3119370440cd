//! The most records that the gaps and suspects of a list can hide, so that a number can say how far
//! it may be off.
//!
//! Ids are shared by all businesses of a workspace. So gaps whose ids overlap are taken as one, and
//! every id between their bounds that the mirror knows, of any business, hides nothing.

use jiff::Timestamp;
use rusqlite::named_params;
use shopmirror_core::record::Route;

use super::error::StoreError;
use super::gaps::{Gap, bound};
use super::reader::Reader;
use super::sql::Sql;

/// The most stretches that are told apart; the oldest ones above it are taken as one.
const MOST_STRETCHES: usize = 50;

/// Gaps and suspects of one list, taken as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The last time before it at which the list was known to be complete.
    pub from: Timestamp,
    /// When the page after it was read.
    pub until: Timestamp,
    /// The highest id below the missed records, and the lowest one above them; `None` if no such
    /// integers are known.
    pub ids: Option<(i64, i64)>,
    /// The most records that it hides; `None` if that is not known.
    pub most: Option<u64>,
}

impl Reader {
    /// What the gaps of one route may hide, the latest first; those that can hide nothing are left
    /// out.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stretches(&self, route: Route, gaps: &[&Gap]) -> Result<Vec<Stretch>, StoreError> {
        let mut stretches = merged(gaps);
        for stretch in &mut stretches {
            if let Some((after, before)) = stretch.ids {
                let all = before.saturating_sub(after).saturating_sub(1);
                let known = self.known_between(route, after, before)?;
                stretch.most = Some(u64::try_from(all.saturating_sub(known)).unwrap_or(0));
            }
        }
        stretches.retain(|stretch| stretch.most != Some(0));
        stretches.sort_by_key(|stretch| std::cmp::Reverse(stretch.until));
        Ok(with_the_oldest_as_one(stretches))
    }

    /// How many records of a route have an id between these two. A text between two numbers of as
    /// many digits may be a longer number, so each length is counted apart.
    fn known_between(&self, route: Route, after: i64, before: i64) -> Result<i64, StoreError> {
        let sql = known_between_sql(route);
        let mut known = 0;
        let mut first = after.saturating_add(1);
        while first < before {
            let digits = first.to_string().len();
            let longest = "9".repeat(digits).parse().unwrap_or(i64::MAX);
            let last = longest.min(before - 1);
            let found: i64 = self.connection.value(
                &sql,
                named_params! {
                    ":first": first.to_string(),
                    ":last": last.to_string(),
                    ":digits": i64::try_from(digits).unwrap_or(i64::MAX),
                },
            )?;
            known += found;
            first = last.saturating_add(1);
        }
        Ok(known)
    }
}

/// Counts the records with an id of `:digits` digits from `:first` to `:last`, by the index of ids.
pub(super) fn known_between_sql(route: Route) -> String {
    format!(
        "SELECT count(*)
        FROM \"{route}\"
        WHERE id BETWEEN :first AND :last
            AND length(id) = :digits
            AND id NOT GLOB '*[^0-9]*'"
    )
}

/// The gaps with overlapping ids as one, and those without known ids as one; without the counts.
fn merged(gaps: &[&Gap]) -> Vec<Stretch> {
    let mut bounded = Vec::new();
    let mut open: Option<Stretch> = None;
    let mut left_out = Vec::new();
    for gap in gaps {
        let (Ok(from), Ok(until)) = (gap.from_at.parse(), gap.read_at().parse()) else {
            continue;
        };
        let stretch = Stretch {
            from,
            until,
            ids: ids_of(gap),
            most: None,
        };
        if gap.left_out_id.is_some() {
            left_out.push(Stretch {
                most: Some(1),
                ..stretch
            });
        } else if stretch.ids.is_some() {
            bounded.push(stretch);
        } else {
            open = Some(match open {
                Some(other) => joined(&other, &stretch),
                None => stretch,
            });
        }
    }
    bounded.sort_by_key(|stretch| stretch.ids);
    let mut merged: Vec<Stretch> = Vec::new();
    for stretch in bounded {
        match merged.last_mut() {
            Some(last) if is_overlapped(last, &stretch) => *last = joined(last, &stretch),
            _ => merged.push(stretch),
        }
    }
    merged.extend(open);
    merged.extend(left_out);
    merged
}

/// The bounds of a gap, if they are integers that grow.
fn ids_of(gap: &Gap) -> Option<(i64, i64)> {
    let after = bound(&gap.after_id)?;
    let before = bound(&gap.before_id)?;
    (0 <= after && after < before).then_some((after, before))
}

/// Whether the next stretch, whose ids begin no lower, shares ids with this one.
fn is_overlapped(stretch: &Stretch, next: &Stretch) -> bool {
    match (stretch.ids, next.ids) {
        (Some((_, before)), Some((after, _))) => after < before,
        _ => false,
    }
}

fn joined(one: &Stretch, other: &Stretch) -> Stretch {
    let ids = one.ids.zip(other.ids);
    let most = one.most.zip(other.most);
    Stretch {
        from: one.from.min(other.from),
        until: one.until.max(other.until),
        ids: ids.map(|(one, other)| (one.0.min(other.0), one.1.max(other.1))),
        most: most.map(|(one, other)| one.saturating_add(other)),
    }
}

/// No more than [`MOST_STRETCHES`] of these, which are listed with the latest first.
fn with_the_oldest_as_one(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    if stretches.len() <= MOST_STRETCHES {
        return stretches;
    }
    let oldest = stretches.split_off(MOST_STRETCHES);
    for stretch in oldest {
        let last = stretches.last_mut().expect("there are MOST_STRETCHES");
        *last = joined(last, &stretch);
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{self, Poll};
    use crate::store::{Certainty, GapState};

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 3_600 * hour).unwrap()
    }

    /// A gap of an hour that begins at `hour`, between two ids.
    fn gap(hour: i64, after: &str, before: &str) -> Gap {
        let id = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Gap {
            id: 1,
            route: "leads".to_owned(),
            business: None,
            certainty: Certainty::Gap,
            found_at: at(hour + 1).to_string(),
            from_at: at(hour).to_string(),
            to_at: at(hour + 1).to_string(),
            after_id: id(after),
            before_id: id(before),
            estimate: None,
            state: GapState::Open,
            repaired: 0,
            note: None,
            searched_seq: 0,
            searches: 0,
            shown: 0,
            shown_to: None,
            imported_from: None,
            import_may_be_older: false,
            left_out_id: None,
        }
    }

    /// The hours and the most of each stretch, if the mirror knows these leads.
    async fn found(known: &[&str], gaps: &[Gap]) -> Vec<(i64, i64, Option<u64>)> {
        let (_dir, store) = fixtures::open();
        let mut records = Vec::new();
        for id in known {
            records.push(format!(r#"{{"id":"{id}"}}"#));
        }
        Poll::USUAL.shows(&store, &records).await;
        let gaps = gaps.to_vec();
        let stretches = store
            .read(move |reader| {
                let gaps: Vec<&Gap> = gaps.iter().collect();
                reader.stretches(Route::Leads, &gaps)
            })
            .await
            .unwrap();
        let hour = |time: Timestamp| (time.as_second() - 1_800_000_000) / 3_600;
        stretches
            .iter()
            .map(|stretch| (hour(stretch.from), hour(stretch.until), stretch.most))
            .collect()
    }

    #[tokio::test]
    async fn a_gap_hides_at_most_the_ids_between_its_bounds_that_no_business_has_shown() {
        let gaps = [gap(1, "97", "1002")];
        assert_eq!(found(&[], &gaps).await, [(1, 2, Some(904))]);
        let known = ["98", "99", "100", "999", "1000", "1001"];
        assert_eq!(found(&known, &gaps).await, [(1, 2, Some(898))]);
        let others = ["97", "1002", "9", "9800", "10001", "98a", "0099", "x"];
        assert_eq!(found(&others, &gaps).await, [(1, 2, Some(904))]);
        assert!(found(&["8"], &[gap(1, "7", "9")]).await.is_empty());
        assert!(found(&[], &[gap(1, "7", "8")]).await.is_empty());
    }

    #[tokio::test]
    async fn gaps_that_share_ids_count_once_and_those_without_ids_have_no_bound() {
        let gaps = [
            gap(5, "200", "210"),
            gap(1, "100", "110"),
            gap(2, "105", "120"),
            gap(3, "120", "125"),
        ];
        let wanted = [(5, 6, Some(9)), (3, 4, Some(4)), (1, 3, Some(19))];
        assert_eq!(found(&[], &gaps).await, wanted);
        let open = [
            gap(1, "100", ""),
            gap(3, "", ""),
            gap(2, "100", "90"),
            gap(0, "100", "103"),
        ];
        let wanted = [(1, 4, None), (0, 1, Some(2))];
        assert_eq!(found(&[], &open).await, wanted);
    }

    #[tokio::test]
    async fn the_oldest_of_many_stretches_are_one() {
        let mut gaps = Vec::new();
        for hour in 0..60 {
            let after = 1_000 + 10 * hour;
            gaps.push(gap(hour, &after.to_string(), &(after + 5).to_string()));
        }
        let found = found(&[], &gaps).await;
        assert_eq!(found.len(), MOST_STRETCHES);
        assert_eq!(found[0], (59, 60, Some(4)));
        assert_eq!(found[MOST_STRETCHES - 1], (0, 11, Some(44)));
    }
}
