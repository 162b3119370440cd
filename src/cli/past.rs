//! `--at`: reads the mirror as it stood at an earlier time.

use jiff::Timestamp;

use super::output;
use crate::clock::stamp;
use crate::record::Route;
use crate::report::reach_note;
use crate::store::Reader;

/// Lets the reader see a route as it stood at a time, and says what the log cannot know of it.
pub(super) fn travel(reader: &Reader, route: Route, at: Timestamp) -> anyhow::Result<()> {
    let at = stamp(at);
    reader.travel_to(&at, &[route])?;
    if let Some(note) = reach_note(&reader.log_reach()?, &at) {
        output::aside(&format!("note: {note}"));
    }
    Ok(())
}
