//! How the lines of a file look: JSON objects, or CSV below a header.
//!
//! Whatever the layout, the event id can be read back from the beginning of a line. That is how a
//! change that is in the file already is found after a crash.

use crate::record::Change;
use crate::shape::{Columns, Format};

/// The layout of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// One JSON object per line.
    Json(Format),
    /// A header, then one row per line.
    Csv(Columns),
}

/// How the formats of JSON lines begin: CloudEvents, and the others.
const JSON_OPENINGS: [&[u8]; 2] = [b"{\"id\":\"", b"{\"event_id\":\""];

/// One line to be written, with its end.
pub(super) struct Line {
    pub(super) event_id: String,
    pub(super) text: String,
}

impl Layout {
    pub(super) fn line(&self, change: &Change) -> Line {
        let mut text = match self {
            // A template, the only shape that can fail, is no shape of a file.
            Self::Json(format) => format.line(change).unwrap_or_else(|_| change.data_json()),
            Self::Csv(columns) => columns.row(change),
        };
        text.push('\n');
        Line { event_id: change.event_id.clone(), text }
    }

    /// What every file begins with; empty if it begins with its first line.
    pub(super) fn header(&self) -> String {
        match self {
            Self::Json(_) => String::new(),
            Self::Csv(columns) => columns.header() + "\n",
        }
    }

    /// How a line of ours can begin, also one written before `format` was changed; empty if that
    /// does not tell.
    pub(super) fn openings(&self) -> &'static [&'static [u8]] {
        match self {
            Self::Json(_) => &JSON_OPENINGS,
            Self::Csv(_) => &[],
        }
    }

    /// Whether a whole line can be one of ours, or of another program that writes such lines.
    pub(super) fn fits(&self, line: &[u8]) -> bool {
        match self {
            Self::Json(_) => line.first() == Some(&b'{'),
            Self::Csv(_) => true,
        }
    }

    /// The event id of a whole line in any layout. After a power failure, zeros may be inside a line.
    pub(super) fn event_id(line: &[u8]) -> Option<String> {
        if line.contains(&0) {
            return None;
        }
        let json = JSON_OPENINGS.iter().find_map(|opening| line.strip_prefix(*opening));
        let (rest, end) = json.map_or((line, b','), |rest| (rest, b'"'));
        let end = rest.iter().position(|byte| *byte == end)?;
        String::from_utf8(rest[..end].to_vec()).ok()
    }
}
