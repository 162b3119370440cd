//! The rate budget of the real program on real sockets; `virtual_time` proves the rules over hours.

use sandbox::{FaultKind, Route};

use crate::support::{Workspace, wait_until};

#[tokio::test]
async fn a_429_with_retry_after_rests_the_whole_key_of_the_real_program() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let kind = FaultKind::Status { code: 429, retry_after: Some("10".to_owned()) };
    workspace.fault(Some(Route::Leads), kind, 1);
    let log = || workspace.sandbox.requests().log;
    let fault = || log().iter().find(|r| r.status == 429).map(|r| r.elapsed_s);
    wait_until("the fault is met", || fault().is_some()).await;
    let fault = fault().unwrap();
    let later = || log().iter().any(|request| request.elapsed_s >= fault + 10.0);
    wait_until("the rest is over", later).await;
    let log = log();
    // What was under way at the fault, and the answer itself, may take a while on a busy machine.
    let during = log.iter().filter(|r| r.elapsed_s > fault + 8.0 && r.elapsed_s < fault + 10.0);
    assert_eq!(during.clone().count(), 0, "{:?}", during.collect::<Vec<_>>());
}
