//! Reading a file as rows under named columns. Each value is JSON text, as in a record; what it
//! means is decided elsewhere.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use shopmirror_core::record::Fields;

use crate::cli::exit::{DATA, USAGE, refuse};

/// The largest file that is read, as it is held in memory.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The most columns of a file.
const MAX_COLUMNS: usize = 1000;

/// The most cells of a file, as they are held in memory: one takes some 60 bytes.
const MAX_CELLS: usize = 8_000_000;

/// The value of an empty cell.
pub(super) const NULL: &str = "null";

/// The rows of a file.
pub(super) struct Sheet {
    /// The names of the columns.
    pub(super) columns: Vec<String>,
    /// Of each row the JSON text of each column.
    pub(super) rows: Vec<Vec<String>>,
    /// The lines of the rows that have more cells than there are columns. Their values may stand
    /// under wrong names, so they are left out.
    pub(super) too_long: Vec<u64>,
}

/// Reads a file by the end of its name.
pub(super) fn read(path: &Path) -> anyhow::Result<Sheet> {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    let endings = ["csv", "txt", "tsv", "ndjson", "jsonl", "xlsx"];
    if !endings.iter().any(|known| ending == *known) {
        return refuse(
            USAGE,
            "the name of the file must end with .csv, .xlsx or .ndjson, as what it holds",
        );
    }
    let bytes = bytes_of(path).with_context(|| format!("reading {}", path.display()))?;
    let sheet = if ending == "xlsx" {
        of_spreadsheet(bytes)?
    } else {
        let text = text_of(bytes)?;
        if ending == "ndjson" || ending == "jsonl" {
            of_ndjson(&text)?
        } else {
            of_csv(&text)?
        }
    };
    if sheet.rows.is_empty() {
        return refuse(DATA, "the file has no row under the names of its columns");
    }
    Ok(sheet)
}

fn bytes_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return refuse(DATA, "the file is larger than 256 MiB: divide it");
    }
    Ok(bytes)
}

fn text_of(bytes: Vec<u8>) -> anyhow::Result<String> {
    let Ok(text) = String::from_utf8(bytes) else {
        return refuse(
            DATA,
            "the file is not UTF-8: save it as \"CSV UTF-8\", or as XLSX",
        );
    };
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// A text as JSON; an empty one is null.
fn json_text(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return NULL.to_owned();
    }
    serde_json::to_string(text).expect("a text can always be written as JSON")
}

fn of_csv(text: &str) -> anyhow::Result<Sheet> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(text))
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut columns = Vec::new();
    for name in reader.headers()? {
        columns.push(name.trim().to_owned());
    }
    let mut rows = Vec::new();
    let mut too_long = Vec::new();
    for record in reader.records() {
        let record = record.context("the file is no CSV")?;
        let is_filled = |cell: &str| !cell.trim().is_empty();
        if record.iter().skip(columns.len()).any(is_filled) {
            too_long.push(record.position().map_or(0, csv::Position::line));
            continue;
        }
        if !record.iter().any(is_filled) {
            continue;
        }
        let mut row = Vec::with_capacity(columns.len());
        for place in 0..columns.len() {
            row.push(json_text(record.get(place).unwrap_or_default()));
        }
        rows.push(row);
        check_size(columns.len(), rows.len())?;
    }
    Ok(Sheet {
        columns,
        rows,
        too_long,
    })
}

/// Refuses a file that takes too much memory: each row has a cell for each column.
fn check_size(columns: usize, rows: usize) -> anyhow::Result<()> {
    if columns > MAX_COLUMNS {
        return refuse(
            DATA,
            format!("the file has more than {MAX_COLUMNS} columns: remove those not needed"),
        );
    }
    if columns.saturating_mul(rows) > MAX_CELLS {
        return refuse(
            DATA,
            format!(
                "the file has more than {MAX_CELLS} cells, in {columns} columns: divide it, or \
                 remove columns that are not needed"
            ),
        );
    }
    Ok(())
}

/// What stands between the names in the first line: the most frequent of the usual signs.
fn delimiter(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or_default();
    let mut best = b',';
    let mut most = 0;
    for sign in [b',', b';', b'\t', b'|'] {
        let count = first.bytes().filter(|byte| *byte == sign).count();
        if count > most {
            best = sign;
            most = count;
        }
    }
    best
}

fn of_ndjson(text: &str) -> anyhow::Result<Sheet> {
    let mut columns: Vec<String> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let Some(record) = Fields::parse(line) else {
            return refuse(
                DATA,
                format!("line {number} is no JSON object: each line must be one"),
            );
        };
        let mut row = vec![NULL.to_owned(); columns.len()];
        for (name, value) in record.iter() {
            let place = *places.entry(name.to_owned()).or_insert_with(|| {
                columns.push(name.to_owned());
                columns.len() - 1
            });
            if row.len() <= place {
                row.resize(place + 1, NULL.to_owned());
            }
            row[place] = value.to_owned();
        }
        rows.push(row);
        check_size(columns.len(), rows.len())?;
    }
    for row in &mut rows {
        row.resize(columns.len(), NULL.to_owned());
    }
    Ok(Sheet {
        columns,
        rows,
        too_long: Vec::new(),
    })
}

