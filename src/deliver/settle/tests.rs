//! One row per rule: what a round handed over, what the sink said, and what becomes of it.

use super::*;
use crate::record::{Change, Kind, Route};

const NOW: &str = "2026-01-01T00:00:00.000000Z";
const IN_A_MINUTE: &str = "2026-01-01T00:01:00.000000Z";

fn change(seq: i64) -> Change {
    Change {
        seq,
        event_id: format!("evt_{seq}"),
        route: Route::Jobs,
        record_id: Some(seq.to_string()),
        kind: Kind::Created,
        version: 1,
        observed_at: NOW.to_owned(),
        business: None,
        body: "{}".to_owned(),
        before: None,
    }
}

fn delivery(seq: i64, attempts: i64, state: DeliveryState) -> PendingDelivery {
    PendingDelivery {
        seq,
        route: "jobs".to_owned(),
        record_id: seq.to_string(),
        state,
        attempts,
        next_attempt_at: Some(NOW.to_owned()),
        last_error: None,
        since: NOW.to_owned(),
        only_if_newest: false,
    }
}

/// A round of deliveries that are due, given with the attempts made before, and of new changes.
fn round(due: &[(i64, i64)], fresh: &[i64]) -> Round {
    let mut round = Round { due: due.len(), at_end: true, now: NOW.to_owned(), ..Round::default() };
    for (seq, attempts) in due {
        round.changes.push(change(*seq));
        round.deliveries.push(delivery(*seq, *attempts, DeliveryState::Retrying));
    }
    for seq in fresh {
        round.changes.push(change(*seq));
        round.deliveries.push(delivery(*seq, 0, DeliveryState::Retrying));
        round.rows.push((*seq, LogRow::Handed));
    }
    round
}

const DONE: Verdict = Verdict::Done;

fn refused() -> Verdict {
    Verdict::Refused { reason: "answered 422".into(), for_good: false }
}

fn refused_for_good() -> Verdict {
    Verdict::Refused { reason: "ended with 65".into(), for_good: true }
}

fn fault() -> Verdict {
    Verdict::Fault { reason: "answered 503".into(), retry_after: None }
}

fn asks_for(seconds: u64) -> Verdict {
    let retry_after = Some(Duration::from_secs(seconds));
    Verdict::Fault { reason: "answered 429".into(), retry_after }
}

fn settled(round: Round, attempt: Attempt, tried: &[(usize, Verdict)]) -> Settlement {
    let waits = [Duration::from_secs(60), Duration::from_secs(600)];
    let schedule = RetrySchedule { waits: &waits, chance: 0.5, now: NOW.parse().unwrap() };
    settle(round, attempt, tried, &schedule)
}

/// The verdicts of changes that were handed over together.
fn together(verdicts: &[Verdict]) -> Vec<(usize, Verdict)> {
    verdicts.iter().cloned().enumerate().collect()
}

/// What was put, in short: number, state, attempts, next attempt.
fn put(settlement: &Settlement) -> Vec<(i64, DeliveryState, i64, Option<&str>)> {
    let put = &settlement.progress.put;
    put.iter().map(|d| (d.seq, d.state, d.attempts, d.next_attempt_at.as_deref())).collect()
}

use DeliveryState::{Dead, Retrying};

