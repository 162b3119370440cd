//! An Excel file with one sheet of rows and one of notes.
//!
//! The rows go to a temporary file as they come, so that memory does not grow with them. Every text
//! is written as a text: no cell but those of [`Book::sum`] is a formula, and these carry their
//! values. Equal input makes equal bytes.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rust_xlsxwriter::{
    DocProperties, ExcelDateTime, Format, FormatAlign, FormatBorder, Formula, Workbook, Worksheet,
    XlsxError, utility,
};

use super::cell::ExcelCell;
use crate::text::locale::Locale;

/// The rows that a sheet has room for below its head, with one for the sums.
const ROWS_MAX: u32 = 1_048_574;
/// The name of the sheet of notes.
const NOTES: &str = "Notes";
/// The most characters of the name of a sheet.
const NAME_MAX: usize = 31;
/// The widths of columns, in characters.
const NARROWEST: f64 = 8.0;
const WIDEST: f64 = 60.0;
const NOTES_WIDTH: f64 = 100.0;
/// The button of the filter covers as much of a head.
const BUTTON: f64 = 3.0;

/// How the numbers of a column are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// They are counted or measured.
    Number,
    /// They stand for something, as an id does.
    Name,
    /// They are amounts.
    Money,
    /// They are shares.
    Percent,
}

/// What the file is about.
pub(super) struct About<'a> {
    pub(super) title: &'a str,
    /// When it is made, as the file says.
    pub(super) made_at: Timestamp,
    pub(super) zone: &'a TimeZone,
    pub(super) currency: Option<&'a str>,
    pub(super) locale: &'a Locale,
}

/// A file whose rows are written one after the other.
pub(super) struct Book {
    workbook: Workbook,
    sheet: Worksheet,
    formats: Formats,
    /// Those of the sums.
    sum_formats: Formats,
    widths: Vec<f64>,
    zone: TimeZone,
    /// The rows below the head, and how many have room there.
    rows: u32,
    room: u32,
    /// The rows that have no room.
    left_out: u64,
}

impl Book {
    /// A file with the heads of its columns.
    pub(super) fn new(about: &About<'_>, heads: &[String]) -> Result<Self, XlsxError> {
        let mut workbook = Workbook::new();
        let made_at = ExcelDateTime::from_timestamp(about.made_at.as_second())?;
        let properties = DocProperties::new()
            .set_title(about.title)
            .set_creation_datetime(&made_at);
        workbook.set_properties(&properties);
        let mut sheet = workbook.new_worksheet_with_constant_memory()?;
        sheet.set_name(sheet_name(about.title))?;
        sheet.set_freeze_panes(1, 0)?;
        sheet.set_repeat_rows(0, 0)?;
        sheet.set_landscape();
        sheet.set_print_fit_to_pages(1, 0);
        let head = Format::new()
            .set_bold()
            .set_text_wrap()
            .set_align(FormatAlign::Top)
            .set_border_bottom(FormatBorder::Thin);
        let of_sums = Format::new().set_bold().set_border_top(FormatBorder::Thin);
        let mut widths = Vec::with_capacity(heads.len());
        for (column, text) in heads.iter().enumerate() {
            sheet.write_string_with_format(0, index(column), text, &head)?;
            widths.push(wide(text) + BUTTON);
        }
        Ok(Self {
            workbook,
            sheet,
            formats: Formats::new(&Format::new(), about),
            sum_formats: Formats::new(&of_sums, about),
            widths,
            zone: about.zone.clone(),
            rows: 0,
            room: ROWS_MAX,
            left_out: 0,
        })
    }

    /// The zone of its moments.
    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Adds a row below the others; each cell has the look of its column.
    pub(super) fn row(&mut self, cells: &[(ExcelCell, Look)]) -> Result<(), XlsxError> {
        if self.rows >= self.room {
            self.left_out += 1;
            return Ok(());
        }
        self.rows += 1;
        for (column, (cell, look)) in cells.iter().enumerate() {
            self.measure(column, cell);
            write(
                &mut self.sheet,
                self.rows,
                column,
                cell,
                *look,
                &self.formats,
            )?;
        }
        Ok(())
    }

