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
    /// It waits behind one that was refused.
    Gone,
}

/// One row as the model knows it; `aside` if the mark may pass it although it is under way.
#[derive(Debug, Clone, Copy)]
struct Known {
    seq: i64,
    key: Option<u8>,
    fate: Fate,
    aside: bool,
    due: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Pass,
    Add(Option<u8>),
    AddDue(Option<u8>),
    HandOver,
    /// The change that was handed over at this place of those in flight.
    Deliver(usize),
    RefuseAlone(usize),
    Refuse(usize),
    AddBehind,
    SetAside,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![Just(None), (0_u8..4).prop_map(Some)];
    let step = prop_oneof![
        1 => Just(Step::Pass),
        6 => key().prop_map(Step::Add),
        1 => key().prop_map(Step::AddDue),
        6 => Just(Step::HandOver),
        5 => (0_usize..8).prop_map(Step::Deliver),
        1 => (0_usize..8).prop_map(Step::RefuseAlone),
        1 => (0_usize..8).prop_map(Step::Refuse),
        1 => Just(Step::SetAside),
        1 => Just(Step::AddBehind),
    ];
    prop::collection::vec(step, 1..120)
}

struct Model {
    window: Window<u8>,
    rows: Vec<Known>,
    next: i64,
    next_due: i64,
    delivered: usize,
    taken: usize,
    unwanted: Vec<i64>,
    passed: usize,
}

impl Model {
    fn new() -> Self {
        Self {
            window: Window::after(1000),
            rows: Vec::new(),
            next: 1001,
            next_due: 1,
            delivered: 0,
            taken: 0,
            unwanted: Vec::new(),
            passed: 0,
        }
    }

    fn row(&mut self, seq: i64) -> &mut Known {
        self.rows.iter_mut().find(|row| row.seq == seq).unwrap()
    }

    fn in_flight(&self, place: usize) -> Option<i64> {
        let flying: Vec<i64> =
            self.rows.iter().filter(|row| row.fate == Fate::Handed).map(|row| row.seq).collect();
        (!flying.is_empty()).then(|| flying[place % flying.len()])
    }

