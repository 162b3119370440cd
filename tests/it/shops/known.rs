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

const REFUND: &str = "a payment that was missed may be a refund";

const FAULTS: [Fault; 2] = [
    fault("*", "outstanding", "paid", REFUND),
    fault("*", "outstanding", "outstanding", REFUND),
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