    /// Writes a cell of the row of sums, which is below the last row.
    pub(super) fn sum_cell(
        &mut self,
        column: usize,
        cell: &ExcelCell,
        look: Look,
    ) -> Result<(), XlsxError> {
        self.measure(column, cell);
        write(
            &mut self.sheet,
            self.rows + 1,
            column,
            cell,
            look,
            &self.sum_formats,
        )
    }

    /// Writes the sum of the rows above as a formula that adds up the rows that a filter leaves. If
    /// some rows had no room, a formula would add up fewer: then it is a number.
    pub(super) fn sum(
        &mut self,
        column: usize,
        sum: &ExcelCell,
        look: Look,
    ) -> Result<(), XlsxError> {
        if self.left_out > 0 {
            return self.sum_cell(column, sum, look);
        }
        self.measure(column, sum);
        let letters = utility::column_number_to_name(index(column));
        let last = self.rows + 1;
        let value = sum.number().unwrap_or_default();
        let formula = Formula::new(format!("=SUBTOTAL(109,{letters}2:{letters}{last})"))
            .set_result(value.to_string());
        let format = self.sum_formats.of(sum, look);
        self.sheet
            .write_formula_with_format(self.rows + 1, index(column), formula, format)?;
        Ok(())
    }

    /// The bytes of the file, with the notes on a sheet of their own.
    pub(super) fn finish(mut self, mut notes: Vec<String>) -> Result<Vec<u8>, XlsxError> {
        if self.left_out > 0 {
            notes.push(format!(
                "a sheet has no room for {} more rows: take CSV",
                self.left_out
            ));
        }
        if let Some(last) = self.widths.len().checked_sub(1) {
            self.sheet.autofilter(0, 0, self.rows, index(last))?;
        }
        for (column, width) in self.widths.iter().enumerate() {
            let width = width.clamp(NARROWEST, WIDEST);
            self.sheet.set_column_width(index(column), width)?;
        }
        self.workbook.push_worksheet(self.sheet);
        let wrapped = Format::new().set_text_wrap().set_align(FormatAlign::Top);
        let sheet = self.workbook.add_worksheet();
        sheet.set_name(NOTES)?;
        sheet.set_column_width(0, NOTES_WIDTH)?;
        for (row, note) in notes.iter().enumerate() {
            let ExcelCell::Text(note) = ExcelCell::text(note) else {
                continue;
            };
            let row = u32::try_from(row).unwrap_or(u32::MAX);
            sheet.write_string_with_format(row, 0, note, &wrapped)?;
        }
        self.workbook.save_to_buffer()
    }

    /// Makes a column as wide as its widest cell.
    fn measure(&mut self, column: usize, cell: &ExcelCell) {
        let width = match cell {
            ExcelCell::Empty => 0.0,
            ExcelCell::Whole(_) | ExcelCell::Fraction(_) => 16.0,
            ExcelCell::Day(_) => 11.0,
            ExcelCell::Moment(_) => 16.0,
            ExcelCell::Text(text) => wide(text),
        };
        if let Some(widest) = self.widths.get_mut(column) {
            *widest = widest.max(width);
        }
    }
}

/// Writes one cell.
fn write(
    sheet: &mut Worksheet,
    row: u32,
    column: usize,
    cell: &ExcelCell,
    look: Look,
    formats: &Formats,
) -> Result<(), XlsxError> {
    let column = index(column);
    let format = formats.of(cell, look);
    match cell {
        ExcelCell::Empty => sheet.write_blank(row, column, format)?,
        ExcelCell::Text(text) => sheet.write_string_with_format(row, column, text, format)?,
        // Excel's own form of a share has 1 for 100 %.
        ExcelCell::Whole(number) | ExcelCell::Fraction(number) if look == Look::Percent => {
            sheet.write_number_with_format(row, column, number / 100.0, format)?
        }
        ExcelCell::Whole(number)
        | ExcelCell::Fraction(number)
        | ExcelCell::Day(number)
        | ExcelCell::Moment(number) => {
            sheet.write_number_with_format(row, column, *number, format)?
        }
    };
    Ok(())
}

