//! S3: the listing is the log, and no object takes the place of another one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use shopmirror::config::SinkKind;
use shopmirror_core::record::Change;

use super::{all_done, build, change, changes, configured, deliver, ids};
use crate::support::servers::moto::Moto;
use crate::support::{Answer, Receiver};

fn sink_kind(endpoint: &str, bucket: &str) -> SinkKind {
    let dir = tempfile::tempdir().unwrap();
    let access = dir.path().join("access");
    fs::write(&access, "AKIDCANARY\nSECRETCANARY\n").unwrap();
    fs::set_permissions(&access, fs::Permissions::from_mode(0o600)).unwrap();
    let sink = "type = \"s3\"\nworkspace = \"north\"\naccess_key_file = \"access\"";
    let lines = format!("{sink}\nendpoint = \"{endpoint}\"\nbucket = \"{bucket}\"");
    configured(dir.path(), &lines).kind
}

async fn stored(moto: &Moto, bucket: &str) -> Vec<String> {
    let lines = moto.lines(bucket).await;
    lines
        .iter()
        .map(|line| line["event_id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_probe_tells_a_bucket_from_a_page_that_answers_everything() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("probed").await;
    assert!(
        build(&sink_kind(&moto.url(), "probed"))
            .check()
            .await
            .is_ok()
    );
    let said = build(&sink_kind(&moto.url(), "gone"))
        .check()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("the bucket gone is not there: create it"),
        "{said}"
    );
    let page = Receiver::start().await;
    page.always(Answer::status(200).body("<html>"));
    let said = build(&sink_kind(&page.url(""), "probed"))
        .check()
        .await
        .unwrap_err()
        .to_string();
    assert!(said.contains("no S3 service: correct `endpoint`"), "{said}");
}

#[tokio::test]
async fn the_listing_is_the_log_and_no_object_takes_the_place_of_another() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("whole").await;
    let kind = sink_kind(&moto.url(), "whole");
    let given = changes(1..=200);
    let mut sink = build(&kind);
    // The second is a repeat, as after a kill.
    for part in [&given[..80], &given[..80], &given[80..140], &given[140..]] {
        assert!(all_done(&deliver(&mut sink, part).await));
    }
    let numbers = [(1, 80), (81, 140), (141, 200)];
    let found = moto.objects("whole").await;
    assert_eq!(found.len(), numbers.len(), "{found:?}");
    for (name, (first, last)) in found.iter().zip(numbers) {
        let start = format!("shop/north/2026/01/02/{first:020}-{last:020}-");
        assert!(name.starts_with(&start), "{name}");
    }
    assert_eq!(stored(moto, "whole").await, ids(&given));
    let first: serde_json::Value = serde_json::from_str(&given[0].data_json()).unwrap();
    assert_eq!(moto.lines("whole").await[0], first);

    // Another store numbers other changes alike, as one does that was restored. Another sink of the
    // same bucket may ask for less.
    let other = |seq| Change {
        event_id: format!("other_{seq}"),
        ..change(seq)
    };
    let others: Vec<Change> = (1..=80).map(other).collect();
    assert!(all_done(&deliver(&mut build(&kind), &others).await));
    let less = [given[0].clone(), given[79].clone()];
    assert!(all_done(&deliver(&mut build(&kind), &less).await));
    let found = stored(moto, "whole").await;
    for change in given.iter().chain(&others) {
        assert!(
            found.contains(&change.event_id),
            "{} is lost",
            change.event_id
        );
    }
    assert_eq!(found.len(), 200 + 80 + 2);
}

#[tokio::test]
async fn an_answer_that_does_not_name_the_object_is_no_acknowledgement() {
    let receiver = Receiver::start().await;
    let kind = sink_kind(&receiver.url(""), "archive");
    let given = changes(1..=3);
    let mut length = 0;
    for change in &given {
        length += change.data_json().len() + 1;
    }
    let other_object = Answer::status(200).header("etag", "\"0123456789abcdef\"");
    for (what, answer) in [
        (
            "a captive portal",
            Answer::status(200)
                .header("etag", "\"1\"")
                .body("<html>Log in"),
        ),
        (
            "a proxy that accepts everything",
            Answer::status(200).body("ok"),
        ),
        (
            "an object of another length",
            other_object.clone().body("x".repeat(length + 1)),
        ),
    ] {
        receiver.always(answer);
        let verdicts = deliver(&mut build(&kind), &given).await;
        let reason = format!("{verdicts:?}");
        assert!(reason.contains("no S3 service"), "{what}: {reason}");
    }

    // A bucket that encrypts has its own entity tag: the object itself must show it.
    receiver.always(other_object.body("x".repeat(length)));
    assert!(all_done(&deliver(&mut build(&kind), &given).await));

    let put = &receiver.received()[0];
    assert!(put.header("content-md5").ends_with("=="), "{put:?}");
    assert_eq!(put.header("content-type"), "application/x-ndjson");
}
