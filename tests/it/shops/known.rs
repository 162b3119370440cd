//! What simulated shops are known to show wrong so far, and why. Each fault that is mended takes its
//! line from here; a wrong number without a line fails the tests.

use super::judge::Tally;

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

const AMOUNTS: &str =
    "a payment that was missed may be a refund, and what was edited is as last seen";

/// What no page can show (`docs/faq.md`).
const MOVED: &str = "no page of its new business shows a repair that was moved";

const FAULTS: [Fault; 6] = [
    fault("*", "outstanding", "", AMOUNTS),
    fault("*", "open-repairs", "", MOVED),
    fault("*", "technicians", "open", MOVED),
    fault("*", "repairs", "", MOVED),
    fault("home", "home", "status.", MOVED),
    fault("home", "home", "ready", MOVED),
];

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