/// The forms of cells.
struct Formats {
    text: Format,
    whole: Format,
    fraction: Format,
    name: Format,
    money: Format,
    percent: Format,
    day: Format,
    moment: Format,
}

impl Formats {
    fn new(base: &Format, about: &About<'_>) -> Self {
        let day = about.locale.day_code();
        let form = |code: &str| base.clone().set_num_format(code);
        Self {
            text: base.clone(),
            whole: form("#,##0"),
            fraction: form("#,##0.0###"),
            name: form("0"),
            money: form(&about.locale.money_code(about.currency)),
            percent: form("0.0%"),
            day: form(&day),
            moment: form(&format!("{day} hh:mm")),
        }
    }

    fn of(&self, cell: &ExcelCell, look: Look) -> &Format {
        match (cell, look) {
            (ExcelCell::Empty | ExcelCell::Text(_), _) => &self.text,
            (ExcelCell::Day(_), _) => &self.day,
            (ExcelCell::Moment(_), _) => &self.moment,
            (_, Look::Money) => &self.money,
            (_, Look::Percent) => &self.percent,
            (ExcelCell::Whole(_), Look::Name) => &self.name,
            (ExcelCell::Whole(_), _) => &self.whole,
            (ExcelCell::Fraction(_), _) => &self.fraction,
        }
    }
}

/// A title as the name of a sheet.
fn sheet_name(title: &str) -> String {
    let mut name = String::new();
    for character in title.chars() {
        let is_allowed = !"[]:*?/\\'".contains(character) && !character.is_control();
        if is_allowed && name.encode_utf16().count() + character.len_utf16() <= NAME_MAX {
            name.push(character);
        }
    }
    let name = name.trim();
    if name.is_empty() || name.eq_ignore_ascii_case(NOTES) || name.eq_ignore_ascii_case("history") {
        return "Rows".to_owned();
    }
    name.to_owned()
}

/// The number of a column; there are far fewer than Excel has room for.
fn index(column: usize) -> u16 {
    u16::try_from(column).unwrap_or(u16::MAX)
}

/// How wide a text is, in characters; only its first ones count.
fn wide(text: &str) -> f64 {
    let characters = text.chars().take(WIDEST as usize).count();
    characters as f64 + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "spreadsheets")]
    #[test]
    fn a_sum_is_no_formula_where_the_sheet_has_no_room_for_every_row() {
        use calamine::{Data, Reader, Xlsx};

        let about = About {
            title: "Payments",
            made_at: Timestamp::UNIX_EPOCH,
            zone: &TimeZone::UTC,
            currency: None,
            locale: &Locale::default(),
        };
        let formula = |room: u32| {
            let mut book = Book::new(&about, &["Amount".to_owned()]).unwrap();
            book.room = room;
            for amount in [1.0, 2.0, 4.0] {
                book.row(&[(ExcelCell::Whole(amount), Look::Money)])
                    .unwrap();
            }
            book.sum(0, &ExcelCell::Whole(7.0), Look::Money).unwrap();
            let file = std::io::Cursor::new(book.finish(Vec::new()).unwrap());
            let mut read: Xlsx<_> = calamine::open_workbook_from_rs(file).unwrap();
            let range = read.worksheet_range("Payments").unwrap();
            let last = range.rows().next_back().unwrap()[0].clone();
            let formulas = read.worksheet_formula("Payments").unwrap();
            (last, formulas.cells().count())
        };
        assert_eq!(formula(3), (Data::Float(7.0), 1));
        assert_eq!(formula(2), (Data::Float(7.0), 0));
    }

    #[test]
    fn any_title_becomes_the_name_of_a_sheet() {
        for (title, name) in [
            ("Payments", "Payments"),
            ("Till: 1/2 [new]?", "Till 12 new"),
            ("notes", "Rows"),
            ("'*'", "Rows"),
            (
                "Statuses that mean ready for pickup",
                "Statuses that mean ready for pi",
            ),
        ] {
            assert_eq!(sheet_name(title), name);
        }
        assert_eq!(sheet_name(&"👍".repeat(40)).chars().count(), 15);
    }
}
