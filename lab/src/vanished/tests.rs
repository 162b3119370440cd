use super::*;

/// The same with many more shops is a stage of `.ci/long`.
#[test]
fn no_record_of_a_list_is_marked_in_a_shop_of_each_kind() {
    for archives in [false, true] {
        let outcomes = run(&Settings {
            shops: 1,
            listed_by: None,
            life: None,
            lagging: 0.01,
            archives,
            seed: 1,
        });
        assert_eq!(missed_goals(&outcomes), [] as [String; 0], "{outcomes:#?}");
    }
}

#[test]
fn an_outcome_that_misses_its_goals_says_which() {
    let tally = Tally {
        deleted_from_page: 100,
        found: 14,
        wrong: 1,
        moved_and_shown: 1,
        ..Tally::default()
    };
    let outcome = Outcome {
        listed_by: ListedBy::Id,
        life: Life::Still,
        tally,
    };
    assert_eq!(missed_goals(&[outcome]).len(), 3);
}
