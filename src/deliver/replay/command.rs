//! The command that goes on with a replay that was given up.

use std::fmt::Write;

use crate::store::Replay;

/// What to run once the sink is correct: the same choice, from the row at which the replay ended, and
/// what no longer keeps the rows that it needs.
#[must_use]
pub fn going_on(replay: &Replay) -> String {
    let Replay { sink, position, to_seq, choice, .. } = replay;
    let mut text = format!("`shopmirror replay {sink} --from {} --to {to_seq}", position + 1);
    for (option, names) in [("--route", &choice.routes), ("--kind", &choice.kinds)] {
        for name in names {
            let _ = write!(text, " {option} {name}");
        }
    }
    for (field, value) in &choice.wheres {
        let _ = write!(text, " --where {}", for_shell(&format!("{field}={value}")));
    }
    let _ = write!(text, " --rate {}", rate(replay.rate));
    if !choice.all_versions {
        return format!("{text}`");
    }
    format!(
        "{text} --all-versions` (the log keeps the older versions no longer than `store.log_retention` now)"
    )
}

/// A rate as the command reads it.
fn rate(per_second: f64) -> String {
    let units = [(per_second, "s"), (per_second * 60.0, "m"), (per_second * 3_600.0, "h")];
    let whole = units.iter().find(|(number, _)| (number - number.round()).abs() < 1e-6);
    match whole {
        Some((number, unit)) => format!("{}/{unit}", number.round()),
        None => format!("{per_second}/s"),
    }
}

fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
