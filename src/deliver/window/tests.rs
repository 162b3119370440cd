//! The window against a model that keeps a list of everything that happened.

use proptest::prelude::*;

use super::*;

/// What became of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Held,
    Handed,
    Delivered,
    Refused,
    /// It is stored, or is to be stored, behind an earlier one of its record.
    Parked,
}

/// One row as the model knows it; `aside` if the mark may pass it although it is not settled.
#[derive(Debug, Clone, Copy)]
struct Known {
    seq: i64,
    key: Option<u8>,
    fate: Fate,
    aside: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Add(Option<u8>),
    HandOver,
    /// The change that was handed over at this place of those in flight.
    Deliver(usize),
    Refuse(usize),
    SetAside,
    /// The first parked change of this record comes out of the store again.
    Return(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![Just(None), (0_u8..4).prop_map(Some)];
    let step = prop_oneof![
        6 => key().prop_map(Step::Add),
        6 => Just(Step::HandOver),
        5 => (0_usize..8).prop_map(Step::Deliver),
        1 => (0_usize..8).prop_map(Step::Refuse),
        1 => Just(Step::SetAside),
        3 => (0_u8..4).prop_map(Step::Return),
    ];
    prop::collection::vec(step, 1..120)
}

struct Model {
    window: Window<u8>,
    rows: Vec<Known>,
    next: i64,
    delivered: usize,
    taken: usize,
}

impl Model {
    fn new() -> Self {
        Self { window: Window::after(1000), rows: Vec::new(), next: 1001, delivered: 0, taken: 0 }
    }

    fn row(&mut self, seq: i64) -> &mut Known {
        self.rows.iter_mut().find(|row| row.seq == seq).unwrap()
    }

    fn of(&self, key: Option<u8>) -> impl Iterator<Item = &Known> {
        self.rows.iter().filter(move |row| row.key.is_some() && row.key == key)
    }

    fn in_flight(&self, place: usize) -> Option<i64> {
        let flying: Vec<i64> =
            self.rows.iter().filter(|row| row.fate == Fate::Handed).map(|row| row.seq).collect();
        (!flying.is_empty()).then(|| flying[place % flying.len()])
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Add(key) => self.add(key),
            Step::HandOver => self.hand_over(),
            Step::Deliver(place) => {
                let Some(seq) = self.in_flight(place) else { return };
                self.row(seq).fate = Fate::Delivered;
                self.delivered += 1;
                self.window.delivered(seq);
            }
            Step::Refuse(place) => {
                let Some(seq) = self.in_flight(place) else { return };
                let key = self.row(seq).key;
                self.row(seq).fate = Fate::Refused;
                let behind = self.window.refused(seq);
                let held = self.of(key).filter(|row| row.fate == Fate::Held);
                let held: Vec<i64> = held.map(|row| row.seq).collect();
                assert_eq!(behind, held, "what waited for {seq}");
                behind.into_iter().for_each(|seq| self.park(seq));
            }
            Step::SetAside => self.set_aside(),
            Step::Return(key) => self.bring_back(key),
        }
    }

    /// A change whose record has a parked one is parked as well.
    fn add(&mut self, key: Option<u8>) {
        let seq = self.next;
        self.next += 1;
        let is_behind = self.of(key).any(|row| row.fate == Fate::Parked);
        let fate = if is_behind { Fate::Parked } else { Fate::Held };
        self.rows.push(Known { seq, key, fate, aside: is_behind });
        if is_behind { self.window.add_behind(seq) } else { self.window.add(seq, key) }
    }

    fn park(&mut self, seq: i64) {
        let row = self.row(seq);
        assert_eq!(row.fate, Fate::Held);
        (row.fate, row.aside) = (Fate::Parked, true);
    }

    /// A parked change is due when it is stored and nothing of its record is stored before it.
    fn bring_back(&mut self, key: u8) {
        let mark = self.window.mark();
        let parked = self.of(Some(key)).find(|row| row.fate == Fate::Parked);
        let Some(first) = parked.map(|row| row.seq) else { return };
        let is_stored = |row: &&Known| row.aside && matches!(row.fate, Fate::Held | Fate::Handed);
        if first <= mark && !self.of(Some(key)).any(|row| is_stored(&row)) {
            self.row(first).fate = Fate::Held;
            self.window.add_due(first, Some(key));
        }
    }

    fn hand_over(&mut self) {
        let busy: Vec<u8> = self
            .rows
            .iter()
            .filter(|row| row.fate == Fate::Handed)
            .filter_map(|row| row.key)
            .collect();
        let may_go =
            |row: &&Known| row.fate == Fate::Held && row.key.is_none_or(|key| !busy.contains(&key));
        match self.window.hand_over() {
            Some(seq) => {
                let row = *self.row(seq);
                assert!(may_go(&&row), "{row:?}, busy {busy:?}");
                let is_open = |row: &Known| matches!(row.fate, Fate::Held | Fate::Parked);
                let first = self.of(row.key).find(|row| is_open(row)).map_or(seq, |row| row.seq);
                assert_eq!(first, seq, "an earlier one of its record is not settled");
                self.row(seq).fate = Fate::Handed;
            }
            None => {
                assert!(!self.rows.iter().any(|row| may_go(&row)), "something could go");
            }
        }
    }

    fn set_aside(&mut self) {
        let answered =
            |row: &&Known| matches!(row.fate, Fate::Delivered | Fate::Refused) && !row.aside;
        let last = self.rows.iter().filter(answered).map(|row| row.seq).max();
        for aside in self.window.set_aside() {
            match aside {
                Aside::UnderWay(seq) => {
                    assert!(Some(seq) < last);
                    self.row(seq).aside = true;
                }
                Aside::Waiting(seq) => self.park(seq),
            }
        }
        assert_eq!(self.window.answered_above(), 0);
    }

    fn check(&mut self) {
        let holds_back = |row: &&Known| matches!(row.fate, Fate::Held | Fate::Handed) && !row.aside;
        let first = self.rows.iter().filter(holds_back).map(|row| row.seq).min();
        let mark = first.map_or(self.next - 1, |first| first - 1);
        assert_eq!(self.window.mark(), mark);
        let is_above = |row: &&Known| row.fate == Fate::Delivered && row.seq > mark && !row.aside;
        let above = self.rows.iter().filter(is_above).count();
        self.taken += self.window.take_delivered();
        assert_eq!(self.taken + above, self.delivered, "each is counted once");
        let held =
            self.rows.iter().filter(|row| matches!(row.fate, Fate::Held | Fate::Handed)).count();
        assert_eq!(self.window.held(), held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_window_agrees_with_a_list_of_everything_that_happened(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.take(step);
            model.check();
        }
        // Whatever is left can be handed over and settled to the end.
        loop {
            (0..4).for_each(|key| model.bring_back(key));
            while model.window.ready() > 0 {
                model.hand_over();
            }
            if model.in_flight(0).is_none() {
                break;
            }
            model.take(Step::Deliver(0));
            model.check();
        }
        prop_assert!(model.rows.iter().all(|row| matches!(row.fate, Fate::Delivered | Fate::Refused)));
        prop_assert_eq!(model.window.held(), 0);
        prop_assert_eq!(model.window.mark(), model.next - 1);
    }
}
