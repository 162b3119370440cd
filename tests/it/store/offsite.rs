//! Off-site backups: what is sent, what a cut line costs, and an empty machine that becomes the shop
//! again.

use std::fs::{self, File};
use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use shopmirror::net::s3::{S3Access, S3Client, Upload};

use super::backup::{filled, one, opened};
use crate::support::relay::{Line, Relay};
use crate::support::servers::moto::Moto;
use crate::support::{Place, Workspace, far_time_of_day, wait_until};

/// The public key of a pair whose secret is not needed.
const RECIPIENT: &str = "age17sw573u84tx7uwgu7gae05unfa08y8gs5qkgx3np29afzsw8wcnse7s68x";
const MIB: usize = 1024 * 1024;

fn section(moto: &Moto, bucket: &str, rest: &str) -> String {
    format!(
        "[reports]\nfolder = \"reports\"\n{rest}\n[backup.s3]\nendpoint = \"{}\"\nbucket = \
         \"{bucket}\"\nprefix = \"north/db\"\naccess_key_file = \"login\"\n",
        moto.url()
    )
}

/// A place whose backup is due at once and goes off-site.
async fn offsite(moto: &Moto, bucket: &str, encryption: &str) -> (Workspace, Place) {
    moto.bucket(bucket).await;
    let (workspace, place) = filled().await;
    place.write("login", "AKIDCANARY\nSECRETCANARY\n");
    place.write("phrase", "correct horse battery staple\n");
    fs::create_dir(place.path("reports")).unwrap();
    place.write("reports/late.sql", "select 1 as late");
    let at = far_time_of_day(TimeZone::system());
    let backup = format!("[backup]\nkeep = 2\nat = \"{at}\"");
    place.configure(&(section(moto, bucket, &backup) + encryption));
    let sql = "UPDATE _pollers SET first_polled_at = '2020-01-01T00:00:00.000000Z'";
    place.writer().execute_batch(sql).unwrap();
    (workspace, place)
}

async fn sent(place: &Place) -> Value {
    place
        .status_when("the backup is off-site", |status| {
            status["offsite"]["last_object"].is_string()
        })
        .await
}

/// `restore --from` of the newest backup, in a folder where nothing is.
async fn restored(moto: &Moto, bucket: &str, empty: &Place, key: &[&str]) -> crate::support::Ended {
    let from = format!("s3://{bucket}/north/db");
    let endpoint = moto.url();
    let mut args = vec!["--config", "shopmirror.toml", "restore", "--from", &from];
    args.extend(["--endpoint", &endpoint, "--login", "login"]);
    args.extend(key);
    empty.run(args).await
}

/// A folder as on a new machine: with the login of the bucket, and what opens the backup.
fn empty_place(workspace: &Workspace, age_key: &str) -> Place {
    let empty = workspace.place();
    for name in ["shopmirror.toml", "api-key"] {
        fs::remove_file(empty.path(name)).unwrap();
    }
    empty.write("login", "AKIDCANARY\nSECRETCANARY\n");
    empty.write("age-key", &format!("# created: 2026\n{age_key}\n"));
    empty.write("phrase", "correct horse battery staple\n");
    empty
}

/// A pair as `init` prints it: the line of the configuration, and the secret key.
async fn new_age_key() -> (String, String) {
    let folder = Workspace::start().await.place();
    let made = folder.run(["init", "--new-age-key"]).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let line = |start: &str| {
        let line = made.out.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {made:?}"))
            .to_owned()
            + "\n"
    };
    (line("age_recipient"), line("AGE-SECRET-KEY-1"))
}

fn shown(path: &Path) -> Vec<i64> {
    let database = opened(path);
    let count = |table: &str| one(&database, &format!("SELECT count(*) FROM {table}"));
    ["jobs", "customers", "leads", "payments", "changes"]
        .map(count)
        .to_vec()
}

