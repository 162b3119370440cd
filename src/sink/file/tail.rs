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

    fn tail(content: &[u8]) -> Result<Tail, TailError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Tail::read(&file, content.len() as u64, &Layout::Json(Format::Standard))
    }

    #[test]
    fn every_cut_of_a_file_with_a_header_is_found_and_another_header_is_foreign() {
        let layout = Layout::Csv(Columns::new(vec!["id".to_owned()]));
        let whole = layout.header() + "evt_1,1\nevt_2,2\n";
        let read = |content: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            Tail::read(&file, content.len() as u64, &layout)
        };
        for cut in 0..=whole.len() {
            let tail = read(&whole.as_bytes()[..cut]).unwrap();
            let kept = whole[..cut].rfind('\n').map_or(0, |at| at + 1);
            assert_eq!(tail.length, kept as u64, "cut at {cut}");
        }
        assert!(read(whole.as_bytes()).unwrap().event_ids.contains("evt_2"));
        assert_eq!(read(&[0; 4000]).unwrap().length, 0);
        for foreign in ["event_id,seq\nevt_1,1\n", "root:x:0:0\n", "root", "\n"] {
            assert!(matches!(read(foreign.as_bytes()), Err(TailError::Foreign)), "{foreign}");
        }
    }

    fn line(id: usize) -> String {
        format!("{{\"event_id\":\"evt_{id}\",\"seq\":{id}}}\n")
    }

    #[test]
    fn lines_of_another_json_format_are_known_and_their_unfinished_line_is_cut() {
        let cloud_event = "{\"id\":\"evt_7\",\"source\":\"urn:shop\"}\n";
        for cut in 0..cloud_event.len() {
            let content = line(1) + cloud_event + &cloud_event[..cut];
            let tail = tail(content.as_bytes()).unwrap();
            assert_eq!(tail.length as usize, content.len() - cut, "cut at {cut}");
            let known = HashSet::from(["evt_1".to_owned(), "evt_7".to_owned()]);
            assert_eq!(tail.event_ids, known);
        }
    }

    #[test]
    fn every_cut_of_the_last_line_is_found_at_its_byte() {
        let whole = line(1) + &line(2);
        let last = line(1).len();
        for cut in last..whole.len() {
            let tail = tail(&whole.as_bytes()[..cut]).unwrap();
            assert_eq!(tail.length, last as u64, "cut at {cut}");
            assert_eq!(tail.event_ids, HashSet::from(["evt_1".to_owned()]));
        }
        assert_eq!(tail(whole.as_bytes()).unwrap().length, whole.len() as u64);
        assert_eq!(tail(&whole.as_bytes()[..5]).unwrap().length, 0);
        assert_eq!(tail(b"").unwrap().length, 0);
    }

    #[test]
    fn zeros_in_the_place_of_a_line_are_cut_like_a_line() {
        let zeros = [line(1).as_bytes(), &[0; 9000]].concat();
        assert_eq!(tail(&zeros).unwrap().length, line(1).len() as u64);
        let half = [line(1).as_bytes(), b"{\"event", &[0; 90]].concat();
        assert_eq!(tail(&half).unwrap().length, line(1).len() as u64);
    }

    #[test]
    fn lost_sectors_at_the_beginning_are_told_from_a_binary_file() {
        for rest in [b"me\":\"Jo\"}}\n".as_slice(), b"\"}}\n{\"event_id\":\"evt_2", b""] {
            let ours = [&[0; 1024], rest].concat();
            assert_eq!(tail(&ours).unwrap().length, 0, "{rest:?}");
        }
        let binary = [&[0; 1024], b"\x01\x02\n".as_slice()].concat();
        let odd = [&[0; 600], b"text\n".as_slice()].concat();
        for foreign in [&binary[..], &odd, b"\0\0\0\x18ftypmp42\n", b"{\"name\":1}\n\0\0x"] {
            assert!(matches!(tail(foreign), Err(TailError::Foreign)), "{foreign:?}");
        }
    }

    #[test]
    fn a_line_with_zeros_in_it_is_not_taken_for_written() {
        let broken = [b"{\"event_id\":\"evt_2\",\"seq\":".as_slice(), &[0; 90], b"\n"].concat();
        let content = [line(1).as_bytes(), &broken, line(3).as_bytes()].concat();
        let known = tail(&content).unwrap().event_ids;
        assert_eq!(known, HashSet::from(["evt_1".to_owned(), "evt_3".to_owned()]));
    }

    #[test]
    fn a_file_that_another_program_wrote_is_left_alone() {
        for foreign in ["root:x:0:0", "root:x:0:0\n", "{\"event_id\":\"a\"}\nnotes", "{\"name\":1}"]
        {
            assert!(matches!(tail(foreign.as_bytes()), Err(TailError::Foreign)), "{foreign}");
        }
        assert!(matches!(tail(&[b'x'; 200_000]), Err(TailError::Foreign)));
    }

    #[test]
    fn the_ids_of_the_last_batch_are_known_and_no_more() {
        for lines in [1, BATCH - 1, BATCH, BATCH + 1, 20 * BATCH] {
            let content: String = (0..lines).map(line).collect();
            let tail = tail(content.as_bytes()).unwrap();
            let expected: HashSet<String> =
                (lines.saturating_sub(BATCH)..lines).map(|id| format!("evt_{id}")).collect();
            assert_eq!(tail.event_ids, expected, "{lines}");
            assert_eq!(tail.length, content.len() as u64);
        }
    }

    #[test]
    fn lines_longer_than_a_block_are_counted_once() {
        let long =
            |id| format!("{{\"event_id\":\"evt_{id}\",\"x\":\"{}\"}}\n", "y".repeat(BLOCK + 7));
        let content = long(1) + &long(2) + &long(3);
        let tail = tail(content.as_bytes()).unwrap();
        assert_eq!(tail.event_ids.len(), 3);
        assert_eq!(tail.length, content.len() as u64);
    }
}
