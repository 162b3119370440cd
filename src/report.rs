//! Reports: questions to the mirror. Each is one SELECT with a comment at its start that gives the
//! title, the parameters, the chart and what it needs.
//!
//! The built-in reports and the shop's own are the same thing; the built-in ones can be printed and
//! changed. A report only reads, within limits. Amounts are summed as whole numbers.

mod answer;
mod builtin;
mod chart;
mod csv;
mod customer;
mod delivery;
mod error;
mod exactness;
mod folder;
mod head;
mod home;
mod html;
mod json;
mod links;
mod list;
mod only_if;
mod period;
mod query;
mod range;
mod records;
mod text;
mod timetable;
mod uses;
mod value;
mod xlsx;

pub use crate::config::Range;
pub use answer::{Answer, Question, answer, own_parameters};
pub use builtin::built_in;
pub use csv::{CsvForm, csv, csv_head, csv_values};
pub use customer::{CustomerMoney, customer_money};
pub use delivery::{
    Rendered, ScheduledContent, form, notice_body, question_of, rendered, sample_body, write,
};
pub use error::ReportError;
pub use exactness::{Cell, Exactness, Marking, sum_of_counts};
pub use folder::{find, list};
pub use head::{Chart, ColumnFormat, Parameter, Report, RowsBehind};
pub use home::{Figure, Home, HomeDocument, LINE_DAYS, Money, Number, Standing, home};
pub use html::{document, fragment, shown_columns};
pub use json::{AnswerDocument, listed};
pub use links::TableLinks;
pub use list::{ColumnKind, Listed};
pub use only_if::has_reason;
pub use period::Period;
pub use records::{RecordTotals, default_business, record_totals};
pub use text::text;
pub use timetable::{ReportRun, Timetable};
pub use value::{is_amount, marked_amount, marked_count, shown};
pub use xlsx::{RecordSheet, RecordsBook};
