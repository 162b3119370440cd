//! Every schema that was released: `release/cut` keeps a database of each version in
//! `tests/fixtures/released`, and this program must go on with it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use flate2::read::GzDecoder;

use super::backup::names;
use crate::support::{Place, Workspace};

/// Where the databases are.
const RELEASED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/released");

/// The versions that the changelog has as released.
fn released_versions() -> Vec<String> {
    let changelog = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/CHANGELOG.md"));
    let mut versions = Vec::new();
    for line in changelog.unwrap().lines() {
        let heading = line
            .strip_prefix("## [")
            .and_then(|rest| rest.split_once(']'));
        if let Some((version, _)) = heading
            && version != "Unreleased"
        {
            versions.push(version.to_owned());
        }
    }
    versions.sort();
    versions
}

#[tokio::test]
async fn the_database_of_each_released_version_is_restored_checked_and_read() {
    let mut kept = names(Path::new(RELEASED));
    kept.retain(|name| name.ends_with(".db.gz"));
    let versions: Vec<&str> = kept
        .iter()
        .map(|name| name.trim_end_matches(".db.gz"))
        .collect();
    assert_eq!(
        versions,
        released_versions(),
        "release/cut keeps one of each"
    );
    for version in versions {
        let workspace = Workspace::start().await;
        let place = workspace.place();
        place.configure("");
        unpack(version, &place);
        let restored = place.run(["restore", "old.db"]).await;
        assert_eq!(restored.code, Some(0), "{version}: {restored:?}");
        for command in [
            &["verify"][..],
            &["verify", "--rebuild"],
            &["report", "open-repairs"],
            &["report", "payments"],
            &["records", "jobs"],
            &["log"],
        ] {
            let run = place.run(command).await;
            assert_eq!(run.code, Some(0), "{version}: {command:?} {run:?}");
        }
        let jobs: i64 = place.number("SELECT count(*) FROM jobs");
        assert!(jobs > 0, "{version} has jobs");
    }
}

fn unpack(version: &str, place: &Place) {
    let packed = File::open(Path::new(RELEASED).join(format!("{version}.db.gz"))).unwrap();
    let mut file = File::create(place.path("old.db")).unwrap();
    io::copy(&mut GzDecoder::new(packed), &mut file).unwrap();
}
