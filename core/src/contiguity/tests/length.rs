//! When a page that is not full is the whole list, and how a server's limit is found.

use super::*;

/// A poller of a list with dense ids by creation, whose server shows at most so many records.
struct Poller {
    profile: ListProfile,
    previous: Option<PreviousPage>,
    shown: RangeInclusive<i64>,
}

impl Poller {
    fn new() -> Self {
        Self {
            profile: ListProfile::default(),
            previous: None,
            shown: 0..=0,
        }
    }

    /// Reads a page with these ids, of [`LIMIT`] requested records.
    fn read(&mut self, ids: RangeInclusive<i64>) -> Contiguity {
        let (low, high) = (*self.shown.start(), *self.shown.end());
        let mut page = Vec::new();
        for id in ids.clone().rev() {
            let relation = if low <= id && id <= high {
                Relation::Unchanged(usize::try_from(high - id).unwrap())
            } else {
                NotShown
            };
            page.push(sighting(id, relation));
        }
        let proof = self.profile.read_page(self.previous, &page, LIMIT);
        self.previous = Some(PreviousPage {
            records: page.len(),
            is_full: page.len() >= LIMIT,
            high_id: Some(*ids.end()),
            read_at: None,
        });
        self.shown = ids;
        proof.contiguity
    }

    fn is_whole(&self) -> bool {
        self.profile.lengths.is_whole()
    }

    fn limit(&self) -> Option<usize> {
        self.profile.lengths.server_limit()
    }
}

#[test]
fn a_first_page_is_the_whole_list_if_it_is_not_full_and_its_length_is_no_round_number() {
    for (records, is_whole) in [
        (0, true),
        (3, true),
        (37, true),
        (99, true),
        (5, false),
        (50, false),
        (95, false),
        (100, false),
    ] {
        let mut poller = Poller::new();
        poller.read(1..=records);
        assert_eq!(poller.is_whole(), is_whole, "{records} records");
    }
}

#[test]
fn a_page_of_a_round_length_is_the_whole_list_if_the_end_stayed_and_the_page_before_was_shorter_or_whole()
 {
    let mut poller = Poller::new();
    poller.read(1..=48);
    assert_eq!(poller.read(1..=50), Contiguity::Complete, "two came");
    assert_eq!(poller.read(1..=50), Contiguity::Complete, "nothing came");
    assert_eq!(poller.read(2..=51), Contiguity::Contiguous, "the last left");
    assert_eq!(
        poller.read(2..=51),
        Contiguity::Contiguous,
        "it may be a limit"
    );
    assert_eq!(poller.read(2..=52), Contiguity::Complete, "51 records");
}

#[test]
fn a_burst_that_leaves_nothing_of_a_page_that_may_be_ended_by_the_server_is_a_gap() {
    let mut poller = Poller::new();
    poller.read(1..=50);
    assert_eq!(poller.read(71..=120), Contiguity::Gap);
    let mut poller = Poller::new();
    poller.read(1..=49);
    assert_eq!(poller.read(71..=119), Contiguity::Suspect);
}

#[test]
fn three_pages_of_one_length_whose_end_left_while_others_came_show_the_limit_of_the_server() {
    let mut poller = Poller::new();
    poller.read(1..=37);
    poller.read(2..=38);
    poller.read(2..=38);
    poller.read(4..=40);
    assert_eq!(poller.limit(), None, "two of them");
    poller.read(5..=41);
    assert_eq!(poller.limit(), Some(37));
    assert_eq!(poller.read(5..=41), Contiguity::Contiguous);
    assert!(!poller.is_whole());
    poller.read(6..=41);
    assert!(poller.is_whole(), "fewer than the limit");
    assert_eq!(poller.limit(), Some(37));
    poller.read(6..=43);
    assert_eq!(poller.limit(), None, "more than the limit");
}

#[test]
fn a_page_of_another_length_between_begins_the_count_again() {
    let mut poller = Poller::new();
    for ids in [1..=37, 2..=38, 3..=39, 3..=40, 4..=40, 5..=41, 6..=42] {
        poller.read(ids);
        assert_eq!(poller.limit(), None);
    }
    poller.read(7..=43);
    assert_eq!(poller.limit(), Some(37));
}

#[test]
fn records_below_a_page_that_the_server_ended_are_older_ones() {
    let mut poller = Poller::new();
    poller.read(451..=500);
    assert_eq!(poller.read(403..=502), Contiguity::Contiguous);
    assert_eq!(poller.read(454..=503), Contiguity::Contiguous);
}

#[test]
fn a_save_that_brings_the_last_record_to_the_front_does_not_show_the_end_of_the_list() {
    let mut poller = Poller::new();
    poller.read(401..=500);
    let mut page = vec![sighting(401, Relation::Unchanged(99))];
    for place in 0..49 {
        page.push(sighting(500 - place, Relation::Unchanged(place as usize)));
    }
    let proof = poller.profile.read_page(poller.previous, &page, LIMIT);
    assert_eq!(proof.contiguity, Contiguity::Contiguous);
    assert!(!poller.is_whole());
}

#[test]
fn a_page_has_the_length_that_was_received_although_a_record_of_it_was_left_out() {
    for (records, left_out, is_whole) in
        [(99, 0, true), (99, 1, false), (49, 1, false), (50, 1, true)]
    {
        let page: Vec<Sighting> = (1..=records).map(|id| sighting(id, NotShown)).collect();
        let mut profile = ListProfile::default();
        profile.read_shortened_page(None, &page, LIMIT, left_out);
        assert_eq!(
            profile.lengths.is_whole(),
            is_whole,
            "{records} and {left_out}"
        );
    }
}
