//! Judges whether a page is the whole list ([`shopmirror_core::contiguity::PageLengths`]), for
//! servers that show fewer records than requested.

use std::collections::HashSet;

use fastrand::Rng;
use serde::Serialize;
use shopmirror_core::contiguity::{Contiguity, Order};

use super::list::{Event, Ids, List, Ties};
use super::poller::{Mirror, Poller};
use super::{LIMIT, SECONDS_BETWEEN_POLLS};
use crate::table::columns;

const PAGES_PER_LIST: u64 = 200;

/// How many records a server shows of a list of which length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Server {
    /// At most so many of a long list.
    Limited(usize),
    /// At most so many of a list that is now shorter than that, now longer.
    LimitedNear(usize),
    /// 50 of a long list where a request loses its query, which every second does.
    Alternating,
    /// The same, of a list of about 80 records.
    AlternatingNear,
    /// As many as requested, of a list that is always shorter.
    Honest,
}

impl Server {
    pub(crate) const ALL: [Self; 9] = [
        Self::Limited(25),
        Self::Limited(40),
        Self::Limited(50),
        Self::LimitedNear(25),
        Self::LimitedNear(40),
        Self::LimitedNear(50),
        Self::Alternating,
        Self::AlternatingNear,
        Self::Honest,
    ];

    fn name(self) -> String {
        match self {
            Self::Limited(limit) => format!("{limit} of 500"),
            Self::LimitedNear(limit) => format!("{limit} of about {limit}"),
            Self::Alternating => "50 or 100 of 500".to_owned(),
            Self::AlternatingNear => "50 or 100 of about 80".to_owned(),
            Self::Honest => "100 of fewer".to_owned(),
        }
    }

    /// The most records that it shows every time, if this is less than requested.
    fn limit(self) -> Option<usize> {
        match self {
            Self::Limited(limit) | Self::LimitedNear(limit) => Some(limit),
            Self::Alternating | Self::AlternatingNear | Self::Honest => None,
        }
    }

    fn records_of_list(self, random: &mut Rng) -> usize {
        match self {
            Self::Limited(_) | Self::Alternating => 500,
            Self::LimitedNear(limit) => random.usize(limit - limit / 5..limit + limit / 5),
            Self::AlternatingNear => 80,
            Self::Honest => random.usize(5..85),
        }
    }

    fn records_of_page(self, random: &mut Rng) -> usize {
        match self {
            Self::Limited(limit) | Self::LimitedNear(limit) => limit,
            Self::Alternating | Self::AlternatingNear if random.bool() => 50,
            _ => LIMIT,
        }
    }
}

/// What the pages of one kind of server came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct EndsOutcome {
    pub(crate) server: Server,
    pub(crate) pages: u64,
    /// Pages that were the whole list.
    pub(crate) whole: u64,
    /// Pages that were taken for the whole list and were not.
    pub(crate) wrong: u64,
    /// Pages that were the whole list and were not taken for it.
    pub(crate) not_claimed: u64,
    /// Pages that lost a new record, and that were taken for ones that prove the opposite.
    pub(crate) silent: u64,
    pub(crate) lists: u64,
    /// Lists of which the limit of the server was found.
    pub(crate) limits_found: u64,
    /// Lists of which a limit was found that is none of the server's.
    pub(crate) limits_wrong: u64,
}

/// Reads this many pages of a server in all.
pub(crate) fn run(server: Server, pages: u64, seed: u64) -> EndsOutcome {
    let mut random = Rng::with_seed(seed);
    let mut outcome = EndsOutcome {
        server,
        pages: 0,
        whole: 0,
        wrong: 0,
        not_claimed: 0,
        silent: 0,
        lists: 0,
        limits_found: 0,
        limits_wrong: 0,
    };
    for number in 0..pages.div_ceil(PAGES_PER_LIST) {
        let order = match number % 2 {
            0 => Order::ByCreation,
            _ => Order::ByChange,
        };
        outcome.poll_list(order, &mut random);
    }
    outcome
}

