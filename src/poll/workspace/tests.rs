//! The rules of the guard: when polls wait for the workspace's name, and what an answer changes.

use jiff::{SignedDuration, Timestamp};

use super::*;

/// When the last page was read.
const READ: Option<Duration> = Some(Duration::MAX);

fn moment(second: u64) -> Moment {
    let start: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
    let elapsed = Duration::from_secs(second);
    Moment { elapsed, wall: start + SignedDuration::try_from(elapsed).unwrap() }
}

/// The workspace "Shop A" behind the account "a", read at the start.
fn shop_a() -> KnownWorkspace {
    KnownWorkspace { name: "Shop A".to_owned(), account: "a".to_owned(), at: moment(0).wall }
}

/// A guard whose first key leads to this account.
fn guard(known: Option<KnownWorkspace>, account: &str) -> WorkspaceGuard {
    let mut guard = WorkspaceGuard::new(known);
    guard.follow(0, || account.to_owned(), moment(0));
    guard
}

fn named(name: Option<&str>) -> Result<Ping, ApiError> {
    let workspace = name.map(str::to_owned);
    Ok(Ping { status: "connected".to_owned(), workspace, provider: None })
}

fn status(status: u16) -> Result<Ping, ApiError> {
    let (code, message, request_id, retry_after) = (None, None, None, None);
    Err(ApiError::Status { status, code, message, request_id, retry_after })
}

/// Sends the ping that is due and gives the guard its answer.
fn ask(
    guard: &mut WorkspaceGuard,
    account: &str,
    answer: Result<Ping, ApiError>,
    second: u64,
) -> GuardAction {
    assert!(guard.is_due(moment(second).elapsed, READ));
    guard.started();
    assert!(!guard.is_due(moment(second).elapsed, READ), "one at a time");
    let key = guard.key.unwrap();
    guard.answered(answer, key, Some(account.to_owned()), moment(second), 0.5)
}

fn is_closed(guard: &WorkspaceGuard) -> bool {
    matches!(guard.passage(), Passage::Closed(_))
}

#[test]
fn polls_pass_at_once_behind_the_same_address_and_key_and_wait_for_the_name_behind_others() {
    let mut same = guard(Some(shop_a()), "a");
    assert_eq!(*same.passage(), Passage::Open);
    assert!(!same.is_due(moment(86_399).elapsed, READ), "for a day");
    let action = ask(&mut same, "a", named(Some("Shop A and Sons")), 86_400);
    assert!(matches!(action, GuardAction::Keep(known) if known.name == "Shop A and Sons"));
    assert_eq!(*same.passage(), Passage::Open);

    let mut unknown = guard(None, "a");
    assert_eq!(*unknown.passage(), Passage::Open);
    assert!(!unknown.is_due(moment(0).elapsed, None), "no page has been read");
    assert_eq!(ask(&mut unknown, "a", status(503), 0), GuardAction::Nothing);
    assert_eq!(*unknown.passage(), Passage::Open);
    assert!(!unknown.is_due(moment(599).elapsed, READ));
    assert_eq!(ask(&mut unknown, "a", named(Some("Shop A")), 600), {
        GuardAction::Keep(KnownWorkspace { at: moment(600).wall, ..shop_a() })
    });

    let mut other = guard(Some(shop_a()), "b");
    assert_eq!(*other.passage(), Passage::Asking);
    let rotated = KnownWorkspace { account: "b".to_owned(), ..shop_a() };
    assert_eq!(ask(&mut other, "b", named(Some("Shop A")), 0), GuardAction::Keep(rotated));
    assert_eq!(*other.passage(), Passage::Open);
}

#[test]
fn behind_another_name_nothing_passes_until_it_is_accepted_or_corrected() {
    let mut guard = guard(Some(shop_a()), "b");
    let GuardAction::Refuse(other) = ask(&mut guard, "b", named(Some("Shop B")), 0) else {
        panic!("it is another one")
    };
    assert_eq!((other.expected.as_str(), other.found.as_str()), ("Shop A", "Shop B"));
    assert!(is_closed(&guard) && !guard.admits(0));
    // It is asked again twice an hour, and said once.
    assert!(!guard.is_due(moment(1_799).elapsed, READ));
    assert_eq!(ask(&mut guard, "b", named(Some("Shop B")), 1_800), GuardAction::Nothing);
    assert!(is_closed(&guard));
    // An answer that says nothing does not open it.
    assert_eq!(ask(&mut guard, "b", named(None), 3_600), GuardAction::Nothing);
    assert_eq!(ask(&mut guard, "b", status(404), 5_400), GuardAction::Nothing);
    assert!(is_closed(&guard));

    let (mut accepted, mut corrected) = (WorkspaceGuard::new(None), WorkspaceGuard::new(None));
    std::mem::swap(&mut accepted, &mut guard);
    assert!(!accepted.accept(Some(shop_a()), "b", moment(5_401)), "nothing was accepted");
    let known = KnownWorkspace { name: "Shop B".to_owned(), account: "b".to_owned(), ..shop_a() };
    assert!(accepted.accept(Some(known), "b", moment(5_402)));
    assert_eq!(*accepted.passage(), Passage::Open);

    corrected.known = Some(shop_a());
    corrected.follow(0, || "b".to_owned(), moment(0));
    ask(&mut corrected, "b", named(Some("Shop B")), 0);
    corrected.follow(1, || "a".to_owned(), moment(9));
    assert_eq!(*corrected.passage(), Passage::Open, "the key of before is back");
}

#[test]
fn a_refused_key_pauses_every_poller_once_and_then_holds_no_poll() {
    for (code, reason) in [
        (401, PauseReason::KeyRefused),
        (403, PauseReason::KeyWrongType),
        (412, PauseReason::WrongHost),
    ] {
        let mut guard = guard(Some(shop_a()), "b");
        assert_eq!(ask(&mut guard, "b", status(code), 0), GuardAction::Pause(reason));
        assert_eq!(*guard.passage(), Passage::Asking);
        // The pings of the pause were answered, and this one is refused again.
        assert_eq!(ask(&mut guard, "b", status(code), 60), GuardAction::Nothing);
        assert_eq!(*guard.passage(), Passage::Open);
    }
}

#[test]
fn an_answer_for_the_key_of_before_says_nothing_of_this_one() {
    let mut guard = guard(Some(shop_a()), "b");
    guard.started();
    guard.follow(1, || "c".to_owned(), moment(1));
    let action = guard.answered(named(Some("Shop A")), 0, None, moment(1), 0.5);
    assert_eq!((action, guard.passage()), (GuardAction::Nothing, &Passage::Asking));
    assert!(guard.is_due(moment(1).elapsed, None));
    // Only what the key of before has brought may be stored, not what this one brings.
    assert!(guard.admits(0) && !guard.admits(1) && !guard.admits(2));
}
