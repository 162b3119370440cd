//! Examples of the rule, and lists drawn at random whose truth is known.

use std::convert::Infallible;

use fastrand::Rng;

use super::*;

/// A record of a page: its id, its version and the second in which it was created.
type Shown = (i64, u32, i64);

/// A poller that remembers one page.
struct Poller {
    order: Order,
    previous: Vec<Shown>,
    vanishing: Vanishing,
    pages: i64,
}

impl Poller {
    fn new(order: Order, first: &[Shown]) -> Self {
        Self {
            order,
            previous: first.to_vec(),
            vanishing: Vanishing::default(),
            pages: 0,
        }
    }

    fn read(&mut self, page: &[Shown]) {
        self.read_as(page, Contiguity::Contiguous, false);
    }

    fn read_as(&mut self, page: &[Shown], contiguity: Contiguity, may_be_older: bool) {
        let previous: Vec<String> = self
            .previous
            .iter()
            .map(|(id, ..)| id.to_string())
            .collect();
        let texts: Vec<String> = page.iter().map(|(id, ..)| id.to_string()).collect();
        let ids: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut sightings = Vec::new();
        for record in page {
            let place = self.previous.iter().position(|(id, ..)| *id == record.0);
            let relation = match place {
                Some(place) if self.previous[place] == *record => Relation::Unchanged(place),
                Some(place) => Relation::Changed(place),
                None => Relation::NotShown,
            };
            sightings.push(Sighting {
                id: Some(record.0),
                created_at: Timestamp::from_second(record.2).ok(),
                relation,
                is_edited: true,
            });
        }
        self.pages += 1;
        let seen = SeenPage {
            at: Timestamp::from_second(self.pages).unwrap(),
            order: self.order,
            contiguity,
            previous: &previous,
            ids: &ids,
            sightings: &sightings,
            may_be_older,
        };
        // In these lists the second of creation is the id.
        let created_at = |id: &str| Ok(Timestamp::from_second(id.parse().unwrap()).ok());
        let Ok(()) = self.vanishing.read_page::<Infallible>(&seen, created_at);
        self.previous = page.to_vec();
    }

    fn missing(&self) -> Vec<&str> {
        let candidates = self.vanishing.candidates().iter();
        candidates.map(|candidate| candidate.id.as_str()).collect()
    }

    fn confirmed(&self) -> Vec<&str> {
        let candidates = self.vanishing.candidates().iter();
        candidates
            .filter(|candidate| candidate.is_confirmed)
            .map(|candidate| candidate.id.as_str())
            .collect()
    }
}

/// Records in their first version, created in the second of their id.
fn page(ids: &[i64]) -> Vec<Shown> {
    ids.iter().map(|id| (*id, 1, *id)).collect()
}

/// What is missing after one page.
fn missing(order: Order, shown: &[Shown]) -> Vec<String> {
    let mut poller = Poller::new(order, &page(&[9, 8, 7, 6, 5, 4, 3]));
    poller.read(shown);
    poller.missing().into_iter().map(str::to_owned).collect()
}

const ORDERS: [Order; 3] = [Order::ByCreation, Order::ByChange, Order::Unknown];

#[test]
fn each_example_of_the_comment_is_as_it_says() {
    for order in [Order::ByChange, Order::Unknown] {
        assert_eq!(missing(order, &page(&[9, 8, 6, 5, 4, 3])), ["7"]);
        let mut edited = page(&[4, 9, 8, 6, 5, 3]);
        edited[0].1 = 2;
        assert_eq!(missing(order, &edited), ["7"]);
        assert_eq!(missing(order, &page(&[9, 8, 7, 6])), [""; 0]);
        assert_eq!(missing(order, &page(&[6, 5, 4, 3])), [""; 0]);
        assert_eq!(missing(order, &page(&[10, 6, 5, 4, 3])), ["9", "8", "7"]);
        assert_eq!(missing(order, &page(&[9, 6, 8, 5, 4, 3])), [""; 0]);
    }
}