    fn add(&mut self, key: Option<u8>, due: bool) {
        let next = if due { &mut self.next_due } else { &mut self.next };
        let seq = *next;
        *next += 1;
        self.rows.push(Known { seq, key, fate: Fate::Held, aside: due, due });
        if due { self.window.add_due(seq, key) } else { self.window.add(seq, key) }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Pass => {
                self.unwanted.push(self.next);
                self.window.pass(self.next);
                self.next += 1;
            }
            Step::Add(key) => self.add(key, false),
            Step::AddDue(key) => self.add(key, true),
            Step::HandOver => self.hand_over(),
            Step::Deliver(place) => {
                let Some(seq) = self.in_flight(place) else { return };
                self.row(seq).fate = Fate::Delivered;
                self.delivered += 1;
                self.window.delivered(seq);
            }
            Step::AddBehind => {
                self.window.add_behind(self.next);
                self.next += 1;
            }
            Step::RefuseAlone(place) => {
                let Some(seq) = self.in_flight(place) else { return };
                self.row(seq).fate = Fate::Refused;
                self.window.refused_alone(seq);
            }
            Step::Refuse(place) => {
                let Some(seq) = self.in_flight(place) else { return };
                let key = self.row(seq).key;
                self.row(seq).fate = Fate::Refused;
                let behind = self.window.refused(seq);
                let mut expected: Vec<i64> = self
                    .rows
                    .iter_mut()
                    .filter(|row| row.fate == Fate::Held && row.key.is_some() && row.key == key)
                    .map(|row| {
                        row.fate = Fate::Gone;
                        row.seq
                    })
                    .collect();
                expected.sort_unstable();
                assert_eq!(behind, expected, "what waited for {seq}");
            }
            Step::SetAside => self.set_aside(),
        }
    }

    fn hand_over(&mut self) {
        let handed = self.window.hand_over();
        let busy: Vec<u8> = self
            .rows
            .iter()
            .filter(|row| row.fate == Fate::Handed)
            .filter_map(|row| row.key)
            .collect();
        let may_go =
            |row: &&Known| row.fate == Fate::Held && row.key.is_none_or(|key| !busy.contains(&key));
        match handed {
            Some(seq) => {
                let row = *self.row(seq);
                assert!(may_go(&&row), "{row:?}, busy {busy:?}");
                if let (Some(key), false) = (row.key, row.due) {
                    let before = |other: &&Known| {
                        other.key == Some(key) && !other.due && other.fate == Fate::Held
                    };
                    let first = self.rows.iter().filter(before).map(|row| row.seq).min();
                    assert_eq!(first, Some(seq), "out of order");
                }
                self.row(seq).fate = Fate::Handed;
            }
            None => {
                assert!(!self.rows.iter().any(|row| may_go(&row)), "something could go");
            }
        }
    }

    fn set_aside(&mut self) {
        let answered = |row: &&Known| {
            matches!(row.fate, Fate::Delivered | Fate::Refused) && !row.due && !row.aside
        };
        let last = self.rows.iter().filter(answered).map(|row| row.seq).max();
        for aside in self.window.set_aside() {
            let seq = match aside {
                Aside::UnderWay(seq) => {
                    self.row(seq).aside = true;
                    seq
                }
                Aside::Waiting(seq) => {
                    assert_eq!(self.row(seq).fate, Fate::Held);
                    self.row(seq).fate = Fate::Gone;
                    seq
                }
            };
            assert!(Some(seq) < last);
        }
        assert_eq!(self.window.answered_above(), 0);
    }

    fn check(&mut self) {
        let holds_back = |row: &&Known| matches!(row.fate, Fate::Held | Fate::Handed) && !row.aside;
        let first = self.rows.iter().filter(holds_back).map(|row| row.seq).min();
        let mark = first.map_or(self.next - 1, |first| first - 1);
        assert_eq!(self.window.mark(), mark);
        self.passed += self.window.take_unwanted();
        let unwanted = self.unwanted.iter().filter(|seq| **seq <= mark).count();
        let above_it: usize = self.window.rows().map(|(_, _, unwanted, _)| unwanted).sum();
        assert_eq!((self.passed, self.passed + above_it), (unwanted, self.unwanted.len()));
        let above = |fate| {
            let is_above = |row: &&Known| row.fate == fate && row.seq > mark && !row.aside;
            self.rows.iter().filter(is_above).count()
        };
        let (delivered, refused) = (above(Fate::Delivered), above(Fate::Refused));
        assert_eq!(self.window.answered_above(), delivered + refused);
        self.taken += self.window.take_delivered();
        assert_eq!(self.taken + delivered, self.delivered, "each is counted once");
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
            while model.window.ready() > 0 {
                model.hand_over();
            }
            let Some(seq) = model.in_flight(0) else { break };
            model.row(seq).fate = Fate::Delivered;
            model.delivered += 1;
            model.window.delivered(seq);
            model.check();
        }
        prop_assert_eq!(model.window.held(), 0);
        prop_assert_eq!(model.window.mark(), model.next - 1);
    }
}

#[test]
fn a_slow_change_holds_the_mark_until_it_is_set_aside() {
    let mut window: Window<&str> = Window::after(10);
    for (seq, key) in [(11, "slow"), (12, "a"), (13, "slow"), (14, "b")] {
        window.add(seq, Some(key));
    }
    assert_eq!([11, 12, 14].map(|_| window.hand_over().unwrap()), [11, 12, 14]);
    window.delivered(12);
    window.delivered(14);
    assert_eq!((window.mark(), window.answered_above(), window.take_delivered()), (10, 2, 0));
    assert_eq!(window.set_aside(), [Aside::UnderWay(11), Aside::Waiting(13)]);
    assert_eq!((window.mark(), window.take_delivered()), (14, 2));
    assert_eq!(window.held(), 1, "the slow one is still under way");
    window.delivered(11);
    assert_eq!((window.mark(), window.take_delivered(), window.held()), (14, 1, 0));
}
