//! Which numbers of simulated shops are known to be wrong, and why. A pin covers the numbers of one
//! shop in one column and way. If it covers more of them than it says, or none, the tests fail.

use super::Plan;
use super::judge::{Fault, Tally, WrongPlace};

/// Wrong numbers of one shop that are known.
struct Pin {
    days: i64,
    seed: u64,
    report: &'static str,
    column: &'static str,
    fault: Fault,
    /// At most so many, in all forms together.
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

/// What 60 days of the shops of `.ci/long` have; those of the gate have nothing wrong.
#[rustfmt::skip]
const PINS: [Pin; 20] = [
    pin(1, "average-repair", "billed", Fault::TooMuch, 4, MOVED),
    pin(1, "average-repair", "repairs", Fault::TooMuch, 4, MOVED),
    pin(1, "busiest-hours", "repairs", Fault::TooMuch, 4, MOVED),
    pin(1, "money-by-person", "billed", Fault::TooMuch, 4, MOVED),
    pin(1, "open-repairs", "from_1_to_3_days", Fault::TooMuch, 12, MOVED),
    pin(1, "open-repairs", "from_3_to_7_days", Fault::TooLittle, 4, MOVED),
    pin(1, "open-repairs", "from_3_to_7_days", Fault::TooMuch, 48, MOVED),
    pin(1, "open-repairs", "under_1_day", Fault::TooMuch, 12, MOVED),
    pin(1, "repairs", "days_in_status", Fault::TooMuch, 36, MOVED),
    pin(1, "time-to-repair", "repairs", Fault::TooMuch, 4, MOVED),
    pin(2, "busiest-hours", "repairs", Fault::TooMuch, 16, MOVED),
    pin(2, "busiest-hours", "sat", Fault::TooMuch, 35, MOVED),
    pin(2, "intake", "jobs", Fault::TooMuch, 16, MOVED),
    pin(3, "open-repairs", "from_1_to_3_days", Fault::TooMuch, 4, MOVED),
    pin(3, "open-repairs", "from_3_to_7_days", Fault::TooMuch, 16, MOVED),
    pin(3, "open-repairs", "open", Fault::TooMuch, 8, MOVED),
    pin(3, "payments", "net", Fault::TooLittle, 16, MOVED),
    pin(3, "payments", "payments", Fault::TooLittle, 16, MOVED),
    pin(3, "payments", "received", Fault::TooLittle, 16, MOVED),
    pin(3, "technicians", "taken_in", Fault::TooMuch, 4, MOVED),
];

const fn pin(
    seed: u64,
    report: &'static str,
    column: &'static str,
    fault: Fault,
    numbers: usize,
    why: &'static str,
) -> Pin {
    Pin {
        days: 60,
        seed,
        report,
        column,
        fault,
        numbers,
        why,
    }
}

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
        if numbers == 0 || numbers > pin.numbers {
            unexplained.push(format!(
                "{numbers} of {report}.{column}, {fault}, where a pin says {}",
                pin.numbers
            ));
        }
    }
    unexplained
}
