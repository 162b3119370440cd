//! Opens databases with the SQLite that the product is built with, and prints what they hold.
//!
//! `benches/power` starts it and writes one request per line: a word and the path of a database.
//! After `open`, it prints one line of JSON: what `PRAGMA integrity_check` says, the log, the
//! positions of the sinks, what they are still owed, and how often the store was restored.
//! After `digest`, it prints a digest of what SQLite will find once it has recovered the database
//! from its write-ahead log, without opening it. Two files with one digest hold the same.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::Write;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` starts every bench program with options.
    if std::env::args().nth(1).as_deref() != Some("paths") {
        println!("inspect is started by benches/power");
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let mut earlier = EarlierLog::default();
    for request in std::io::stdin().lines() {
        let request = request?;
        match request.split_once(' ') {
            Some(("digest", path)) => writeln!(out, "{}", digest(path, &mut earlier)?)?,
            Some(("open", path)) => {
                let error = |error: rusqlite::Error| json!({"error": error.to_string()});
                writeln!(out, "{}", inspect(path).unwrap_or_else(error))?;
            }
            _ => return Err(format!("unknown request: {request}").into()),
        }
        out.flush()?;
    }
    Ok(())
}

fn inspect(path: &str) -> rusqlite::Result<Value> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(path, flags)?;
    let text = |sql: &str| store.query_row(sql, [], |row| row.get::<_, String>(0));
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0));
    let integrity = text("PRAGMA integrity_check")?;
    if number("SELECT count(*) FROM sqlite_schema WHERE name = 'changes'")? == 0 {
        return Ok(json!({"integrity": integrity, "has_log": false}));
    }
    let mut statement = store
        .prepare("SELECT seq, event_id, route, kind, version, body FROM changes ORDER BY seq")?;
    let rows = statement.query_map([], |row| {
        Ok(json!([
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, String>(3)?,
            row.get::<_, i64>(4)?,
            row.get::<_, String>(5)?,
        ]))
    })?;
    let log = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
    let mut statement = store.prepare("SELECT name, position FROM _sinks")?;
    let positions = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let positions = positions.collect::<rusqlite::Result<BTreeMap<String, i64>>>()?;
    let mut statement = store.prepare("SELECT sink, seq FROM _queue WHERE lane = 2")?;
    let mut owed: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))? {
        let (sink, seq) = row?;
        owed.entry(sink).or_default().push(seq);
    }
    let restored = number("SELECT count(*) FROM _meta WHERE name GLOB 'identity_after_*'")?;
    Ok(json!({
        "integrity": integrity, "has_log": true, "log": log, "positions": positions,
        "owed": owed, "restored": restored,
    }))
}

/// A digest of the database as its write-ahead log leaves it.
fn digest(path: &str, earlier: &mut EarlierLog) -> std::io::Result<String> {
    let read = |suffix: &str| match std::fs::read(format!("{path}{suffix}")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let (database, log, journal) = (read("")?, read("-wal")?, read("-journal")?);
    let mut sum = Sha256::new();
    sum.update((journal.len() as u64).to_le_bytes());
    sum.update(&journal);
    match committed(&log, earlier) {
        None => sum.update(&database),
        Some(Committed {
            page_size,
            pages,
            frames,
        }) => {
            sum.update(pages.to_le_bytes());
            for page in 1..=pages {
                let start = (page as usize - 1) * page_size;
                let stored = database.get(start..).unwrap_or_default();
                let stored = &stored[..stored.len().min(page_size)];
                let content = frames
                    .get(&page)
                    .map_or(stored, |at| &log[*at..*at + page_size]);
                sum.update((content.len() as u64).to_le_bytes());
                sum.update(content);
            }
        }
    }
    Ok(sum
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// What the committed part of a write-ahead log says.
struct Committed {
    page_size: usize,
    /// The size of the database after the last commit.
    pages: u32,
    /// Where the newest content of each page lies in the log.
    frames: HashMap<u32, usize>,
}

/// The log that was read before this one. Most logs begin with the same bytes as the one before,
/// and the same bytes have the same checksums, so these are not added up again.
#[derive(Default)]
struct EarlierLog {
    log: Vec<u8>,
    /// The checksum after the header, and after each frame that was read.
    sums: Vec<(u32, u32)>,
}

impl EarlierLog {
    /// How many of its checksums also hold for this log.
    fn common(&self, log: &[u8], frame_size: usize) -> usize {
        let ends = (0..self.sums.len()).map(|frames| LOG_HEADER + frames * frame_size);
        let starts = std::iter::once(0).chain(ends.clone());
        starts
            .zip(ends)
            .take_while(|(start, end)| log.get(*start..*end) == self.log.get(*start..*end))
            .count()
    }
}

const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Reads a write-ahead log as SQLite recovers it: up to the last commit before the first frame
/// whose salt or checksum is wrong (sqlite.org/fileformat2.html, section 4). `None` if nothing is
/// committed.
fn committed(log: &[u8], earlier: &mut EarlierLog) -> Option<Committed> {
    let word = |at: usize| Some(u32::from_be_bytes(log.get(at..at + 4)?.try_into().ok()?));
    let magic = word(0)?;
    if magic & !1 != 0x377f_0682 || word(4)? != 3_007_000 {
        return None;
    }
    let page_size = word(8)? as usize;
    let frame_size = FRAME_HEADER + page_size;
    let known = earlier.common(log, frame_size);
    earlier.sums.truncate(known);
    earlier.log.clear();
    earlier.log.extend_from_slice(log);
    let mut sum = checksum((0, 0), log.get(..24)?, magic & 1 == 1);
    if (word(24)?, word(28)?) != sum {
        return None;
    }
    if known == 0 {
        earlier.sums.push(sum);
    }
    let salts = (word(16)?, word(20)?);
    let mut found = Committed {
        page_size,
        pages: 0,
        frames: HashMap::new(),
    };
    let (mut pending, mut at, mut read) = (Vec::new(), LOG_HEADER, 1);
    while let Some(frame) = log.get(at..at + frame_size) {
        if let Some(known) = earlier.sums.get(read) {
            sum = *known;
        } else {
            sum = checksum(sum, &frame[..8], magic & 1 == 1);
            sum = checksum(sum, &frame[FRAME_HEADER..], magic & 1 == 1);
            earlier.sums.push(sum);
        }
        let page = word(at)?;
        if page == 0
            || (word(at + 8)?, word(at + 12)?) != salts
            || (word(at + 16)?, word(at + 20)?) != sum
        {
            break;
        }
        pending.push((page, at + FRAME_HEADER));
        let pages = word(at + 4)?;
        if pages > 0 {
            found.pages = pages;
            found.frames.extend(pending.drain(..));
        }
        at += frame_size;
        read += 1;
    }
    (found.pages > 0).then_some(found)
}

/// Plain steps, because test builds do not optimise this.
fn checksum(from: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let (mut first, mut second) = from;
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let one = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let other = [bytes[at + 4], bytes[at + 5], bytes[at + 6], bytes[at + 7]];
        let (one, other) = if big_endian {
            (u32::from_be_bytes(one), u32::from_be_bytes(other))
        } else {
            (u32::from_le_bytes(one), u32::from_le_bytes(other))
        };
        first = first.wrapping_add(one).wrapping_add(second);
        second = second.wrapping_add(other).wrapping_add(first);
        at += 8;
    }
    (first, second)
}
