//! S3: the listing is the log, repeats overwrite themselves, a bucket that is not there.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use shopmirror::config::SinkKind;
use shopmirror::record::Change;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{all_done, build, change, changes, configured, deliver, fault_says, ids};
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
    lines.iter().map(|line| line["event_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_probe_tells_a_bucket_from_a_page_that_answers_everything() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("probed").await;
    assert!(build(&sink_kind(&moto.url(), "probed")).probe().await.is_ok());
    let page = Receiver::start().await;
    page.always(Answer::status(200).body("<html>"));
    let said = build(&sink_kind(&page.url(""), "probed")).probe().await.unwrap_err();
    assert!(said.contains("no S3 service: correct `endpoint`"), "{said}");
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
    // A replay of one change keeps the other lines of its object.
    assert!(all_done(&deliver(&mut sink, &given[..1]).await));
    let names = ["00000000000000000001", "00000000000000000081", "00000000000000000141"];
    assert_eq!(
        moto.objects("whole").await,
        names.map(|name| format!("shop/north/2026/01/02/{name}.ndjson"))
    );
    assert_eq!(stored(moto, "whole").await, ids(&given));
    let first: serde_json::Value = serde_json::from_str(&given[0].data_json()).unwrap();
    assert_eq!(moto.lines("whole").await[0], first);

    // This was stored, and its answer lost: the engine tries one change first, then the others.
    moto.bucket("seemed").await;
    let kind = sink_kind(&moto.url(), "seemed");
    assert!(all_done(&deliver(&mut build(&kind), &given[..15]).await));
    let mut sink = build(&kind);
    for part in [&given[..1], &given[1..20]] {
        assert!(all_done(&deliver(&mut sink, part).await));
    }
    assert_eq!(stored(moto, "seemed").await, ids(&given[..20]));
    // A restored store uses the numbers after its backup again: what it has lost stays.
    let other = Change { event_id: "other".to_owned(), ..change(1) };
    assert!(all_done(&deliver(&mut build(&kind), &[other]).await));
    assert_eq!(stored(moto, "seemed").await.len(), 21);
}

#[tokio::test]
async fn an_object_of_another_program_that_is_too_large_is_not_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = async {
        let (mut client, _) = listener.accept().await.unwrap();
        let _ = client.read(&mut [0; 4096]).await;
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n";
        client.write_all(head.as_bytes()).await.unwrap();
        client
    };
    let mut sink = build(&sink_kind(&endpoint, "foreign"));
    let given = change(1);
    tokio::join!(server, fault_says(&mut sink, &given, "another program stored it"));
}