#[tokio::test]
async fn an_empty_machine_is_the_shop_again_by_the_off_site_backup_and_its_key() {
    let Some(moto) = Moto::shared() else { return };
    let (encryption, age_key) = new_age_key().await;
    let (workspace, place) = offsite(moto, "burnt", &encryption).await;
    let checked = place.run(["check"]).await;
    assert!(checked.out.contains("ok    off-site"), "{checked:?}");
    let daemon = place.started().await;
    let status = sent(&place).await;
    assert_eq!(status["backup"]["same_disk_only"], false, "{status}");
    daemon.stop().await;
    let object = status["offsite"]["last_object"].as_str().unwrap();
    assert_eq!(moto.objects("burnt").await, [object]);
    let bytes = moto.object("burnt", object).await;
    assert!(bytes.starts_with(b"age-encryption.org/v1"));
    let backup = place.path(status["backup"]["last_file"].as_str().unwrap());
    let backup = backup.as_path();
    let left = fs::read_dir(place.path("backups")).unwrap().count();
    assert_eq!(left, 1, "the archive is not kept beside the backup");

    let empty = empty_place(&workspace, &age_key);
    let wrong = restored(moto, "burnt", &empty, &["--passphrase-file", "phrase"]).await;
    assert_eq!(wrong.code, Some(65), "{wrong:?}");
    assert!(wrong.err.contains("--age-key FILE"), "{wrong:?}");
    assert!(!empty.store().exists() && !empty.path("shopmirror.toml").exists());
    let back = restored(moto, "burnt", &empty, &["--age-key", "age-key"]).await;
    assert_eq!(back.code, Some(0), "{back:?}");
    assert_eq!(shown(&empty.store()), shown(backup));
    for name in ["shopmirror.toml", "reports/late.sql"] {
        let text = fs::read_to_string(empty.path(name)).unwrap();
        assert_eq!(text, fs::read_to_string(place.path(name)).unwrap());
    }
    assert!(back.out.contains("write these files again"), "{back:?}");
    assert!(back.out.contains("api-key\n"), "{back:?}");
    assert!(!back.out.contains("login"), "{back:?}");
    // Its key is written again: that is all.
    fs::copy(place.path("api-key"), empty.path("api-key")).unwrap();
    let daemon = empty.started().await;
    workspace.all_polled().await;
    daemon.stop().await;

    // What is there stays, and the newest backup can be looked at beside it.
    let before = fs::read(empty.path("shopmirror.toml")).unwrap();
    let looked = ["--age-key", "age-key", "--to", "look"];
    let beside = restored(moto, "burnt", &empty, &looked).await;
    assert_eq!(beside.code, Some(0), "{beside:?}");
    assert_eq!(shown(&empty.path("look/mirror.db")), shown(backup));
    assert_eq!(fs::read(empty.path("shopmirror.toml")).unwrap(), before);
    let listed = ["--config", "look/shopmirror.toml", "records", "leads"];
    let listed = empty.run(listed).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    fs::remove_file(empty.path("look/mirror.db")).unwrap();
    empty.write("look/shopmirror.toml", "# of the shop");
    let refused = restored(moto, "burnt", &empty, &looked).await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    let kept = fs::read_to_string(empty.path("look/shopmirror.toml")).unwrap();
    assert_eq!(kept, "# of the shop", "no configuration is replaced");
}

#[tokio::test]
async fn off_site_the_newest_stay_and_other_objects_are_not_touched() {
    let Some(moto) = Moto::shared() else { return };
    let encryption = "passphrase_file = \"phrase\"\n";
    let (workspace, place) = offsite(moto, "pruned", encryption).await;
    let others = [
        "north/db/mirror-20190101T033000Z.db",
        "north/db/mirror-20190101T033000Z.0badcafe.tar.gz.age.txt",
        "north/db2/mirror-20190101T033000Z.0badcafe.tar.gz.age",
        "south/mirror-20190101T033000Z.0badcafe.tar.gz.age",
    ];
    for other in others {
        moto.put("pruned", other, "other").await;
    }
    // Three of one store, of which the newest is the last that is left of it.
    for day in 1..=3 {
        let name = format!("north/db/mirror-2019010{day}T033000Z.0badcafe.tar.gz.age");
        moto.put("pruned", &name, "old").await;
    }
    let daemon = place.started().await;
    let object = sent(&place).await["offsite"]["last_object"].clone();
    let mut left: Vec<String> = others.map(str::to_owned).to_vec();
    left.push("north/db/mirror-20190103T033000Z.0badcafe.tar.gz.age".to_owned());
    left.push(object.as_str().unwrap().to_owned());
    left.sort();
    assert_eq!(moto.objects("pruned").await, left);
    daemon.stop().await;
    let empty = empty_place(&workspace, "");
    let back = restored(moto, "pruned", &empty, &["--passphrase-file", "phrase"]).await;
    assert_eq!(back.code, Some(0), "{back:?}");
}

