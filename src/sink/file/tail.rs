//! The end of a file: where its last whole line ends, and which changes the lines before hold.
//!
//! It only reads, and needs little memory whatever the file holds. Text after the last line break is
//! taken for an unfinished line of ours only if it begins like one.
//!
//! After a power failure, zeros can be in the place of bytes that never reached the disk. No layout
//! writes a zero, so a line that holds one is damaged.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::BATCH;
use super::layout::Layout;

/// How much of the end of the file is read at most.
const REACH: u64 = 64 * 1024 * 1024;

const BLOCK: usize = 64 * 1024;

/// Disks write whole sectors, of this many bytes or a multiple of it.
const SECTOR: u64 = 512;

/// Why lines cannot be appended after the end of a file.
#[derive(Debug)]
pub(super) enum TailError {
    /// Another program wrote it.
    Foreign,
    Io(io::Error),
}

impl From<io::Error> for TailError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Where the last whole line ends, in bytes; what follows is unfinished or damaged.
    pub(super) length: u64,
    /// The event ids of up to [`BATCH`] lines before that.
    pub(super) event_ids: HashSet<String>,
    /// Damaged lines before the last whole line.
    pub(super) damage: Option<Damage>,
}

/// Damaged lines and the whole lines after them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Where the first damaged line begins, in bytes.
    pub(super) at: u64,
    /// The event ids of the whole lines after it, in order.
    pub(super) followers: Vec<String>,
}

impl Tail {
    /// Reads the end of a file of `size` bytes.
    pub(super) fn read(file: &File, size: u64, layout: &Layout) -> Result<Self, TailError> {
        if !begins_with_header(file, size, layout)? {
            return Err(TailError::Foreign);
        }
        let Breaks { first, last } = Breaks::find(file, size)?;
        let mut beginnings = Beginnings::default();
        if !beginnings.take_rest(file, last, size, layout)? {
            return Err(TailError::Foreign);
        }
        let mut event_ids = HashSet::new();
        let mut damage: Option<Damage> = None;
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(first))?;
        let mut lines = reader.take(last - first);
        let (mut at, mut line) = (first, Vec::new());
        let mut last_fits = true;
        while lines.read_until(b'\n', &mut line)? > 0 {
            let can_be_ours = beginnings.take(&line, layout);
            if can_be_ours && line.contains(&0) {
                damage.get_or_insert(Damage { at, followers: Vec::new() });
            } else {
                last_fits = layout.fits(&line);
            }
            if let Some(id) = Layout::event_id(&line) {
                damage.iter_mut().for_each(|damage| damage.followers.push(id.clone()));
                event_ids.insert(id);
            }
            at += line.len() as u64;
            line.clear();
        }
        if !last_fits || !beginnings.are_ours(file, size)? {
            return Err(TailError::Foreign);
        }
        // Without a whole line after it, it is cut off like an unfinished line.
        let (length, damage) = match damage {
            Some(damage) if damage.followers.is_empty() => (damage.at, None),
            damage => (last, damage),
        };
        Ok(Self { length, event_ids, damage })
    }
}

/// What the beginnings of lines tell about who wrote a file.
#[derive(Default)]
struct Beginnings {
    /// A line begins as only ours do.
    ours: bool,
    /// Zeros are in the place of a beginning.
    lost: bool,
}

impl Beginnings {
    /// Takes a line, or its first bytes; returns whether it can be one of ours.
    fn take(&mut self, line: &[u8], layout: &Layout) -> bool {
        let head = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let openings = layout.openings();
        // Without openings, the header has shown that the file is ours.
        let ours = openings.is_empty()
            || !head.is_empty()
                && openings.iter().any(|known| known.starts_with(head) || head.starts_with(known));
        let lost = head.is_empty() && !line.is_empty();
        self.ours |= ours;
        self.lost |= lost;
        ours || lost || line.is_empty()
    }

    /// Takes what follows the last line break.
    fn take_rest(
        &mut self,
        file: &File,
        start: u64,
        size: u64,
        layout: &Layout,
    ) -> io::Result<bool> {
        let longest = layout.openings().iter().map(|opening| opening.len()).max().unwrap_or(0);
        let mut head = vec![0; longest.min(usize::try_from(size - start).unwrap_or(longest))];
        file.read_exact_at(&mut head, start)?;
        Ok(self.take(&head, layout))
    }

    /// Whether nothing speaks against a file of ours. If all of its few lines lost their beginning,
    /// the rest of it must look like theirs: whole sectors of zeros, and text.
    fn are_ours(&self, file: &File, size: u64) -> io::Result<bool> {
        if self.ours || !self.lost {
            return Ok(true);
        }
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(0))?;
        let (mut zeros, mut only_zeros) = (0, true);
        for byte in reader.take(size.min(REACH)).bytes() {
            match byte? {
                0 if only_zeros => zeros += 1,
                0 | b'\n' => {}
                byte if byte.is_ascii_control() => return Ok(false),
                _ => only_zeros = false,
            }
        }
        Ok(size <= REACH && (only_zeros || zeros > 0 && zeros % SECTOR == 0))
    }
}