type Tried<'a> = &'a [(usize, Verdict)];
type Put<'a> = &'a [(i64, DeliveryState, i64, Option<&'a str>)];

#[test]
fn the_position_moves_up_to_the_first_change_that_is_kept() {
    let due_now = Some(NOW);
    let (again, good) = (Some(IN_A_MINUTE), None);
    let cases: [(&[Verdict], Option<i64>, i64, Put<'_>); 9] = [
        (&[DONE, DONE, DONE], Some(3), 3, &[]),
        (&[refused(), DONE, DONE], Some(3), 2, &[(1, Retrying, 1, again)]),
        (&[DONE, DONE, refused_for_good()], Some(3), 2, &[(3, Dead, 1, good)]),
        (&[DONE, fault(), Verdict::NotTried], Some(1), 1, &[]),
        (&[fault(), Verdict::NotTried, Verdict::NotTried], None, 0, &[]),
        // A change that a later one has passed cannot hold the position, and counts no attempt.
        (&[fault(), DONE, Verdict::NotTried], Some(2), 1, &[(1, Retrying, 0, due_now)]),
        (&[asks_for(5), DONE, fault()], Some(2), 1, &[(1, Retrying, 0, due_now)]),
        // What is behind the change that is kept is handed over again, and not counted.
        (&[fault(), refused(), Verdict::NotTried], None, 0, &[]),
        (&[Verdict::CutShort, DONE, Verdict::CutShort], Some(2), 1, &[(1, Retrying, 0, due_now)]),
    ];
    for (verdicts, position, delivered, expected) in cases {
        let settlement = settled(round(&[], &[1, 2, 3]), Attempt::Batch, &together(verdicts));
        let progress = &settlement.progress;
        let found = (progress.position, progress.delivered, put(&settlement));
        assert_eq!(found, (position, delivered, expected.to_vec()), "{verdicts:?}");
    }
}

#[test]
fn a_fault_is_the_changes_own_only_if_the_endpoint_took_another_one_before_it() {
    let compare = Attempt::Compare { changes: 2, in_turn: false };
    let parked: Put<'_> = &[(1, Retrying, 1, Some(IN_A_MINUTE))];
    let an_hour_later = Some("2026-01-01T01:00:00.000000Z");
    let cases: [(Tried<'_>, Option<i64>, Put<'_>); 5] = [
        (&[(1, DONE), (0, fault())], Some(2), parked),
        (&[(1, DONE), (0, asks_for(5))], Some(2), parked),
        (&[(1, DONE), (0, asks_for(3600))], Some(2), &[(1, Retrying, 1, an_hour_later)]),
        (&[(1, fault()), (0, fault())], None, &[]),
        (&[(1, fault()), (0, DONE)], Some(1), &[]),
    ];
    for (tried, position, expected) in cases {
        let settlement = settled(round(&[], &[1, 2]), compare, tried);
        assert_eq!((settlement.progress.position, put(&settlement)), (position, expected.to_vec()));
        let healthy = settlement.observed == Some(Observed::Responded);
        assert_eq!(healthy, !expected.is_empty(), "{tried:?}");
    }
}

#[test]
fn a_change_that_was_to_blame_before_does_not_stop_its_sink() {
    let known = round(&[(1, 1)], &[2]);
    let settlement = settled(known, Attempt::Batch, &together(&[asks_for(5), DONE]));
    assert_eq!(settlement.observed, Some(Observed::Responded));
    let in_ten_minutes = Some("2026-01-01T00:10:00.000000Z");
    assert_eq!(put(&settlement), [(1, Retrying, 2, in_ten_minutes)]);
    // It is tried alone at its own times.
    let settlement = settled(round(&[(1, 1)], &[]), Attempt::Batch, &together(&[fault()]));
    assert_eq!(settlement.observed, Some(Observed::Responded));
    assert_eq!(put(&settlement), [(1, Retrying, 2, in_ten_minutes)]);
    // Nothing shows whose fault it is if nothing was taken, or if the endpoint failed before.
    for (known, attempt, verdicts) in [
        (round(&[(1, 1)], &[2]), Attempt::Batch, vec![fault(), fault()]),
        (round(&[(1, 1)], &[]), Attempt::Probe, vec![fault()]),
    ] {
        let settlement = settled(known, attempt, &together(&verdicts));
        assert!(matches!(settlement.observed, Some(Observed::Failed { .. })));
        assert_eq!(put(&settlement), []);
    }
}

#[test]
fn a_due_change_is_settled_or_gets_its_next_attempt_until_the_schedule_ends() {
    let in_ten_minutes = Some("2026-01-01T00:10:00.000000Z");
    for (attempts, verdict, expected) in [
        (0, DONE, None),
        (0, refused(), Some((1, Retrying, 1, Some(IN_A_MINUTE)))),
        (1, refused(), Some((1, Retrying, 2, in_ten_minutes))),
        (2, refused(), Some((1, Dead, 3, None))),
        (0, refused_for_good(), Some((1, Dead, 1, None))),
        (0, fault(), None),
    ] {
        let settlement = settled(
            round(&[(1, attempts)], &[]),
            Attempt::Batch,
            &together(std::slice::from_ref(&verdict)),
        );
        assert_eq!(put(&settlement).first().copied(), expected, "{attempts} {verdict:?}");
        assert_eq!(settlement.progress.settled.len(), usize::from(verdict == DONE));
        assert_eq!(settlement.progress.position, None);
    }
}

#[test]
fn a_stop_counts_as_a_refusal_of_nothing() {
    for attempt in [Attempt::Batch, Attempt::Compare { changes: 2, in_turn: false }] {
        let tried = [(1, DONE), (0, Verdict::CutShort)];
        let settlement = settled(round(&[], &[1, 2]), attempt, &tried);
        assert_eq!(put(&settlement), [(1, Retrying, 0, Some(NOW))]);
        assert_eq!(settlement.observed, None, "nothing is learned of the endpoint");
    }
}

#[test]
fn a_vanished_endpoint_disables_its_sink_and_keeps_the_change() {
    let gone = Verdict::Gone { reason: "answered 410".into() };
    let settlement = settled(round(&[], &[1, 2]), Attempt::Batch, &together(&[DONE, gone]));
    let progress = &settlement.progress;
    assert!(progress.disable && !settlement.more);
    assert_eq!((progress.position, progress.fault.as_deref()), (Some(1), Some("answered 410")));
}

#[test]
fn unwanted_and_waiting_changes_move_the_position_as_well() {
    let mut round = round(&[], &[2]);
    round.rows = vec![
        (1, LogRow::Unwanted(1)),
        (2, LogRow::Handed),
        (3, LogRow::Behind(delivery(3, 0, DeliveryState::Waiting))),
        (4, LogRow::Unwanted(1)),
    ];
    let settlement = settled(round, Attempt::Batch, &together(&[DONE]));
    assert_eq!(settlement.progress.position, Some(4));
    assert_eq!((settlement.progress.put.len(), settlement.progress.filtered), (1, 2));
    assert!(settlement.more, "what was parked may be due");
}

#[test]
fn a_change_that_failed_while_the_log_held_no_other_is_told_apart() {
    let compare = Attempt::Compare { changes: 2, in_turn: false };
    let uncompared = |round: Round, attempt| match settled(round, attempt, &[(0, fault())]).observed
    {
        Some(Observed::Failed { uncompared, .. }) => uncompared,
        other => panic!("{other:?}"),
    };
    assert_eq!(uncompared(round(&[], &[1]), compare), Some(1));
    assert_eq!(uncompared(round(&[(1, 0)], &[]), compare), Some(0));
    assert_eq!(uncompared(round(&[], &[1, 2]), compare), None);
    assert_eq!(uncompared(round(&[], &[1]), Attempt::Probe), None);
    let more = Round { at_end: false, ..round(&[], &[1]) };
    assert_eq!(uncompared(more, compare), None);
}
