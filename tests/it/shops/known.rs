//! What simulated shops are known to show wrong so far, and why. Each fault that is mended takes its
//! line from here; a wrong number without a line fails the tests.

use super::judge::Tally;
use super::life::Ugly;

/// A class of wrong numbers.
struct Fault {
    /// `json`, `csv` or `home`; `*` is any.
    form: &'static str,
    report: &'static str,
    /// The start of the column's name.
    column: &'static str,
    why: &'static str,
}

const fn fault(
    form: &'static str,
    report: &'static str,
    column: &'static str,
    why: &'static str,
) -> Fault {
    Fault {
        form,
        report,
        column,
        why,
    }
}

const PART: &str = "of a part of the repairs, and has no mark";
const SINCE_CHANGE: &str = "since the last change that is known, not since the last one";
const AGE: &str = "a repair of a gap counts at the age or in the status that was seen last";

const FAULTS: [Fault; 8] = [
    fault("*", "open-repairs", "from_3_to_7_days", AGE),
    fault("*", "open-repairs", "over_7_days", AGE),
    fault("*", "turnaround-by-brand", "median_days", PART),
    fault("*", "turnaround-by-brand", "p90_days", PART),
    fault("*", "turnaround-by-person", "median_days", PART),
    fault("*", "turnaround-by-person", "p90_days", PART),
    fault("*", "repairs", "days_in_status", SINCE_CHANGE),
    fault(
        "home",
        "home",
        "completed",
        "the days before the mirror began have no mark",
    ),
];

/// What no shop with all uglies has so far, because too many of its numbers are wrong.
const LEFT_OUT: [(Ugly, &str); 1] = [(Ugly::Moves, "a moved repair loses its status changes")];

/// These without those that are left out.
pub(super) fn without_left_out(all: &[Ugly]) -> Vec<Ugly> {
    let mut uglies = all.to_vec();
    for (ugly, why) in LEFT_OUT {
        println!("left out: {ugly}, because {why}");
        uglies.retain(|it| *it != ugly);
    }
    uglies
}

/// The wrong numbers of a shop that no known fault explains, one text for each column; prints how
/// many each known fault explains.
pub(super) fn unexplained(tally: &Tally) -> Vec<String> {
    let mut unexplained = Vec::new();
    for ((form, report, column), wrong) in &tally.wrong_columns {
        let fault = FAULTS.iter().find(|fault| {
            (fault.form == "*" || fault.form == form)
                && fault.report == report
                && column.starts_with(fault.column)
        });
        match fault {
            Some(fault) => println!(
                "known: {wrong} of {report}.{column} as {form}: {}",
                fault.why
            ),
            None => unexplained.push(format!("{wrong} of {report}.{column} as {form}")),
        }
    }
    unexplained
}
