use super::*;

/// The same with many more polls is a stage of `.ci/long`.
#[test]
fn the_rule_reaches_its_goals_in_five_thousand_polls_of_each_load() {
    for load in [Load::Mix, Load::Life] {
        let outcome = run(load, 5_000, 1);
        assert_eq!(
            missed_goals(&outcome, 3.0),
            [] as [String; 0],
            "{outcome:?}"
        );
        // A rule that proves nothing loses nothing silently.
        assert!(outcome.all.polls > 4_800);
        assert!(outcome.all.false_gaps * 100 < outcome.all.polls);
        assert!(outcome.all.order_learned * 20 > outcome.all.lists * 19);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(Load::Mix, 300, 7), run(Load::Mix, 300, 7));
    assert_ne!(run(Load::Mix, 300, 7), run(Load::Mix, 300, 8));
}

#[test]
fn an_outcome_that_misses_its_goals_says_which() {
    let mut outcome = run(Load::Life, 60, 1);
    outcome.all.silent_behind_wide_step = 1;
    outcome.all.order_wrong = 2;
    outcome.all.silent_new = outcome.all.polls;
    outcome.steady.polls = 100;
    outcome.steady.false_suspects = 10;
    outcome.unsteady.polls = 100;
    outcome.unsteady.false_suspects = 10;
    assert_eq!(missed_goals(&outcome, 1.0).len(), 5);
}