impl EndsOutcome {
    fn poll_list(&mut self, order: Order, random: &mut Rng) {
        let usual = self.server.records_of_list(random);
        let mut list = List::new(order, Ids::Dense, Ties::None);
        for _ in 0..usual {
            list.pass_seconds(SECONDS_BETWEEN_POLLS);
            list.create(random);
        }
        list.take_events();
        let mut poller = Poller::new(LIMIT, false);
        let mut mirror = Mirror::default();
        let mut unseen = HashSet::new();
        let mut found = HashSet::new();
        for number in 0..PAGES_PER_LIST {
            if number > 0 {
                live(&mut list, random, usual);
            }
            for (event, _) in list.take_events() {
                match event {
                    Event::Created(id) => unseen.insert(id),
                    Event::Deleted(id) => unseen.remove(&id),
                    Event::Edited(_) => false,
                };
            }
            let shown = self.server.records_of_page(random);
            let page = list.page(random, shown, &HashSet::new());
            let verdict = poller.read(&mut mirror, &page.records, page.read_at());
            for record in &page.records {
                unseen.remove(&record.id);
            }
            if verdict == Contiguity::Stale {
                continue;
            }
            let is_whole = page.records.len() == list.len();
            let is_claimed = poller.profile.lengths.is_whole();
            self.pages += 1;
            self.whole += u64::from(is_whole);
            self.wrong += u64::from(is_claimed && !is_whole);
            self.not_claimed += u64::from(is_whole && !is_claimed);
            self.silent += u64::from(!unseen.is_empty() && verdict.is_proven());
            unseen.clear();
            found.extend(poller.profile.lengths.server_limit());
        }
        self.lists += 1;
        if let Some(limit) = self.server.limit() {
            self.limits_found += u64::from(found.remove(&limit));
        }
        self.limits_wrong += u64::from(!found.is_empty());
    }
}

/// What happens between two polls: a few records are created, edited, saved and deleted, now and
/// then many are created. A list that is to be short loses as many as it gets.
fn live(list: &mut List, random: &mut Rng, usual: usize) {
    list.pass_seconds(SECONDS_BETWEEN_POLLS);
    if random.u8(..10) < 3 {
        for _ in 0..random.u8(1..=2) {
            list.create(random);
        }
    }
    if random.u8(..10) < 4 {
        for _ in 0..random.u8(1..=3) {
            let id = list.any(random);
            list.edit(id, false);
        }
    }
    if random.u8(..20) == 0 {
        let id = list.any(random);
        list.save_unchanged(id);
    }
    if random.u8(..50) == 0 {
        for _ in 0..random.u8(..80) {
            list.create(random);
        }
    }
    let is_short = usual < LIMIT;
    if is_short && random.u8(..10) < 3 {
        for _ in 0..random.u8(1..=2) {
            delete(list, random);
        }
    }
    while is_short && list.len() > usual + 14 {
        list.delete(list.oldest());
    }
}

/// Deletes a record; every second time the oldest one.
fn delete(list: &mut List, random: &mut Rng) {
    if list.len() <= 3 {
        return;
    }
    let id = if random.bool() {
        list.oldest()
    } else {
        list.any(random)
    };
    list.delete(id);
}

/// What the outcomes miss, one sentence for each goal; empty if they reach all.
pub(crate) fn missed_ends(outcomes: &[EndsOutcome]) -> Vec<String> {
    let mut missed = Vec::new();
    for outcome in outcomes {
        let server = outcome.server.name();
        if outcome.wrong > 0 {
            let wrong = outcome.wrong;
            missed.push(format!(
                "{server}: {wrong} pages were wrongly taken for the whole list"
            ));
        }
        if outcome.server == Server::Honest && outcome.not_claimed * 5 > outcome.whole {
            missed.push(format!("{server}: more than a fifth was not claimed"));
        }
        if matches!(outcome.server, Server::Limited(_)) && outcome.limits_found < outcome.lists {
            missed.push(format!("{server}: the limit was not found in every list"));
        }
    }
    missed
}

/// The outcomes as a table for people.
pub(crate) fn ends_table(outcomes: &[EndsOutcome]) -> String {
    let mut table = columns(
        1,
        &[
            "the server shows",
            "pages",
            "whole list",
            "wrongly claimed",
            "not claimed",
            "silent losses",
            "lists",
            "limit found",
            "wrongly",
        ],
    );
    for outcome in outcomes {
        let mut row = vec![outcome.server.name()];
        for number in [
            outcome.pages,
            outcome.whole,
            outcome.wrong,
            outcome.not_claimed,
            outcome.silent,
            outcome.lists,
            outcome.limits_found,
            outcome.limits_wrong,
        ] {
            row.push(number.to_string());
        }
        table.add_row(row);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same with many more pages is a stage of `.ci/long`.
    #[test]
    fn no_page_is_wrongly_taken_for_the_whole_list_in_four_thousand_of_each_server() {
        let mut outcomes = Vec::new();
        for server in Server::ALL {
            outcomes.push(run(server, 4_000, 1));
        }
        assert_eq!(missed_ends(&outcomes), [] as [String; 0], "{outcomes:#?}");
    }
}
