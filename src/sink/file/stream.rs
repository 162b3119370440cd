//! The last lines of a text that can only be read from its beginning, as that of a compressed file.
//!
//! Of each line only the beginning is kept, so that a line of any length needs little memory.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};

use super::BATCH;
use super::layout::Layout;

/// How much of a line is kept; the event id is at its beginning.
const HEAD: usize = 1024;

/// The event ids of up to [`BATCH`] whole lines at the end, the oldest first; `None` if the text has
/// more than `most` bytes.
pub(super) fn last_ids(text: impl Read, most: u64) -> io::Result<Option<Vec<String>>> {
    let mut text = BufReader::new(text);
    let mut ids = VecDeque::with_capacity(BATCH);
    let mut line = Line::default();
    let mut read = 0;
    loop {
        let piece = text.fill_buf()?;
        if piece.is_empty() {
            return Ok(Some(ids.into()));
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(piece.len(), |end| end + 1);
        line.push(&piece[..length]);
        if end.is_some()
            && let Some(id) = std::mem::take(&mut line).event_id()
        {
            if ids.len() == BATCH {
                ids.pop_front();
            }
            ids.push_back(id);
        }
        text.consume(length);
        read += length as u64;
        if read > most {
            return Ok(None);
        }
    }
}

/// What is kept of a line.
#[derive(Default)]
struct Line {
    head: Vec<u8>,
    /// After a power failure, zeros may be in the place of its end.
    has_zeros: bool,
}

impl Line {
    fn push(&mut self, piece: &[u8]) {
        self.has_zeros |= piece.contains(&0);
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn event_id(&self) -> Option<String> {
        if self.has_zeros { None } else { Layout::event_id(&self.head) }
    }
}
