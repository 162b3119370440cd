//! S3: the listing is the log, repeats overwrite themselves, a bucket that is not there.

use std::time::Instant;

use sandbox::Route;
use serde_json::json;
use shopmirror::config::{Base, Config, SinkKind};
use shopmirror::record::Change;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{all_done, build, change, changes, deliver, ids, is_fault, reason};
use crate::support::servers::moto::Moto;
use crate::support::{ClosedPort, LIMIT_S, Workspace, look_again};

/// How often two records are stored until both are in one object.
const TRIES: usize = 20;

/// As `wait_until`, for a condition that asks the service.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed().as_secs() < LIMIT_S, "waited in vain until {what}");
        look_again(begun, 20).await;
    }
}

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
async fn what_an_attempt_stored_that_seemed_to_fail_is_in_one_object_only() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("seemed").await;
    let kind = sink_kind(&moto.url(), "seemed");
    let given = changes(1..=20);
    // This was stored, and its answer lost: the engine tries one change first, then the others.
    assert!(all_done(&deliver(&mut build(&kind), &given[..15]).await));
    let mut sink = build(&kind);
    for part in [&given[..1], &given[1..]] {
        assert!(all_done(&deliver(&mut sink, part).await));
    }
    let lines = moto.lines("seemed").await;
    let found: Vec<&str> = lines.iter().map(|line| line["event_id"].as_str().unwrap()).collect();
    assert_eq!(found, ids(&given));
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
async fn changes_that_a_restored_store_has_lost_stay_in_the_object_of_the_same_name() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("restored").await;
    let kind = sink_kind(&moto.url(), "restored");
    let before = changes(1..=5);
    assert!(all_done(&deliver(&mut build(&kind), &before).await));
    // The numbers after the backup are used again for other changes.
    let other = |change: &Change| {
        let event_id = change.event_id.replace("evt", "other");
        Change { event_id, ..change.clone() }
    };
    let after: Vec<Change> = before[..3].iter().map(other).collect();
    assert!(all_done(&deliver(&mut build(&kind), &after).await));
    let lines = moto.lines("restored").await;
    let mut found: Vec<&str> =
        lines.iter().map(|line| line["event_id"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ids(&[before, after].concat()));
}

#[tokio::test]
async fn a_bucket_that_is_not_there_and_a_service_that_is_down_are_named() {
    let Some(moto) = Moto::shared() else { return };
    let closed = ClosedPort::new();
    let down = format!("http://{}", closed.address);
    for (kind, words) in [
        (sink_kind(&moto.url(), "absent"), "the bucket absent is not there: create it"),
        (sink_kind(&down, "absent"), "check `endpoint`"),
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

#[tokio::test]
async fn an_object_of_another_program_that_is_too_large_is_not_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    // It promises 100 GB, and sends as much as is read.
    let server = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let _ = client.read(&mut request).await;
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\nETag: \"x\"\r\n\
             Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n";
        let _ = client.write_all(head.as_bytes()).await;
        let mut sent = 0_u64;
        while let Ok(length) = client.write(&[b'x'; 65_536]).await {
            sent += length as u64;
        }
        sent
    });
    let mut sink = build(&sink_kind(&endpoint, "foreign"));
    let verdicts = deliver(&mut sink, &changes(1..=1)).await;
    let said = reason(&verdicts[0]);
    assert!(is_fault(&verdicts[0]) && said.contains("another program stored it"), "{said}");
    drop(sink);
    assert!(server.await.unwrap() < 128 * 1024 * 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_stores_what_comes_within_a_while_as_one_object_and_a_full_one_at_once() {
    let Some(moto) = Moto::shared() else { return };
    moto.bucket("lingering").await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("access", "AKIDCANARY\nSECRETCANARY\n");
    let section = |every: &str, start: &str| {
        format!(
            "[sinks.archive]\ntype = \"s3\"\nendpoint = \"{}\"\nbucket = \"lingering\"\nworkspace = \"north\"\n\
             access_key_file = \"access\"\nroutes = [\"leads\"]\nevery = \"{every}\"\nstart = \"{start}\"\n",
            moto.url()
        )
    };
    place.configure(&section("4s", "now"));
    let daemon = place.started().await;
    workspace.polled(Route::Leads).await;
    // On a busy machine the second may be stored only when the first has gone, so this is begun again. A
    // sink that does not wait makes two objects each time.
    let mut begun = 0;
    let (lines, objects) = loop {
        let objects = moto.objects("lingering").await.len();
        let lines = moto.lines("lingering").await.len() + 2;
        for name in ["Ada", "Eva"] {
            workspace.add(Route::Leads, json!({ "name": name }));
            workspace.polled(Route::Leads).await;
        }
        until("both are stored", async || moto.lines("lingering").await.len() == lines).await;
        let now = moto.objects("lingering").await.len();
        if now == objects + 1 {
            break (lines, now);
        }
        begun += 1;
        assert!(begun < TRIES, "both are never in one object");
    };
    // An hour is far away: only an object that is full is stored.
    place.configure(&section("1h", "now"));
    daemon.signal(rustix::process::Signal::HUP);
    for _ in 0..3 {
        for _ in 0..20 {
            workspace.add(Route::Leads, json!({ "note": "n".repeat(30_000) }));
        }
        workspace.polled(Route::Leads).await;
    }
    let is_full = async || moto.objects("lingering").await.len() > objects;
    until("a full object is stored", is_full).await;
    let stored = moto.lines("lingering").await.len() - lines;
    assert!((18..60).contains(&stored), "{stored} of 60: the rest waits");
    daemon.stop().await;
}
