//! `status --watch` on a terminal: it is live, fits, and leaves the terminal as it was.

use std::process::Command;

use sandbox::Route;
use serde_json::json;

use crate::commands::init::terminal::Terminal;
use crate::support::{Place, Workspace};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

fn watched(place: &Place) -> Terminal {
    let config = place.path("config.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_shopmirror"));
    command.args(["status", "--watch", "--config", config.to_str().unwrap()]);
    command.env("NO_COLOR", "1").current_dir(place.path(""));
    Terminal::sized(&command, Some((60, 24)))
}

/// The longest line of everything that was drawn.
fn widest(shown: &str) -> usize {
    let drawn = shown.split_once(ENTER).unwrap().1;
    let plain = ["\x1b[?25l", "\x1b[K", "\x1b[J", "\x1b[?25h", "\x1b[?1049l"]
        .iter()
        .fold(drawn.to_owned(), |text, escape| text.replace(escape, ""));
    let lines = plain.split("\x1b[H").flat_map(|picture| picture.split("\r\n"));
    lines.map(|line| line.chars().count()).max().unwrap_or_default()
}

#[tokio::test]
async fn the_watched_status_is_live_fits_sixty_columns_and_leaves_the_terminal_as_it_was() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let daemon = place.started().await;
    workspace.all_polled().await;
    for end in ["q", "\x03"] {
        let mut terminal = watched(&place);
        terminal.until(ENTER).await;
        terminal.until("health ").await;
        terminal.until("job_status_changes").await;
        terminal.until("audit").await;
        assert!(!terminal.shows_typing());
        let status = place.status().await;
        let next = format!("{} changes in the log", status["last_seq"].as_i64().unwrap() + 1);
        workspace.add(Route::Leads, json!({"name": "Ann"}));
        terminal.until(&next).await;
        terminal.press("x");
        terminal.press(end);
        assert_eq!(terminal.end().await, Some(0), "{}", terminal.shown());
        terminal.until(LEAVE).await;
        assert!(terminal.shows_typing(), "the terminal shows again what is typed");
        let shown = terminal.shown();
        assert!(shown.ends_with(LEAVE), "{shown:?}");
        assert!(widest(&shown) <= 60, "{shown}");
    }
    daemon.stop().await;
    let refused = place.run(["status", "--watch"]).await;
    assert!(refused.code == Some(64) && refused.err.contains("status --json"), "{refused:?}");
}
