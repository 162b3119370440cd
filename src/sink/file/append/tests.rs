use super::*;
use crate::record::{Change, Kind, Route};
use crate::shape::{Columns, Format};

const SECTOR: usize = 512;
const TODAY: Date = Date::constant(2026, 11, 21);

fn line(layout: &Layout, seq: usize, length: usize) -> Line {
    layout.line(&Change {
        seq: seq as i64,
        event_id: format!("evt_{seq}"),
        route: Route::Leads,
        record_id: Some(seq.to_string()),
        kind: Kind::Created,
        version: 1,
        observed_at: "2026-01-01T00:00:00.000000Z".into(),
        business: None,
        body: format!(r#"{{"name":"{}"}}"#, "x".repeat(length)),
        before: None,
        job: None,
    })
}

/// What a power failure leaves of bytes that were written at `start` and not synced: each sector may
/// be on the disk or not, and the length may be on the disk before the bytes are.
fn torn(synced: &[u8], written: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut left = synced.to_vec();
    let whole = [synced, written].concat();
    let chance = [0.1, 0.5, 0.9][random.usize(..3)];
    let mut at = synced.len();
    while at < whole.len() {
        let end = ((at / SECTOR + 1) * SECTOR).min(whole.len());
        if random.f64() < chance {
            left.resize(left.len().max(end), 0);
            left[at..end].copy_from_slice(&whole[at..end]);
        }
        at = end;
    }
    if random.bool() {
        left.resize(whole.len(), 0);
    }
    left
}

#[test]
fn after_a_power_failure_the_file_has_every_line_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit");
    let layouts =
        [Layout::Json(Format::Standard), Layout::Csv(Columns::new(vec!["name".to_owned()]))];
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let layout = &layouts[random.usize(..layouts.len())];
        let before = [0, 0, 1, 3, 260][random.usize(..5)];
        let longest = [1, 100, 3000][random.usize(..3)];
        let count = before + random.usize(1..12);
        let lines: Vec<Line> =
            (0..count).map(|seq| line(layout, seq, random.usize(..longest))).collect();
        let text: String = lines.iter().map(|line| line.text.as_str()).collect();
        let whole = (layout.header() + &text).into_bytes();
        let synced: usize = lines[..before].iter().map(|line| line.text.len()).sum();
        let synced = if before == 0 { 0 } else { layout.header().len() + synced };
        std::fs::write(&path, torn(&whole[..synced], &whole[synced..], &mut random)).unwrap();
        // More may be waiting than was written then.
        let more = line(layout, count, 10);
        let mut again = lines;
        let after = String::from_utf8(whole).unwrap() + &more.text;
        again.push(more);
        let rotate = Rotate { size: None, daily: false };
        let written = Appender::new("a", &path, layout, rotate).append(&again[before..], TODAY);
        written.unwrap_or_else(|error| panic!("{seed}: {error}"));
        let found = std::fs::read(&path).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), after, "seed {seed}");
    }
}
