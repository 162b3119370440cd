//! What stands behind the mark of a file after a crash: what of it stays, and where it is cut.
//!
//! Pure. A row of a change that the sink is still owed counts as written. A damaged or torn piece is
//! cut, with what follows it if all of that is such rows, which are written again. A whole row that
//! the sink does not owe stays, with everything before it.

use std::collections::{HashMap, VecDeque};

/// The lines that a sink writes: how each file begins, and what a whole row looks like.
#[derive(Clone)]
pub(super) enum Lines {
    /// One JSON object a line.
    Json,
    /// CSV with this header, which ends with a line break.
    Csv { header: String },
}

impl Lines {
    /// What every file begins with; empty if it begins with its first row.
    pub(super) fn header(&self) -> &str {
        match self {
            Self::Json => "",
            Self::Csv { header } => header,
        }
    }

    /// Whether a text is one whole row.
    fn is_row(&self, text: &str) -> bool {
        match self {
            Self::Json => {
                text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
            }
            Self::Csv { header } => {
                !text.contains('\0') && csv_cells(text) == csv_cells(header.trim_end())
            }
        }
    }
}

/// How many cells the first row of a CSV text has; `None` if it is not CSV.
fn csv_cells(text: &str) -> Option<usize> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    let row = reader.records().next()?.ok()?;
    Some(row.len())
}

/// A row that is in the file, and that the sink is still owed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrittenRow {
    /// Where it begins, from the mark on.
    pub(super) at: u64,
    /// The text with its line break.
    pub(super) text: String,
}

/// What becomes of the text behind a mark.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repair {
    /// How many bytes of it stay.
    pub(super) keep: usize,
    /// The rows that count as written, in their order.
    pub(super) written: VecDeque<WrittenRow>,
    /// How many other lines stay.
    pub(super) unknown: usize,
}

#[derive(PartialEq)]
enum Piece {
    /// The row of a change that the sink is still owed.
    Owed,
    /// The header of the file, or the line break that ends the line of another program.
    Own,
    /// A whole row that the sink is not owed.
    Unknown,
    /// A torn row, zeros, or no row of such a file.
    Damaged,
}

/// Judges the text behind a mark. `owed` has the rows that the sink is still owed, each with its
/// line break; `is_begin` if the mark is at the beginning of the file.
pub(super) fn repair(tail: &[u8], is_begin: bool, lines: &Lines, owed: &[String]) -> Repair {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for row in owed {
        *left.entry(row).or_default() += 1;
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    for bytes in tail.split_inclusive(|byte| *byte == b'\n') {
        let is_header = is_begin && at == 0 && bytes == lines.header().as_bytes();
        let piece = match std::str::from_utf8(bytes) {
            _ if is_header || bytes == b"\n" => Piece::Own,
            Ok(text) => match left.get_mut(text) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    Piece::Owed
                }
                _ if is_torn(text, lines, owed) => Piece::Damaged,
                _ if lines.is_row(text.trim_end_matches('\n')) => Piece::Unknown,
                _ => Piece::Damaged,
            },
            Err(_) => Piece::Damaged,
        };
        pieces.push((at, bytes, piece));
        at += bytes.len();
    }
    let mut keep = tail.len();
    for (at, _, piece) in pieces.iter().rev() {
        match piece {
            Piece::Unknown => break,
            Piece::Damaged => keep = *at,
            Piece::Owed | Piece::Own => {}
        }
    }
    let mut written = VecDeque::new();
    let mut unknown = 0;
    for (at, bytes, piece) in pieces {
        if at >= keep {
            break;
        }
        match piece {
            Piece::Owed => written.push_back(WrittenRow {
                at: at as u64,
                text: String::from_utf8_lossy(bytes).into_owned(),
            }),
            Piece::Own => {}
            Piece::Unknown | Piece::Damaged => unknown += 1,
        }
    }
    Repair {
        keep,
        written,
        unknown,
    }
}

/// Whether a text is the beginning of a row that the sink is owed, or of the header.
fn is_torn(text: &str, lines: &Lines, owed: &[String]) -> bool {
    !text.ends_with('\n')
        && (lines.header().starts_with(text) || owed.iter().any(|row| row.starts_with(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(id: u32) -> String {
        format!("{{\"id\":{id}}}\n")
    }

    /// How much stays of a text, which of the rows 1 to 4 that are owed count as written, and how
    /// many other lines stay.
    fn judged(tail: &str) -> (String, Vec<u64>, usize) {
        let owed: Vec<String> = (1..=4).map(json).collect();
        let repair = repair(tail.as_bytes(), true, &Lines::Json, &owed);
        let mut ids = Vec::new();
        for row in &repair.written {
            let value: serde_json::Value = serde_json::from_str(&row.text).unwrap();
            ids.push(value["id"].as_u64().unwrap());
        }
        (tail[..repair.keep].to_owned(), ids, repair.unknown)
    }

    #[test]
    fn a_damaged_piece_is_cut_unless_a_row_that_nobody_knows_follows_it() {
        let [one, two, three, foreign] = [1, 2, 3, 9].map(json);
        let zeros = "\0\0\0\n";
        for (tail, keep, written, unknown) in [
            (String::new(), String::new(), vec![], 0),
            (format!("{one}{two}"), format!("{one}{two}"), vec![1, 2], 0),
            // Torn at the end.
            (format!("{one}{{\"id\""), one.clone(), vec![1], 0),
            (format!("{one}{}", two.trim_end()), one.clone(), vec![1], 0),
            (format!("{one}\0\0\0"), one.clone(), vec![1], 0),
            // Damaged in the middle: what follows is written again.
            (format!("{one}{zeros}{three}"), one.clone(), vec![1], 0),
            (
                format!("{zeros}{one}{zeros}{three}"),
                String::new(),
                vec![],
                0,
            ),
            // The row of another program.
            (
                format!("{one}{foreign}{two}"),
                format!("{one}{foreign}{two}"),
                vec![1, 2],
                1,
            ),
            (
                format!("{one}{zeros}{foreign}{two}{{\"i"),
                format!("{one}{zeros}{foreign}{two}"),
                vec![1, 2],
                2,
            ),
            (
                format!("{zeros}{}", foreign.trim_end()),
                format!("{zeros}{}", foreign.trim_end()),
                vec![],
                2,
            ),
            // A row that is there more often than it is owed.
            (format!("{one}{one}"), format!("{one}{one}"), vec![1], 1),
        ] {
            assert_eq!(judged(&tail), (keep, written, unknown), "{tail:?}");
        }
    }

    #[test]
    fn a_torn_header_is_cut_and_a_whole_one_stays() {
        let lines = Lines::Csv {
            header: "id,name\n".to_owned(),
        };
        let owed = ["1,\"a,b\"\n".to_owned()];
        let keep = |tail: &str| repair(tail.as_bytes(), true, &lines, &owed).keep;
        assert_eq!(keep("id,na"), 0);
        assert_eq!(keep("id,name\n"), 8);
        assert_eq!(keep("id,name\n1,\"a"), 8);
        assert_eq!(keep("id,name\n2,c\n"), 12, "a row of another program");
        assert_eq!(keep("id,name\n2,c,d\n"), 8, "no row of this file");
    }
}
