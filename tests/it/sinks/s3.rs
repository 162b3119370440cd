//! S3: the listing is the log, repeats overwrite themselves, a bucket that is not there.

use shopmirror::config::{Base, Config, SinkKind};
use shopmirror::record::Change;

use super::{all_done, build, change, changes, deliver, ids, is_fault, reason};
use crate::support::servers::moto::Moto;

fn sink_kind(endpoint: &str, bucket: &str) -> SinkKind {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("access"), "AKIDCANARY\nSECRETCANARY\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(dir.path().join("access"), mode).unwrap();
    let text = format!(
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.archive]\ntype = \"s3\"\n\
         endpoint = \"{endpoint}\"\nbucket = \"{bucket}\"\nworkspace = \"north\"\n\
         access_key_file = \"access\"\n"
    );
    let base = Base { env_key: Some("key".into()), dir: dir.path().to_owned(), ..Base::default() };
    let config = Config::parse(&text, "config.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    config.sinks["archive"].kind.clone()
}

#[tokio::test]
async fn the_listing_is_the_log_and_a_repeat_overwrites_itself() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("whole").await;
    let kind = sink_kind(&moto.url(), "whole");
    let given = changes(1..=200);
    assert!(all_done(&deliver(&mut build(&kind), &given[..50]).await));
    // As after a kill: more has come in between, or the batch is smaller than it was.
    assert!(all_done(&deliver(&mut build(&kind), &given[..80]).await));
    assert!(all_done(&deliver(&mut build(&kind), &given[..30]).await));
    let mut sink = build(&kind);
    for part in given[80..].chunks(60) {
        assert!(all_done(&deliver(&mut sink, part).await));
    }
    let names = ["00000000000000000001", "00000000000000000081", "00000000000000000141"];
    assert_eq!(
        moto.objects("whole").await,
        names.map(|name| format!("shop/north/2026/01/02/{name}.ndjson"))
    );
    let lines = moto.lines("whole").await;
    let found: Vec<&str> = lines.iter().map(|line| line["event_id"].as_str().unwrap()).collect();
    assert_eq!(found, ids(&given));
    assert_eq!(lines[0], serde_json::from_str::<serde_json::Value>(&given[0].data_json()).unwrap());
}

#[tokio::test]
async fn a_replay_of_one_change_keeps_the_other_lines_of_its_object() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("replayed").await;
    let mut sink = build(&sink_kind(&moto.url(), "replayed"));
    let broken = Change { body: "{\"id\":3,\n\"name\":\"two\\nlines\"}".into(), ..change(3) };
    assert!(all_done(&deliver(&mut sink, &[changes(1..=2), vec![broken]].concat()).await));
    assert!(all_done(&deliver(&mut sink, &changes(1..=1)).await));
    assert_eq!(moto.lines("replayed").await.len(), 3);
}

#[tokio::test]
async fn a_bucket_that_is_not_there_and_a_service_that_is_down_are_named() {
    let Some(moto) = Moto::shared() else { return };
    for (kind, words) in [
        (sink_kind(&moto.url(), "absent"), "the bucket absent is not there: create it"),
        (sink_kind("http://127.0.0.1:9", "absent"), "check `endpoint`"),
    ] {
        let mut sink = build(&kind);
        let verdicts = deliver(&mut sink, &changes(1..=2)).await;
        assert!(verdicts.iter().all(is_fault), "{verdicts:?}");
        assert!(reason(&verdicts[0]).contains(words), "{verdicts:?}");
        let said = sink.probe().await.unwrap_err();
        assert!(said.contains(words), "{said}");
        assert!(!format!("{verdicts:?} {said} {kind:?}").contains("SECRETCANARY"));
    }
    moto.bucket("present").await;
    assert!(build(&sink_kind(&moto.url(), "present")).probe().await.is_ok());
}