#[tokio::test]
async fn a_bucket_that_fails_is_a_reason_of_health_and_the_backup_in_the_folder_stays() {
    let Some(moto) = Moto::shared() else { return };
    let encryption = format!("age_recipient = \"{RECIPIENT}\"\n");
    let (_workspace, place) = offsite(moto, "there", &encryption).await;
    let text = fs::read_to_string(place.path("shopmirror.toml")).unwrap();
    place.write("shopmirror.toml", &text.replace("\"there\"", "\"gone\""));
    let daemon = place.started().await;
    let status = place
        .status_when("the failure is told", |status| {
            status["offsite"]["last_error"].is_string()
        })
        .await;
    let reasons = status["reasons"].to_string();
    assert!(
        reasons.contains("the last off-site backup failed"),
        "{reasons}"
    );
    assert!(
        reasons.contains("the bucket gone is not there"),
        "{reasons}"
    );
    assert!(status["backup"]["last_file"].is_string());
    daemon.stop().await;
}

/// A client of a bucket behind the relay, and a file of twelve MiB.
async fn behind(moto: &Moto, bucket: &str, folder: &Path) -> (Relay, S3Client, Vec<u8>) {
    moto.bucket(bucket).await;
    let relay = Relay::to(moto.port()).await;
    let endpoint = format!("http://127.0.0.1:{}", relay.port())
        .parse()
        .unwrap();
    let client = S3Client::build(&S3Access {
        endpoint: Some(&endpoint),
        region: "us-east-1",
        bucket,
        key: ("AKIDCANARY", "SECRETCANARY"),
        ca_file: None,
        proxy: None,
    });
    let mut bytes = Vec::with_capacity(12 * MIB);
    while bytes.len() < 12 * MIB {
        bytes.extend(
            (bytes.len() as u64)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .to_le_bytes(),
        );
    }
    fs::write(folder.join("archive"), &bytes).unwrap();
    (relay, client.unwrap(), bytes)
}

#[tokio::test]
async fn an_upload_that_was_cut_sends_only_what_is_missing_and_counts_when_it_is_whole() {
    let Some(moto) = Moto::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (relay, client, bytes) = behind(moto, "cut", dir.path()).await;
    let file = || File::open(dir.path().join("archive")).unwrap();
    let length = bytes.len() as u64;
    let upload = Upload::new(&client, "object", file(), length);
    let id = upload.begin().await.unwrap();
    let first = upload.send(&id, 1).await.unwrap();
    // The second of three parts is cut, and then the process ends.
    relay.cut_after(2 * MIB as i64);
    tokio::select! {
        ended = upload.send(&id, 2) => panic!("{ended:?}"),
        () = wait_until("the line is cut", || relay.is_cut()) => {}
    }
    relay.set(Line::Open);
    assert!(moto.objects("cut").await.is_empty(), "a part is no object");
    // Another process, whose line is cut as well, and comes back.
    let upload = Upload::new(&client, "object", file(), length);
    relay.cut_after(MIB as i64);
    let (second, ()) = tokio::join!(upload.send(&id, 2), async {
        wait_until("the line is cut again", || relay.is_cut()).await;
        relay.set(Line::Open);
    });
    let third = upload.send(&id, 3).await.unwrap();
    let tags = [first, second.unwrap(), third];
    upload.finish(&id, &tags).await.unwrap();
    assert_eq!(moto.object("cut", "object").await, bytes);

    // An object of that name that is not what was sent does not count.
    let id = upload.begin().await.unwrap();
    moto.put("cut", "object", &"x".repeat(12 * MIB)).await;
    let refused = upload.finish(&id, &tags).await.unwrap_err();
    assert!(refused.ends_upload(), "{refused}");
}

#[tokio::test]
async fn an_object_that_was_not_checked_is_sent_again_although_the_bucket_has_it() {
    let Some(moto) = Moto::shared() else { return };
    let encryption = format!("age_recipient = \"{RECIPIENT}\"\n");
    let (_workspace, place) = offsite(moto, "unchecked", &encryption).await;
    let daemon = place.started().await;
    let status = sent(&place).await;
    daemon.stop().await;
    let object = status["offsite"]["last_object"].as_str().unwrap();
    let whole = moto.object("unchecked", object).await;
    // What a process leaves that was killed between the last part and the check.
    let note = json!({
        "object": object, "bytes": whole.len(), "upload": null, "sent": [], "recipient": RECIPIENT,
    });
    fs::write(place.path("backups/mirror-offsite.json"), note.to_string()).unwrap();
    fs::write(place.path("backups/mirror-offsite.age"), &whole).unwrap();
    moto.put("unchecked", object, "damaged").await;
    let daemon = place.started().await;
    place
        .status_when("the archive is sent", |_| {
            !place.path("backups/mirror-offsite.json").exists()
        })
        .await;
    daemon.stop().await;
    assert!(moto.object("unchecked", object).await == whole);
}
