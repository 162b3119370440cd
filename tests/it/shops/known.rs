//! Which numbers of simulated shops are known to be wrong, and why. A pin covers the numbers of one
//! shop in one column and way; if it does not cover exactly as many as it says, the tests fail.

use super::Plan;
use super::judge::{Fault, Tally, WrongPlace};

/// Wrong numbers of one shop that are known.
struct Pin {
    days: i64,
    seed: u64,
    report: &'static str,
    column: &'static str,
    fault: Fault,
    numbers: usize,
    why: &'static str,
}

impl Pin {
    fn covers(&self, place: &WrongPlace) -> bool {
        self.report == place.report && self.column == place.column && self.fault == place.fault
    }
}

/// What no page can show (`docs/faq.md`).
const MOVED: &str = "no page of its new business shows a repair that was moved";

/// In each of the four forms of a report.
const PINS: [Pin; 2] = [
    Pin {
        days: 14,
        seed: 0,
        report: "repairs",
        column: "(row)",
        fault: Fault::RowTooMany,
        numbers: 4,
        why: MOVED,
    },
    Pin {
        days: 14,
        seed: 0,
        report: "technicians",
        column: "open",
        fault: Fault::TooMuch,
        numbers: 4,
        why: MOVED,
    },
];

/// What is wrong with a shop that no pin explains, and the pins that do not fit, one text for each;
/// prints what the pins cover.
pub(super) fn unexplained(plan: &Plan, tally: &Tally) -> Vec<String> {
    let mut unexplained = Vec::new();
    let is_own = |pin: &&Pin| pin.days == plan.days && pin.seed == plan.seed;
    let pins: Vec<&Pin> = PINS.iter().filter(is_own).collect();
    for (place, wrong) in &tally.wrong {
        if !pins.iter().any(|pin| pin.covers(place)) {
            unexplained.push(format!("{wrong} of {place}"));
        }
    }
    for pin in pins {
        let mut numbers = 0;
        for (place, wrong) in &tally.wrong {
            if pin.covers(place) {
                numbers += wrong;
            }
        }
        let Pin {
            report,
            column,
            fault,
            why,
            ..
        } = pin;
        println!("known: {numbers} of {report}.{column}, {fault}: {why}");
        if numbers != pin.numbers {
            unexplained.push(format!(
                "{numbers} of {report}.{column}, {fault}, where a pin says {}",
                pin.numbers
            ));
        }
    }
    unexplained
}
