//! A disk that fills pauses polling, says so, and is over by itself when there is room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::Value;

use crate::support::{Daemon, Place, Workspace, wait_until};

/// How to get a mount namespace of one's own here; `None` when the system does not allow it.
fn namespace() -> Option<Vec<&'static str>> {
    [vec!["unshare", "-m"], vec!["unshare", "-m", "-r"]]
        .into_iter()
        .find(|way| {
            let mount = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"];
            let tried = Command::new(way[0]).args(&way[1..]).args(mount).output();
            tried.is_ok_and(|output| output.status.success())
        })
}

/// A daemon on a small disk of its own, and how to look at that disk from here.
struct Small {
    workspace: Workspace,
    place: Place,
    daemon: Daemon,
    /// The disk, by a path of this process.
    seen: PathBuf,
    /// What puts a command beside the daemon.
    enter: Vec<String>,
}

impl Small {
    /// `None` when no disk can be made here.
    async fn start() -> Option<Self> {
        let Some(mut wrapper) = namespace() else {
            eprintln!(
                "SKIPPED: no mount namespace can be made here, so that no disk can be filled"
            );
            return None;
        };
        let workspace = Workspace::start_full().await;
        let place = workspace.place();
        let sink = Place::file_sink("audit", "");
        let disk = place.path("disk");
        fs::create_dir(&disk).unwrap();
        place.configure(&format!("[store]\npath = \"disk/mirror.db\"\n{sink}"));
        let disk = disk.to_str().unwrap();
        let mount = "mount -t tmpfs -o size=6m tmpfs \"$0\" && exec \"$@\"";
        wrapper.extend(["sh", "-c", mount, disk]);
        let daemon = place.daemon_by(&wrapper);
        workspace.all_polled().await;
        let pid = daemon.pid().to_string();
        let seen = PathBuf::from(format!("/proc/{pid}/root{disk}"));
        let mut enter = ["nsenter", "-t", &pid, "-m"].map(str::to_owned).to_vec();
        if wrapper.contains(&"-r") {
            enter.extend(["-U", "--preserve-credentials"].map(str::to_owned));
        }
        Some(Self {
            workspace,
            place,
            daemon,
            seen,
            enter,
        })
    }

    async fn json(&self, args: &[&str]) -> Value {
        let enter: Vec<&str> = self.enter.iter().map(String::as_str).collect();
        self.place.run_by(&enter, args).await.json()
    }

    /// Fills the disk, and waits until the daemon has found out.
    async fn fill(&self) {
        fill(&self.seen);
        for route in Route::ALL {
            self.workspace.sandbox.burst(route, 90);
        }
        let told = "polling is paused until the store can be written again";
        wait_until("it pauses", || self.place.log().contains(told)).await;
    }
}

#[tokio::test]
async fn a_full_disk_pauses_polling_says_so_reloads_and_loses_nothing() {
    let Some(small) = Small::start().await else {
        return;
    };
    let status = || small.json(&["status", "--json"]);
    assert_eq!(status().await["health"], "ok");

    small.fill().await;
    let said = status().await;
    assert_eq!(said["health"], "failing", "{said}");
    assert!(
        said["reasons"].to_string().contains("the disk is full"),
        "{said}"
    );
    let states = said["pollers"].as_array().unwrap();
    assert!(
        states.iter().all(|poller| poller["state"] == "disk_full"),
        "{said}"
    );
    small.daemon.signal(Signal::HUP);
    let running = || small.place.log().matches(" running ").count() == 2;
    wait_until("it runs on", running).await;
    assert_eq!(status().await["running"], true);

    fs::remove_file(small.seen.join("filler")).unwrap();
    let created = || -> Vec<Value> { small.place.lines("audit.ndjson") };
    wait_until("everything is stored and delivered", || {
        created().len() == 540
    })
    .await;
    assert_eq!(status().await["records"]["leads"], 190);
    assert_eq!(small.json(&["gaps", "--json"]).await, serde_json::json!([]));
    small.daemon.stop().await;
}

#[tokio::test]
async fn a_full_disk_does_not_hold_up_a_stop() {
    let Some(mut small) = Small::start().await else {
        return;
    };
    small.fill().await;
    small.daemon.signal(Signal::TERM);
    small.daemon.wait().await;
}

/// Leaves no free block.
fn fill(disk: &Path) {
    use std::io::Write;
    let mut filler = fs::File::create(disk.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
}
