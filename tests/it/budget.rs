//! The rate budget of the real program on real sockets; `virtual_time` proves the rules over hours.

use sandbox::{FaultKind, Route};

use crate::support::{Workspace, wait_until};

#[tokio::test]
async fn a_429_with_retry_after_rests_the_whole_key_of_the_real_program() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let kind = FaultKind::Status { code: 429, retry_after: Some("4".to_owned()) };
    workspace.fault(Some(Route::Leads), kind, 1);
    let log = || workspace.sandbox.requests().log;
    wait_until("the fault is met", || log().iter().any(|r| r.status == 429)).await;
    workspace.all_polled().await;
    let log = log();
    let fault = log.iter().find(|request| request.status == 429).unwrap().elapsed_s;
    // A busy machine may need a while to read the answer, and then rests as long as it was asked to.
    let during = log.iter().filter(|r| r.elapsed_s > fault + 2.0 && r.elapsed_s < fault + 4.0);
    assert_eq!(during.clone().count(), 0, "{:?}", during.collect::<Vec<_>>());
}