#[test]
fn three_unchanged_records_have_to_stand_below_and_one_above_them() {
    for order in ORDERS {
        assert_eq!(missing(order, &page(&[9, 8, 7, 5, 4, 3])), ["6"]);
        assert_eq!(missing(order, &page(&[9, 8, 7, 6, 4, 3])), [""; 0]);
        assert_eq!(missing(order, &page(&[8, 7, 6, 5, 4, 3])), [""; 0]);
        // Created in the same second as the one that is absent.
        let mut tied = page(&[10, 8, 7, 6, 5, 4, 3]);
        tied[0].2 = 9;
        assert_eq!(missing(order, &tied), [""; 0]);
        tied[0].2 = 10;
        assert_eq!(missing(order, &tied), ["9"]);
        // Shown below the third of the three, the newer one says nothing.
        assert_eq!(missing(order, &page(&[8, 7, 6, 5, 4, 3, 10])), [""; 0]);
    }
}

#[test]
fn records_of_its_second_do_not_stand_below_a_missing_one() {
    for order in ORDERS {
        let mut first = page(&[9, 8, 7, 6, 5, 4, 3]);
        first[3].2 = 7; // The record 6.
        let mut poller = Poller::new(order, &first);
        let mut shown = page(&[9, 8, 6, 5, 4]);
        shown[2].2 = 7;
        poller.read(&shown);
        assert_eq!(poller.missing(), [""; 0]);
        let mut poller = Poller::new(order, &first);
        shown.push((3, 1, 3));
        poller.read(&shown);
        assert_eq!(poller.missing(), ["7"]);
    }
}

#[test]
fn half_of_the_page_has_to_be_unchanged() {
    for order in ORDERS {
        let enough = page(&[15, 14, 13, 12, 9, 6, 5, 4]);
        assert_eq!(missing(order, &enough), ["8", "7"]);
        let too_few = page(&[16, 15, 14, 13, 12, 9, 6, 5, 4]);
        assert_eq!(missing(order, &too_few), [""; 0]);
    }
}

#[test]
fn by_creation_an_edit_between_the_unchanged_records_ends_no_claim_but_another_order_ends_all() {
    let mut edited = page(&[9, 8, 6, 5, 4, 3]);
    edited[3].1 = 2;
    assert_eq!(missing(Order::ByCreation, &edited), ["7"]);
    assert_eq!(missing(Order::ByChange, &edited), [""; 0]);

    let mut poller = Poller::new(Order::ByCreation, &page(&[9, 8, 7, 6, 5, 4, 3]));
    poller.read(&page(&[9, 8, 6, 5, 4, 3]));
    assert_eq!(poller.missing(), ["7"]);
    poller.read(&page(&[8, 9, 6, 5, 4, 3]));
    assert_eq!(poller.missing(), [""; 0]);
}

#[test]
fn a_record_is_confirmed_by_a_second_page_that_may_be_the_same() {
    for order in ORDERS {
        let mut poller = Poller::new(order, &page(&[9, 8, 7, 6, 5, 4, 3]));
        let without = page(&[9, 8, 6, 5, 4, 3]);
        poller.read(&without);
        assert_eq!(poller.confirmed(), [""; 0]);
        poller.read(&without);
        assert_eq!(poller.confirmed(), ["7"]);
        assert_eq!(poller.vanishing.candidates()[0].since.as_second(), 1);
        assert_eq!(poller.vanishing.candidates()[0].above, 2);
        // It keeps its place below records that come.
        poller.read(&page(&[11, 10, 9, 8, 6, 5, 4, 3]));
        assert_eq!(poller.vanishing.candidates()[0].above, 4);
        poller.read(&page(&[11, 10, 9, 8, 7, 6, 5, 4, 3]));
        assert_eq!(poller.missing(), [""; 0]);
    }
}

#[test]
fn a_page_that_shows_nothing_of_it_drops_a_candidate_and_one_that_may_be_older_does_not() {
    let first = page(&[9, 8, 7, 6, 5, 4, 3]);
    let without = page(&[9, 8, 6, 5, 4, 3]);
    for order in ORDERS {
        for between in [Contiguity::Gap, Contiguity::Suspect] {
            let mut poller = Poller::new(order, &first);
            poller.read(&without);
            poller.read_as(&without, between, false);
            assert_eq!(poller.missing(), [""; 0]);
        }
        let mut poller = Poller::new(order, &first);
        poller.read(&without);
        poller.read_as(&without, Contiguity::Contiguous, true);
        assert_eq!((poller.missing(), poller.confirmed()), (vec!["7"], vec![]));
        poller.read(&without);
        assert_eq!(poller.confirmed(), ["7"]);

        let mut poller = Poller::new(order, &first);
        poller.read_as(&without, Contiguity::Contiguous, true);
        assert_eq!(poller.missing(), [""; 0]);

        let mut poller = Poller::new(order, &first);
        poller.read(&without);
        poller.read(&page(&[12, 11, 10, 9, 8, 6]));
        assert_eq!(poller.missing(), [""; 0]);
        poller.read(&[]);
        assert_eq!(poller.missing(), [""; 0]);
    }
}

