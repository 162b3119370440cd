//! A store that another program altered or a disk damaged: the commands say so in words, and
//! `verify --rebuild` makes it again from all that can be read.

use std::fs;

use rusqlite::Connection;
use sandbox::Route;

use crate::support::{Place, Workspace};

const PAGE: usize = 4096;
const CHANGES: &str = "SELECT count(*) FROM changes";

/// A place with more records than a page of the file holds, its log emptied.
async fn filled() -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", "start = \"beginning\""));
    for route in Route::ALL {
        workspace.sandbox.burst(route, 99);
    }
    assert_eq!(place.run(["once"]).await.code, Some(0));
    (workspace, place)
}

/// The mirror, without the order of its columns.
fn mirror(place: &Place) -> Vec<String> {
    let connection = place.open().unwrap();
    let mut rows = Vec::new();
    for route in Route::ALL {
        let table = route.segment().replace('-', "_");
        let mut names: Vec<String> = connection
            .prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        names.sort();
        let list = names.join("\", \"");
        let sql = format!("SELECT \"{list}\" FROM {table} ORDER BY id");
        for row in place.rows(&sql) {
            rows.push(format!("{table} {row}"));
        }
    }
    rows
}

#[tokio::test]
async fn a_table_that_another_program_altered_is_named_and_made_again() {
    let (_workspace, place) = filled().await;
    let lived = mirror(&place);
    let alterations = [
        "ALTER TABLE leads RENAME COLUMN status TO state",
        "PRAGMA writable_schema = ON; DROP TABLE payments",
        "DROP TABLE _job_states",
        "ALTER TABLE jobs RENAME TO jobs_of_2026",
    ];
    for sql in alterations {
        place.writer().execute_batch(sql).unwrap();
        for command in ["once", "verify"] {
            let ended = place.run([command]).await;
            assert_eq!(ended.code, Some(65), "{sql}: {command}: {ended:?}");
            assert!(
                ended.err.contains("verify --rebuild"),
                "{sql}: {command}: {ended:?}"
            );
            assert!(!ended.err.contains("SELECT"), "{sql}: {command}: {ended:?}");
        }
        let rebuilt = place.run(["verify", "--rebuild"]).await;
        assert_eq!(rebuilt.code, Some(0), "{sql}: {rebuilt:?}");
        assert!(rebuilt.err.contains("is kept as"), "{sql}: {rebuilt:?}");
        assert!(!rebuilt.err.contains("is lost"), "{sql}: {rebuilt:?}");
        assert!(mirror(&place) == lived, "{sql}");
        let once = place.run(["once"]).await;
        assert_eq!(once.code, Some(0), "{sql}: {once:?}");
    }
}

/// The pages of a table below its root, which must have more than one.
fn pages(file: &[u8], root: usize) -> Vec<usize> {
    let page = &file[(root - 1) * PAGE..root * PAGE];
    assert_eq!(page[0], 5, "the table has one page only");
    let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
    let mut children = Vec::new();
    for cell in 0..cells {
        let at = 12 + 2 * cell;
        let at = usize::from(u16::from_be_bytes([page[at], page[at + 1]]));
        let child = u32::from_be_bytes(page[at..at + 4].try_into().unwrap());
        children.push(usize::try_from(child).unwrap());
    }
    children
}

#[tokio::test]
async fn what_a_damaged_page_held_is_counted_and_all_else_is_kept() {
    let (workspace, place) = filled().await;
    let changes = place.number(CHANGES);
    let sound = fs::read(place.store()).unwrap();
    let root = |name: &str| {
        let connection = Connection::open(place.store()).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?";
        let root: u32 = connection.query_row(sql, [name], |row| row.get(0)).unwrap();
        usize::try_from(root).unwrap()
    };
    for (table, may_lose) in [
        ("leads", false),
        ("changes_version", false),
        ("changes", true),
    ] {
        let root = root(table);
        let broken = if may_lose {
            pages(&sound, root)[1]
        } else {
            root
        };
        let mut file = sound.clone();
        file[(broken - 1) * PAGE..broken * PAGE].fill(0x5a);
        fs::write(place.store(), file).unwrap();
        for side in ["mirror.db-wal", "mirror.db-shm"] {
            let _ = fs::remove_file(place.path(side));
        }
        let verified = place.run(["verify"]).await;
        assert_eq!(verified.code, Some(65), "{table}: {verified:?}");
        let rebuilt = place.run(["verify", "--rebuild"]).await;
        assert_eq!(rebuilt.code, Some(0), "{table}: {rebuilt:?}");
        let lost = changes - place.number(CHANGES);
        assert_eq!(lost > 0, may_lose, "{table}: {lost}");
        assert!(lost < changes / 2, "{table}: {lost} of {changes}");
        let said = format!("up to {lost} rows of changes");
        assert_eq!(
            rebuilt.err.contains(&said),
            may_lose,
            "{table}: {rebuilt:?}"
        );
        // What is shown is read again.
        let once = place.run(["once"]).await;
        assert_eq!(once.code, Some(0), "{table}: {once:?}");
        for route in Route::ALL {
            let table = route.segment().replace('-', "_");
            let shown = workspace.sandbox.truth(route).len().min(100);
            let mirrored = place.number(&format!("SELECT count(*) FROM {table}"));
            assert!(
                mirrored >= i64::try_from(shown).unwrap(),
                "{table}: {mirrored}"
            );
        }
        let verified = place.run(["verify"]).await;
        assert_eq!(verified.code, Some(0), "{table}: {verified:?}");
    }
}
