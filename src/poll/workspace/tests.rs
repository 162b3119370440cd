//! The rules of the guard: when polls wait for the workspace's name, and what an answer changes.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::api::PageError;

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
fn the_same_address_and_key_need_no_ping_for_a_day() {
    let guard = guard(Some(shop_a()), "a");
    assert_eq!(*guard.passage(), Passage::Open);
    assert!(!guard.is_due(moment(86_399).elapsed, READ));
    assert!(guard.is_due(moment(86_400).elapsed, READ));
}

#[test]
fn a_store_whose_workspace_is_not_known_is_polled_at_once_and_named_after_the_first_page() {
    let mut guard = guard(None, "a");
    assert_eq!(*guard.passage(), Passage::Open);
    assert!(!guard.is_due(moment(0).elapsed, None), "no page has been read");
    assert_eq!(ask(&mut guard, "a", named(Some("Shop A")), 0), GuardAction::Keep(shop_a()));
    assert!(!guard.is_due(moment(60).elapsed, READ));
}

#[test]
fn after_another_address_or_key_polls_wait_for_the_name() {
    let mut guard = guard(Some(shop_a()), "b");
    assert_eq!(*guard.passage(), Passage::Asking);
    assert!(guard.is_due(moment(0).elapsed, None));
    let action = ask(&mut guard, "b", named(Some("Shop A")), 0);
    let rotated = KnownWorkspace { account: "b".to_owned(), ..shop_a() };
    assert_eq!(action, GuardAction::Keep(rotated));
    assert_eq!(*guard.passage(), Passage::Open);
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
fn while_the_workspace_does_not_answer_polls_wait_and_it_is_asked_again_within_a_minute() {
    let mut guard = guard(Some(shop_a()), "b");
    let mut now = 0;
    for _ in 0..20 {
        assert_eq!(ask(&mut guard, "b", status(503), now), GuardAction::Nothing);
        assert_eq!(*guard.passage(), Passage::Asking);
        assert!(guard.waits_after().is_some());
        now = guard.ask_at.as_secs() + 1;
        assert!(guard.wake_at(Duration::ZERO) <= moment(now).elapsed);
    }
    assert!(now < 20 * 62, "{now}");
    ask(&mut guard, "b", named(Some("Shop A")), now);
    assert_eq!((guard.passage(), guard.waits_after()), (&Passage::Open, None));
}

/// Asks whenever it is due, with this answer, until polls go on; returns the second.
fn passes_after(guard: &mut WorkspaceGuard, answer: impl Fn() -> Result<Ping, ApiError>) -> u64 {
    let mut now = 0;
    for _ in 0..20 {
        assert_eq!(ask(guard, "b", answer(), now), GuardAction::Nothing);
        if *guard.passage() == Passage::Open {
            return now;
        }
        assert!(guard.waits_after().is_some() && !guard.admits(0));
        now = guard.ask_at.as_secs() + 1;
    }
    panic!("it never goes on")
}

#[test]
fn an_answer_without_a_name_holds_polls_for_minutes_and_not_for_ever() {
    let page = || Err(ApiError::Page(PageError::UnexpectedShape));
    let moved = || Err(ApiError::Redirect { host: None });
    let nameless: [fn() -> Result<Ping, ApiError>; 6] =
        [|| named(None), || named(Some(" ")), || status(404), || status(400), page, moved];
    for answer in nameless {
        let mut guard = guard(Some(shop_a()), "b");
        let passed = passes_after(&mut guard, answer);
        assert!((300..420).contains(&passed), "{passed}");
        // What is known stays, so that the next start compares again.
        assert_eq!(guard.known, Some(shop_a()));
        // It is asked again with the next page that is read, and then every ten minutes.
        let at = |second| moment(passed + second).elapsed;
        assert!(guard.is_unchecked() && !guard.is_due(at(9), None));
        assert!(!guard.is_due(at(9), Some(Duration::ZERO)), "a page of the key of before");
        assert!(guard.is_due(at(9), Some(at(5))));
        assert_eq!(ask(&mut guard, "b", answer(), passed + 9), GuardAction::Nothing);
        assert!(!guard.is_due(at(608), READ) && guard.is_due(at(609), READ));
        let GuardAction::Refuse(_) = ask(&mut guard, "b", named(Some("Shop B")), passed + 609)
        else {
            panic!("it is another one")
        };
        assert!(is_closed(&guard) && !guard.is_unchecked());
    }
}

#[test]
fn one_answer_of_something_in_between_lets_no_other_workspace_in() {
    let mut guard = guard(Some(shop_a()), "b");
    assert_eq!(ask(&mut guard, "b", status(404), 0), GuardAction::Nothing);
    assert_eq!(*guard.passage(), Passage::Asking);
    let action = ask(&mut guard, "b", named(Some("Shop B")), 3);
    assert!(matches!(action, GuardAction::Refuse(_)), "{action:?}");
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
fn a_failure_beside_polls_changes_nothing() {
    for answer in [status(401), status(404), status(503)] {
        let mut guard = guard(None, "a");
        assert_eq!(ask(&mut guard, "a", answer, 0), GuardAction::Nothing);
        assert_eq!(*guard.passage(), Passage::Open);
        assert!(!guard.is_due(moment(599).elapsed, READ));
        assert!(guard.is_due(moment(600).elapsed, READ));
    }
}

#[test]
fn another_name_behind_the_same_address_and_key_is_kept() {
    let mut guard = guard(Some(shop_a()), "a");
    let action = ask(&mut guard, "a", named(Some("Shop A and Sons")), 86_400);
    let GuardAction::Keep(known) = action else { panic!("{action:?}") };
    assert_eq!(known.name, "Shop A and Sons");
    assert_eq!(*guard.passage(), Passage::Open);
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

#[test]
fn a_ping_of_the_key_of_before_confirms_no_other_key_while_a_pause_hides_the_change() {
    let mut guard = guard(Some(shop_a()), "b");
    guard.started();
    // The pause has read another key, so the account of the ping is gone, and the guard does not know yet.
    let action = guard.answered(named(Some("Shop A")), 0, None, moment(1), 0.5);
    assert_eq!(action, GuardAction::Nothing);
    guard.follow(1, || "c".to_owned(), moment(2));
    assert_eq!((guard.passage(), &guard.known), (&Passage::Asking, &Some(shop_a())));
    assert!(guard.is_due(moment(2).elapsed, None));
}

#[test]
fn the_other_workspace_is_forgotten_when_the_key_is_corrected_and_not_when_one_is_met_again() {
    let mut guard = guard(Some(shop_a()), "b");
    ask(&mut guard, "b", named(Some("Shop B")), 0);
    assert!(!guard.has_left_other);
    // A third key leads to yet another one.
    guard.follow(1, || "c".to_owned(), moment(5));
    assert!(guard.has_left_other);
    ask(&mut guard, "c", named(Some("Shop C")), 5);
    assert!(is_closed(&guard) && !guard.has_left_other);
    // The look at the key file finds the key of before.
    assert!(guard.accept(Some(shop_a()), "a", moment(9)));
    assert!(guard.has_left_other);
    assert_eq!(*guard.passage(), Passage::Open);
}

#[test]
fn an_address_whose_name_cannot_be_read_is_accepted_while_polls_wait() {
    let mut guard = guard(Some(shop_a()), "b");
    ask(&mut guard, "b", status(503), 0);
    assert_eq!(guard.refuses_requests(), Some(NAME_UNREAD));
    assert!(guard.start_look(moment(0).elapsed) && !guard.start_look(moment(1).elapsed));
    assert!(guard.wake_at(moment(1).elapsed) <= moment(2).elapsed);
    guard.started();
    assert_eq!(guard.wake_at(moment(1).elapsed), moment(2).elapsed, "also while it is asked");
    assert!(!guard.accept(Some(shop_a()), "b", moment(2)));
    let taken = KnownWorkspace { account: "b".to_owned(), ..shop_a() };
    assert!(guard.accept(Some(taken), "b", moment(4)));
    assert_eq!(*guard.passage(), Passage::Open);
}