#[test]
fn no_more_than_ten_are_marked_in_a_day() {
    let at = |hours: i64| Timestamp::from_second(hours * 3_600).unwrap();
    let mut vanishing = Vanishing::default();
    assert!(!vanishing.may_mark(11, at(0)));
    assert!(vanishing.may_mark(4, at(0)));
    assert!(vanishing.may_mark(6, at(12)));
    assert!(!vanishing.may_mark(1, at(23)));
    assert!(vanishing.may_mark(4, at(24)));
    assert!(!vanishing.may_mark(1, at(35)));
}

#[test]
fn only_confirmed_candidates_that_are_nowhere_else_are_taken() {
    let mut poller = Poller::new(Order::ByCreation, &page(&[9, 8, 7, 6, 5, 4, 3, 2]));
    poller.read(&page(&[9, 7, 6, 5, 4, 3, 2]));
    poller.read(&page(&[9, 7, 5, 4, 3, 2]));
    assert_eq!(poller.missing(), ["8", "6"]);
    let mut vanishing = poller.vanishing;
    assert_eq!(vanishing.take_confirmed(|_| false), []);
    let taken = vanishing.take_confirmed(|candidate| candidate.since.as_second() == 1);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].id, "8");
    vanishing.leave_out(&[0, 5]);
    assert_eq!(vanishing.candidates()[0].above, 1);
    assert!(vanishing.end(|candidate| candidate.id == "6"));
    assert_eq!(vanishing.candidates(), []);
}

/// A list that is polled after each step. `order` is the true one; the poller knows it or does not.
fn run(seed: u64, order: Order, is_known: bool) -> (usize, usize) {
    let mut random = Rng::with_seed(seed);
    let limit = random.usize(4..20);
    // The first is the newest.
    let mut list: Vec<Shown> = page(&(1..=random.i64(3..30)).rev().collect::<Vec<_>>());
    let shown = |list: &[Shown]| list.iter().take(limit).copied().collect::<Vec<_>>();
    let known = if is_known { order } else { Order::Unknown };
    let mut poller = Poller::new(known, &shown(&list));
    let mut next = 100;
    let (mut marked, mut deleted) = (0, 0);
    for _ in 0..60 {
        for _ in 0..random.usize(..4) {
            match random.u8(..6) {
                0 | 1 => {
                    list.insert(0, (next, 1, next));
                    next += 1;
                }
                2 | 3 if !list.is_empty() => {
                    let at = random.usize(..list.len());
                    list[at].1 += random.u32(..2);
                    if order == Order::ByChange {
                        let saved = list.remove(at);
                        list.insert(0, saved);
                    }
                }
                4 if !list.is_empty() => {
                    list.remove(random.usize(..list.len()));
                    deleted += 1;
                }
                _ => {}
            }
        }
        poller.read(&shown(&list));
        for id in poller.confirmed() {
            let id: i64 = id.parse().unwrap();
            assert!(
                list.iter().all(|record| record.0 != id),
                "seed {seed}, {order:?}: {id} is in the list"
            );
        }
        marked += poller.vanishing.take_confirmed(|_| true).len();
    }
    (marked, deleted)
}

#[test]
fn no_record_of_a_list_is_ever_confirmed_as_gone() {
    for (order, is_known) in [
        (Order::ByCreation, true),
        (Order::ByCreation, false),
        (Order::ByChange, true),
        (Order::ByChange, false),
    ] {
        let (mut marked, mut deleted) = (0, 0);
        for seed in 0..300 {
            let (marks, deletions) = run(seed, order, is_known);
            marked += marks;
            deleted += deletions;
        }
        assert!(marked * 20 > deleted, "{order:?}: {marked} of {deleted}");
    }
}
