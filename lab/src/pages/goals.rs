//! What the rule has to reach, and whether it does.
//!
//! The rule before this one, which judged a step by the ids of the last page alone, was measured
//! once in the same lists: three seeds, 250,000 polls each.

use super::{Load, Outcome, Tally};

/// Polls with a silent loss in 100,000 under the rule before.
const SILENT_BEFORE_MIX: f64 = 1_531.0;
const SILENT_BEFORE_LIFE: f64 = 109.5;
/// False suspects in 2,000 polls without a loss under the rule before, where ids are steady.
const SUSPECTS_BEFORE_MIX: f64 = 8.7;

/// What an outcome misses, one sentence for each goal; empty if it reaches all. Rates may be this
/// many times as high as wanted: few polls leave much to chance.
pub(crate) fn missed_goals(outcome: &Outcome, leeway: f64) -> Vec<String> {
    let mut missed = Vec::new();
    let all = &outcome.all;
    if all.silent_behind_wide_step > 0 {
        missed.push(format!(
            "records were lost silently in a wide step, in {} polls",
            all.silent_behind_wide_step
        ));
    }
    if all.order_wrong > 0 {
        missed.push(format!(
            "a wrong order was learned of {} lists",
            all.order_wrong
        ));
    }
    let most_silent = match outcome.load {
        Load::Mix => leeway * SILENT_BEFORE_MIX / 10.0,
        Load::Life => leeway * SILENT_BEFORE_LIFE / 5.0,
    };
    if all.silent_rate() > most_silent {
        missed.push(format!(
            "silent losses in {:.1} of 100,000 polls, at most {most_silent:.1} are wanted",
            all.silent_rate()
        ));
    }
    match outcome.load {
        Load::Mix => {
            let most = leeway * 2.0 * SUSPECTS_BEFORE_MIX;
            missed.extend(too_many_suspects("steady ids", &outcome.steady, most));
        }
        Load::Life => {
            missed.extend(too_many_suspects("steady ids", &outcome.steady, leeway));
            missed.extend(too_many_suspects(
                "unsteady ids",
                &outcome.unsteady,
                leeway * 4.0,
            ));
        }
    }
    missed
}

/// `most` is in 2,000 polls without a loss.
fn too_many_suspects(lists: &str, tally: &Tally, most: f64) -> Option<String> {
    let rate = tally.false_suspect_rate();
    if rate <= most {
        return None;
    }
    Some(format!(
        "{lists}: {rate:.2} false suspects in 2,000 polls without a loss, \
         at most {most:.1} are wanted"
    ))
}