#[cfg(feature = "spreadsheets")]
type Spreadsheet = calamine::Xlsx<std::io::Cursor<Vec<u8>>>;

#[cfg(feature = "spreadsheets")]
fn of_spreadsheet(bytes: Vec<u8>) -> anyhow::Result<Sheet> {
    use calamine::{Reader as _, open_workbook_from_rs};

    let book: Result<Spreadsheet, _> = open_workbook_from_rs(std::io::Cursor::new(bytes));
    let mut book = book.context("the file is no XLSX")?;
    check_spreadsheet(&mut book)?;
    let Some(first) = book.worksheet_range_at(0) else {
        return refuse(DATA, "the file has no sheet");
    };
    let range = first.context("the first sheet cannot be read")?;
    let mut lines = range.rows();
    let mut columns = Vec::new();
    for name in lines.next().unwrap_or_default() {
        columns.push(name.to_string().trim().to_owned());
    }
    let mut rows = Vec::new();
    for line in lines {
        let row: Vec<String> = line.iter().map(json_of_cell).collect();
        if row.iter().any(|value| value != NULL) {
            rows.push(row);
        }
    }
    Ok(Sheet {
        columns,
        rows,
        too_long: Vec::new(),
    })
}

/// Refuses a first sheet that takes too much memory, before it is spread out: one of its few cells
/// may be far from the others.
#[cfg(feature = "spreadsheets")]
fn check_spreadsheet(book: &mut Spreadsheet) -> anyhow::Result<()> {
    use calamine::Reader as _;

    let Some(name) = book.sheet_names().into_iter().next() else {
        return Ok(());
    };
    let mut cells = book
        .worksheet_cells_reader(&name)
        .context("the first sheet cannot be read")?;
    let mut columns = 0;
    let mut rows = 0;
    while let Some(cell) = cells
        .next_cell()
        .context("the first sheet cannot be read")?
    {
        if matches!(cell.get_value(), calamine::DataRef::Empty) {
            continue;
        }
        let (row, column) = cell.get_position();
        rows = rows.max(row as usize + 1);
        columns = columns.max(column as usize + 1);
        check_size(columns, rows)?;
    }
    Ok(())
}

/// The value of a cell. A time is written without a zone, as the sheet shows it.
#[cfg(feature = "spreadsheets")]
fn json_of_cell(cell: &calamine::Data) -> String {
    use calamine::Data;

    match cell {
        Data::Int(number) => number.to_string(),
        // Whole numbers are ids as well.
        Data::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            format!("{number:.0}")
        }
        Data::Float(number) => number.to_string(),
        Data::Bool(truth) => truth.to_string(),
        Data::DateTime(time) if time.is_datetime() => {
            let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
            if (hour, minute, second) == (0, 0, 0) {
                return format!("\"{year:04}-{month:02}-{day:02}\"");
            }
            format!("\"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}\"")
        }
        Data::DateTime(length) => length.as_f64().to_string(),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => json_text(text),
        Data::Error(_) | Data::Empty => NULL.to_owned(),
    }
}

#[cfg(not(feature = "spreadsheets"))]
fn of_spreadsheet(_: Vec<u8>) -> anyhow::Result<Sheet> {
    refuse(
        USAGE,
        "this build reads no XLSX (the packages do): save the file as \"CSV UTF-8\"",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_csv_is_read_with_the_sign_between_its_names() {
        let text = "Job ID;Name;Note\r\n12;\"Fischer; Ann\";\r\n13;Bob\r\n";
        let sheet = of_csv(text).unwrap();
        assert_eq!(sheet.columns, ["Job ID", "Name", "Note"]);
        assert_eq!(sheet.rows[0], [r#""12""#, r#""Fischer; Ann""#, NULL]);
        assert_eq!(sheet.rows[1], [r#""13""#, r#""Bob""#, NULL]);
        assert_eq!(delimiter("id\tname"), b'\t');
    }

    #[test]
    fn a_row_with_more_cells_than_columns_is_left_out_with_its_line() {
        let sheet = of_csv("id,name\n1,Ann\n2,Fischer, Bob\n3,Cid,\n,\n").unwrap();
        assert_eq!(sheet.rows.len(), 2);
        assert_eq!(sheet.too_long, [3]);
    }

    #[test]
    fn a_file_of_too_many_cells_is_refused() {
        assert!(check_size(MAX_COLUMNS, MAX_CELLS / MAX_COLUMNS).is_ok());
        assert!(check_size(MAX_COLUMNS + 1, 1).is_err());
        assert!(check_size(MAX_COLUMNS, MAX_CELLS / MAX_COLUMNS + 1).is_err());
    }

    #[test]
    fn a_line_of_ndjson_may_lack_what_others_have() {
        let sheet = of_ndjson("{\"id\":1,\"paid\":10.10}\n\n{\"id\":2,\"note\":\"x\"}\n").unwrap();
        assert_eq!(sheet.columns, ["id", "paid", "note"]);
        assert_eq!(sheet.rows, [["1", "10.10", NULL], ["2", NULL, "\"x\""]]);
        assert!(of_ndjson("[1]").is_err() && of_ndjson("{\"id\":").is_err());
    }
}