/// The event ids of up to [`BATCH`] whole lines at the end of a file of any layout, the oldest first;
/// none if no line ends in what is read of it.
pub(super) fn last_ids(file: &File, size: u64) -> io::Result<Vec<String>> {
    let Breaks { first, last } = match Breaks::find(file, size) {
        Ok(breaks) => breaks,
        Err(TailError::Foreign) => return Ok(Vec::new()),
        Err(TailError::Io(error)) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(first))?;
    let mut lines = reader.take(last - first);
    let mut ids = Vec::new();
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        ids.extend(Layout::event_id(&line));
        line.clear();
    }
    Ok(ids)
}

/// The positions after two line breaks: that before the last [`BATCH`] lines, and the last one.
struct Breaks {
    first: u64,
    last: u64,
}

impl Breaks {
    fn find(file: &File, size: u64) -> Result<Self, TailError> {
        let stop = size.saturating_sub(REACH);
        let mut block = vec![0; BLOCK];
        let mut end = size;
        let mut found: Option<Self> = None;
        let mut lines = 0;
        while end > stop {
            let start = end.saturating_sub(BLOCK as u64).max(stop);
            let bytes = &mut block[..usize::try_from(end - start).expect("a block at most")];
            file.read_exact_at(bytes, start)?;
            for (offset, _) in bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let after = start + offset as u64 + 1;
                let breaks = found.get_or_insert(Self { first: after, last: after });
                breaks.first = after;
                if lines == BATCH {
                    return Ok(found.expect("just put there"));
                }
                lines += 1;
            }
            end = start;
        }
        match found {
            Some(breaks) if stop == 0 => Ok(Self { first: 0, ..breaks }),
            Some(breaks) => Ok(breaks),
            None if stop == 0 => Ok(Self { first: 0, last: 0 }),
            None => Err(TailError::Foreign),
        }
    }
}

/// Whether the file begins with the layout's header, or with the part of it that a crash left.
fn begins_with_header(file: &File, size: u64, layout: &Layout) -> Result<bool, TailError> {
    let header = layout.header();
    let length = usize::try_from(size).unwrap_or(usize::MAX).min(header.len());
    let mut head = vec![0; length];
    file.read_exact_at(&mut head, 0)?;
    let text = head.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    // Zeros in the place of the header are all that a power failure left of the file.
    let whole = size >= header.len() as u64 && text == header.len();
    Ok(header.as_bytes().starts_with(&head[..text]) && (whole || !head[..text].contains(&b'\n')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Columns, Format};
    use std::io::Write;

    fn read(content: &[u8], layout: &Layout) -> Result<Tail, TailError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Tail::read(&file, content.len() as u64, layout)
    }

    fn line(id: usize) -> String {
        format!("{{\"event_id\":\"evt_{id}\",\"seq\":{id}}}\n")
    }

    #[test]
    fn every_cut_is_found_at_its_byte_and_a_file_of_another_program_is_foreign() {
        let json = Layout::Json(Format::Standard);
        let csv = Layout::Csv(Columns::new(vec!["id".to_owned()]));
        let rows = csv.header() + "evt_1,1\nevt_2,2\n";
        for (layout, whole) in [(&json, line(1) + &line(2)), (&csv, rows)] {
            for cut in 0..=whole.len() {
                let tail = read(&whole.as_bytes()[..cut], layout).unwrap();
                let kept = whole[..cut].rfind('\n').map_or(0, |at| at + 1);
                assert_eq!(tail.length, kept as u64, "cut at {cut}");
            }
            let known = ["evt_1", "evt_2"].map(str::to_owned);
            let found = read(whole.as_bytes(), layout).unwrap().event_ids;
            assert!(known.iter().all(|id| found.contains(id)), "{found:?}");
            // A power failure may leave zeros.
            assert_eq!(read(&[0; 4096], layout).unwrap().length, 0);
        }
        for (layout, foreign) in [
            (&json, "root:x:0:0"),
            (&json, "root:x:0:0\n"),
            (&json, "{\"event_id\":\"a\"}\nnotes"),
            (&json, "{\"name\":1}"),
            (&csv, "event_id,seq\nevt_1,1\n"),
            (&csv, "root"),
            (&csv, "\n"),
        ] {
            let found = read(foreign.as_bytes(), layout);
            assert!(matches!(found, Err(TailError::Foreign)), "{foreign}");
        }
    }

    #[test]
    fn the_ids_of_the_last_batch_are_known_and_no_more() {
        for lines in [1, BATCH, BATCH + 1, 20 * BATCH] {
            let content: String = (0..lines).map(line).collect();
            let tail = read(content.as_bytes(), &Layout::Json(Format::Standard)).unwrap();
            let expected: HashSet<String> =
                (lines.saturating_sub(BATCH)..lines).map(|id| format!("evt_{id}")).collect();
            assert_eq!(tail.event_ids, expected, "{lines}");
            assert_eq!(tail.length, content.len() as u64);
        }
    }
}
