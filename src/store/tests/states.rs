//! The state of each job follows each of its sources: what is stored is what `verify` calculates.

use shopmirror_core::record::Route;

use crate::store::fixtures::{Poll, open};
use crate::store::{Reader, Store};

async fn shows(store: &Store, route: Route, second: i64, records: &[String]) {
    Poll::at(second).shows_of(store, route, records).await;
}

async fn assert_states(store: &Store) {
    let findings = store
        .read(|reader| reader.verify(&mut |_, _| ()))
        .await
        .unwrap();
    for finding in findings {
        assert!(finding.ok, "{finding:?}");
    }
}

fn job(id: i64, number: &str) -> String {
    format!(r#"{{"id":{id},"job_number":"{number}","status":"Open","status_stage":"open"}}"#)
}

#[tokio::test]
async fn a_field_that_is_sent_later_takes_no_name_from_the_changes_before_it() {
    let (_dir, store) = open();
    let completed = |id: i64, who: &str| {
        format!(
            r#"{{"id":{id},"job_number":"R-{id}","status":"Done","status_stage":"completed",
            "created_at":"2026-03-01T10:00:00Z",{who}}}"#
        )
    };
    let first = completed(1, r#""created_by":"Ann""#);
    let second = completed(2, r#""created_by":"Ann","changed_by":"Bo""#);
    let third = completed(3, r#""created_by":"Cy","changed_by":"""#);
    let jobs = [job(3, "R-3"), job(2, "R-2"), job(1, "R-1")];
    shows(&store, Route::Jobs, 0, &jobs).await;
    shows(
        &store,
        Route::JobStatusChanges,
        1,
        std::slice::from_ref(&first),
    )
    .await;
    shows(
        &store,
        Route::JobStatusChanges,
        2,
        &[third, second, first.clone()],
    )
    .await;
    assert_states(&store).await;
    let names = async || {
        let names = store.read(|reader: &Reader| {
            let sql = "SELECT completed_by FROM _job_states ORDER BY id";
            let mut statement = reader.connection.prepare(sql)?;
            let names = statement.query_map([], |row| row.get::<_, String>(0))?;
            Ok(names.collect::<rusqlite::Result<Vec<_>>>()?)
        });
        names.await.unwrap()
    };
    assert_eq!(names().await, ["Ann", "Bo", "Cy"]);
    // For another reason.
    let paid = r#"{"id":1,"job_number":"R-1","amount":5}"#;
    shows(&store, Route::Payments, 3, &[paid.to_owned()]).await;
    assert_states(&store).await;
    assert_eq!(names().await, ["Ann", "Bo", "Cy"]);
}

#[tokio::test]
async fn a_payment_counts_at_once_for_each_job_that_has_its_number() {
    let (_dir, store) = open();
    let paid = |id: i64, number: &str| {
        format!(
            r#"{{"id":{id},"job_number":"{number}","amount":5,"created_at":"2026-03-01T10:00:00Z"}}"#
        )
    };
    shows(&store, Route::Jobs, 0, &[job(1, "R-1")]).await;
    shows(&store, Route::Payments, 1, &[paid(1, "R-1")]).await;
    let same = [job(3, "R-2"), job(2, "R-2"), job(1, "R-1")];
    shows(&store, Route::Jobs, 2, &same).await;
    shows(
        &store,
        Route::Payments,
        3,
        &[paid(2, "R-2"), paid(1, "R-1")],
    )
    .await;
    for id in ["1", "2", "3"] {
        let state = store
            .read(move |reader| reader.job_state(id))
            .await
            .unwrap();
        assert_eq!(state.unwrap().paid, Some(5.0), "job {id}");
    }
    assert_states(&store).await;
}

#[tokio::test]
async fn a_payment_counts_whichever_of_the_lists_is_read_first() {
    let change = r#"{"id":1,"job_number":"R-1","status":"Collected","status_stage":"completed","created_at":"2026-03-01T09:00:00Z"}"#;
    let payment = r#"{"id":1,"job_number":"R-1","amount":5,"created_at":"2026-03-01T10:00:00Z"}"#;
    let lists = [
        (Route::Jobs, job(1, "R-1")),
        (Route::JobStatusChanges, change.to_owned()),
        (Route::Payments, payment.to_owned()),
    ];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let (_dir, store) = open();
        for (at, list) in order.into_iter().enumerate() {
            let (route, record) = &lists[list];
            shows(
                &store,
                *route,
                at.try_into().unwrap(),
                std::slice::from_ref(record),
            )
            .await;
        }
        let state = store.read(|reader| reader.job_state("1")).await.unwrap();
        assert_eq!(state.unwrap().paid, Some(5.0), "{order:?}");
        assert_states(&store).await;
    }
}
