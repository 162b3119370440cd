//! A disk that fills pauses polling, says so, and is over by itself when there is room.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use shopmirror::sandbox::Route;

use crate::support::{Place, Workspace, wait_until};

/// How to get a mount namespace of one's own here; `None` when the system does not allow it.
fn namespace() -> Option<Vec<&'static str>> {
    [vec!["unshare", "-m"], vec!["unshare", "-m", "-r"]].into_iter().find(|way| {
        let mount = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"];
        let tried = Command::new(way[0]).args(&way[1..]).args(mount).output();
        tried.is_ok_and(|output| output.status.success())
    })
}

#[tokio::test]
async fn a_full_disk_pauses_polling_says_so_and_loses_nothing() {
    let Some(mut wrapper) = namespace() else {
        eprintln!("SKIPPED: no mount namespace can be made here, so that no disk can be filled");
        return;
    };
    let workspace = Workspace::start().await;
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

    // Both ways to look at the daemon's disk from here.
    let pid = daemon.pid().to_string();
    let seen = format!("/proc/{pid}/root{disk}");
    let mut enter = vec!["nsenter", "-t", &pid, "-m"];
    if wrapper.contains(&"-r") {
        enter.extend(["-U", "--preserve-credentials"]);
    }
    let status = || async { place.run_by(&enter, &["status", "--json"]).await.json() };
    assert_eq!(status().await["health"], "ok");

    fill(Path::new(&seen));
    for route in Route::ALL {
        workspace.sandbox.burst(route, 90);
    }
    let told = || place.log().contains("polling pauses until the store can be written again");
    wait_until("it pauses", told).await;
    let said = status().await;
    assert_eq!(said["health"], "failing", "{said}");
    assert!(said["reasons"].to_string().contains("the store is full"), "{said}");
    let states = said["pollers"].as_array().unwrap();
    assert!(states.iter().all(|poller| poller["state"] == "disk_full"), "{said}");

    fs::remove_file(Path::new(&seen).join("filler")).unwrap();
    let created = || -> Vec<Value> { place.lines("audit.ndjson") };
    wait_until("everything is stored and delivered", || created().len() == 540).await;
    let log = workspace.sandbox.requests().log;
    let paused: Vec<f64> = log.windows(2).map(|two| two[1].elapsed_s - two[0].elapsed_s).collect();
    let longest = paused.iter().copied().fold(0.0, f64::max);
    assert!(longest > 5.0, "nothing is asked for while nothing can be stored: {longest}");
    assert_eq!(status().await["records"]["leads"], 190);
    let said = place.run_by(&enter, &["gaps", "--json"]).await.json();
    assert_eq!(said, serde_json::json!([]));
    assert!(place.log().contains("the store takes writes again"), "{}", place.log());
    daemon.stop().await;
}

/// Leaves no free block.
fn fill(disk: &Path) {
    use std::io::Write;
    let mut filler = fs::File::create(disk.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
}
