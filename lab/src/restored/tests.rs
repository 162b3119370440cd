use super::*;

/// The same with many more workspaces is a stage of `.ci/long`.
#[test]
fn no_record_is_taken_for_another_one_and_restores_are_recognised() {
    let outcomes = run(&Settings {
        workspaces: 9,
        polls: 300,
        seed: 1,
    });
    assert_eq!(missed_goals(&outcomes), [] as [String; 0], "{outcomes:#?}");
    let reused: u64 = outcomes.iter().map(|outcome| outcome.tally.reused).sum();
    assert!(reused > 20, "ids are used again: {outcomes:#?}");
}

#[test]
fn an_outcome_that_misses_its_goals_says_which() {
    let tally = Tally {
        wrong: 1,
        restores: 10,
        recognised: 7,
        false_restores: 1,
        ..Tally::default()
    };
    let outcome = Outcome {
        listed_by: ListedBy::Id,
        tally,
    };
    assert_eq!(missed_goals(&[outcome]).len(), 3);
}
