//! The lists of records, on only with `show_records = true`.
//!
//! What an index answers is read at once. What reads a whole large list, as its number and its sums
//! do, is read one at a time and not for long; if that ends early, the rows are shown without it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use shopmirror_core::record::{FoundRecord, Route};

use super::context::PageContext;
use super::find::found_records;
use super::frame::{framed, link, marked, record_link};
use super::list_form::{FilterColumn, ListAddress};
use super::not_shown::NotShown;
use super::reports::{SpreadsheetProgram, csv_form, download};
use super::respond::DataFormat;
use super::rights::Rights;
use super::text::{label, list_title, moment, money, shown};
use super::viewer::Viewer;
use crate::config::ReportFormat;
use crate::report::{
    self, ColumnKind, RecordSheet, RecordTotals, RecordsBook, ReportError, csv_head, csv_values,
    marked_amount, marked_count,
};
use crate::store::{
    ListQuery, PageKey, QueryError, QueryLimits, QueryRows, Reader, RecordColumn, RecordColumnKind,
    RecordList, SqlValue,
};
use crate::text::document;
use crate::text::first_upper;
use crate::text::number::{count, whole};

/// Records on one page, and in one file.
const PAGE_SIZE: usize = 50;
const MAX_FILE: i64 = 10_000;
/// A list of more records is read as a whole only by one request at a time.
const LARGE: i64 = 20_000;
const LIMITS: QueryLimits = QueryLimits {
    time: Duration::from_secs(5),
    bytes: 48 * 1024 * 1024,
    value_bytes: 16 * 1024 * 1024,
};
/// The columns of the key and of the id, which stand before those of the list.
const KEY_COLUMNS: usize = 3;

/// The query of a list. What is not named here is about its order and its filters.
#[derive(Clone, Deserialize)]
pub(super) struct RecordsQuery {
    route: Option<Route>,
    business: Option<String>,
    /// The program that a CSV file is for.
    #[serde(rename = "for")]
    target: Option<SpreadsheetProgram>,
    pub(super) format: Option<DataFormat>,
    #[serde(flatten)]
    list: BTreeMap<String, String>,
}

/// What is read of a list without reading all of it.
struct Begun {
    list: RecordList,
    kinds: Vec<ColumnKind>,
    is_large: bool,
    gone: i64,
    rows: Option<Vec<ShownRecord>>,
}

/// One record of a list.
struct ShownRecord {
    id: String,
    /// The repair that it belongs to.
    job: Option<String>,
    key: PageKey,
    values: Vec<SqlValue>,
}

/// The number and the sums of a list; `Err` says why they are not shown.
type Totals = Result<RecordTotals, String>;

/// One page of a list.
pub(super) async fn page(
    context: &Arc<PageContext>,
    viewer: &Viewer,
    query: RecordsQuery,
) -> Result<Response, NotShown> {
    let rights = viewer.rights;
    let begin =
        move |reader: &mut Reader, context: &PageContext| begun(reader, context, rights, query);
    let mut begun = context.read(begin).await?;
    let list = begun.list.clone();
    let totals = if let Some(rows) = begun.rows.take() {
        let totals = if begun.is_large {
            let read = context.read_report(move |reader, _| Ok(totals_of(reader, &list)));
            read.await.unwrap_or_else(|why| Err(why.text))
        } else {
            context
                .read(move |reader, _| Ok(totals_of(reader, &list)))
                .await?
        };
        begun.rows = Some(rows);
        totals
    } else {
        let read = move |reader: &mut Reader, _: &PageContext| {
            let rows = rows_of(reader, &list)?;
            Ok((rows, totals_of(reader, &list)))
        };
        let (rows, totals) = context.read_report(read).await?;
        begun.rows = Some(rows);
        totals
    };
    let title = list_title(begun.list.route);
    let view = RecordsView {
        viewer,
        context,
        begun: &begun,
        totals: &totals,
    };
    Ok(framed(context, viewer, &title, "records", &view.page()).into_response())
}

/// What is asked for, and what can be read of it at once.
fn begun(
    reader: &mut Reader,
    context: &PageContext,
    rights: Rights,
    query: RecordsQuery,
) -> Result<Begun, NotShown> {
    let list = list_of(reader, context, rights, query)?;
    let is_large = reader.has_more_records(list.route, LARGE)?;
    let mut kinds = Vec::with_capacity(list.columns.len());
    for column in &list.columns {
        kinds.push(kind_of(reader, &list, *column, is_large)?);
    }
    let mut rows = None;
    if list.is_light() || !is_large {
        rows = Some(rows_of(reader, &list)?);
    }
    Ok(Begun {
        gone: reader.gone_records(list.route)?,
        list,
        kinds,
        is_large,
        rows,
    })
}

/// The list that a query asks for.
fn list_of(
    reader: &Reader,
    context: &PageContext,
    rights: Rights,
    mut query: RecordsQuery,
) -> Result<RecordList, NotShown> {
    let route = query.route.unwrap_or(Route::Jobs);
    rights.need(rights.shows_route(route))?;
    let mut columns = reader.record_columns(route)?;
    columns.retain(|column| rights.shows_field(column.name));
    let asked = ListQuery::take(&mut query.list).map_err(ReportError::from)?;
    if let Some(name) = query.list.keys().next() {
        let text = format!(
            "a list of records has no parameter `{name}`: it has route, business, sort and after, \
             and filters such as status.is"
        );
        return Err(ReportError::Refused(text).into());
    }
    let mut business = None;
    if let Some(name) = query.business.filter(|name| !name.is_empty()) {
        let default = report::default_business(reader, &name)?;
        business = Some((name, default));
    }
    let list = RecordList {
        route,
        columns,
        query: asked,
        business,
        zone: context.page.zone.clone(),
    };
    list.check().map_err(ReportError::from)?;
    Ok(list)
}

/// What a column can be compared with. The values of a large list are offered only if an index has
/// them.
fn kind_of(
    reader: &Reader,
    list: &RecordList,
    column: RecordColumn,
    is_large: bool,
) -> Result<ColumnKind, NotShown> {
    Ok(match column.kind {
        RecordColumnKind::Amount => ColumnKind::Number,
        RecordColumnKind::Moment | RecordColumnKind::Day => ColumnKind::Day,
        RecordColumnKind::Choice if column.is_indexed || !is_large => {
            let choices = reader.record_choices(list.route, column)?;
            // A page holds the value of a choice as it is.
            let are_plain = choices
                .iter()
                .all(|choice| document::line(choice) == *choice);
            if choices.is_empty() || !are_plain {
                ColumnKind::Text
            } else {
                ColumnKind::Choice(choices)
            }
        }
        RecordColumnKind::Choice | RecordColumnKind::Text => ColumnKind::Text,
    })
}

/// The rows of a page, and one more, which shows whether there is another page.
fn rows_of(reader: &mut Reader, list: &RecordList) -> Result<Vec<ShownRecord>, NotShown> {
    let most = PAGE_SIZE + 1;
    let mut records: Vec<ShownRecord> = Vec::new();
    for (sql, parameters) in list.pages(most).map_err(ReportError::from)? {
        if records.len() == most {
            break;
        }
        let found = match reader.query(&sql, &parameters, LIMITS) {
            Err(QueryError::TooLong(_)) => return Err(too_long()),
            found => found?,
        };
        for mut row in found.rows {
            if records.len() == most {
                break;
            }
            let values = row.split_off(KEY_COLUMNS);
            let id = report::shown(&row[2], None);
            let mut job = None;
            if list.route != Route::Jobs {
                job = reader.job_of(list.route, &id)?;
            }
            let mut key = row.into_iter();
            records.push(ShownRecord {
                id,
                job,
                key: PageKey {
                    value: key.next().unwrap_or(SqlValue::Null),
                    row: key.next().unwrap_or(SqlValue::Null),
                },
                values,
            });
        }
    }
    Ok(records)
}

fn too_long() -> NotShown {
    let text = "This list was stopped after 5 seconds: choose fewer rows, or sort by the date, and \
                repairs by number, status, person or amount.";
    ReportError::Unanswered(text.to_owned()).into()
}

fn totals_of(reader: &mut Reader, list: &RecordList) -> Totals {
    report::record_totals(reader, list, LIMITS, Timestamp::now()).map_err(|error| error.to_string())
}

/// A page of a list for programs.
#[derive(Serialize)]
struct RecordsDocument {
    /// The records in their latest state.
    records: Vec<FoundRecord>,
    /// The parameter `after` of the next page; null on the last one.
    next: Option<String>,
}

/// The records of a page in their latest state for programs.
pub(super) async fn data(
    context: &Arc<PageContext>,
    viewer: &Viewer,
    query: RecordsQuery,
) -> Result<Response, NotShown> {
    viewer.rights.need_all()?;
    let rights = viewer.rights;
    let begin = move |reader: &mut Reader, context: &PageContext| {
        let list = list_of(reader, context, rights, query)?;
        let is_quick = list.is_light() || !reader.has_more_records(list.route, LARGE)?;
        Ok((list, is_quick))
    };
    let (list, is_quick) = context.read(begin).await?;
    let read = move |reader: &mut Reader, _: &PageContext| newest_of(reader, &list);
    if is_quick {
        context.read(read).await
    } else {
        context.read_report(read).await
    }
}

fn newest_of(reader: &mut Reader, list: &RecordList) -> Result<Response, NotShown> {
    let mut rows = rows_of(reader, list)?;
    let has_next = rows.len() > PAGE_SIZE;
    rows.truncate(PAGE_SIZE);
    let mut next = None;
    if has_next && let Some(last) = rows.last() {
        next = Some(last.key.text());
    }
    let mut newest = Vec::new();
    for record in rows {
        reader.each_version((list.route, &record.id), (0, i64::MAX), |change| {
            newest.push(change);
            ControlFlow::Break(())
        })?;
    }
    let records = found_records(newest)?;
    Ok(Json(RecordsDocument { records, next }).into_response())
}

/// A list with the columns of the mirror as CSV.
pub(super) fn csv(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    query: &RecordsQuery,
) -> Result<Response, NotShown> {
    let list = list_of(reader, context, viewer.rights, query.clone())?;
    let rows = whole_rows(reader, viewer.rights, &list)?;
    let form = csv_form(query.target, &viewer.locale);
    let mut text = csv_head(&rows.columns, form);
    for row in &rows.rows {
        text += &csv_values(row, form);
    }
    let bytes = text.into_bytes();
    Ok(download(list.route.as_str(), ReportFormat::Csv, bytes))
}

/// A list as an Excel file.
pub(super) fn excel(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    query: &RecordsQuery,
) -> Result<Response, NotShown> {
    let list = list_of(reader, context, viewer.rights, query.clone())?;
    let route = list.route;
    let rows = whole_rows(reader, viewer.rights, &list)?;
    let mut fields = reader.field_columns(route)?;
    if !viewer.rights.shows_all() {
        fields = list
            .columns
            .iter()
            .map(|column| column.name.to_owned())
            .collect();
    }
    let mut book = RecordsBook::new(&RecordSheet {
        route,
        columns: &rows.columns,
        fields: &fields,
        read_fields: &reader.read_fields(route)?,
        zone: &context.page.zone,
        currency: context.page.reports.currency.as_deref(),
        locale: &viewer.locale,
        made_at: Timestamp::now(),
    })?;
    for row in &rows.rows {
        book.add(row)?;
    }
    let mut note = None;
    if rows.rows.len() as i64 == MAX_FILE {
        let most = whole(MAX_FILE);
        note = Some(format!("These are the first {most} records of the list"));
    }
    let bytes = book.finish(note)?;
    Ok(download(route.as_str(), ReportFormat::Xlsx, bytes))
}

/// The rows of a file: those of the list. For who does not see all fields, only the columns of the
/// page.
fn whole_rows(
    reader: &mut Reader,
    rights: Rights,
    list: &RecordList,
) -> Result<QueryRows, NotShown> {
    let select = if rights.shows_all() {
        list.whole_rows(MAX_FILE)
    } else {
        list.listed_rows(MAX_FILE)
    };
    let (sql, parameters) = select.map_err(ReportError::from)?;
    Ok(reader.query(&sql, &parameters, LIMITS)?)
}

/// A page of a list, ready to be drawn.
struct RecordsView<'a> {
    viewer: &'a Viewer,
    context: &'a PageContext,
    begun: &'a Begun,
    totals: &'a Totals,
}

impl RecordsView<'_> {
    fn page(&self) -> Markup {
        let list = &self.begun.list;
        let mut columns = Vec::new();
        for (column, kind) in list.columns.iter().zip(&self.begun.kinds) {
            columns.push(FilterColumn {
                name: column.name,
                kind,
            });
        }
        html! {
            section {
                h1 { "Records" }
                nav.ranges aria-label="List" {
                    @for each in self.viewer.rights.routes() {
                        @let address = link("records", &[("route", each.as_str())]);
                        @let current = marked(each == list.route, "true");
                        a href=(address) aria-current=[current] { (list_title(each)) }
                    }
                }
                (self.sums())
                (self.address().filter_form(&columns))
                p.note { (self.order()) }
                (self.table())
                (self.pages())
                (self.notes())
            }
        }
    }

    /// The address of the list at its first page.
    fn address(&self) -> ListAddress<'_> {
        let list = &self.begun.list;
        let mut parameters = vec![("route".to_owned(), list.route.as_str().to_owned())];
        if let Some((business, _)) = &list.business {
            parameters.push(("business".to_owned(), business.clone()));
        }
        ListAddress {
            path: "records",
            parameters,
            list: &list.query,
        }
    }

    /// The number of all records of the list, and their sums.
    fn sums(&self) -> Markup {
        let currency = self.context.page.reports.currency.as_deref();
        html! {
            @match self.totals {
                Ok(totals) => dl.sums {
                    div { dt { "Records" } dd { strong { (marked_count(&totals.records, &self.viewer.locale)) } } }
                    @for (name, sum) in &totals.sums {
                        div {
                            dt { (label(name)) }
                            dd { strong { (marked_amount(sum, currency, &self.viewer.locale)) } }
                        }
                    }
                },
                Err(why) => p.note { "The number and the sums are not shown: " (why) },
            }
        }
    }

    /// By what the list is sorted, in words.
    fn order(&self) -> String {
        let sort = self.begun.list.sort();
        let kind = self.begun.list.kind_of(&sort.column);
        let ends = match kind {
            RecordColumnKind::Moment | RecordColumnKind::Day => ["the oldest", "the newest"],
            RecordColumnKind::Amount => ["the lowest", "the highest"],
            RecordColumnKind::Choice | RecordColumnKind::Text => ["A", "Z"],
        };
        let first = ends[usize::from(sort.is_descending)];
        let title = label(&sort.column);
        format!("Sorted by “{title}”, {first} first.")
    }

    fn table(&self) -> Markup {
        let list = &self.begun.list;
        let records = self.begun.rows.as_deref().unwrap_or_default();
        let label_of_table = format!("Table of {}", list_title(list.route));
        html! {
            @if records.is_empty() {
                p { "There are no such records." }
            } @else {
                div.scroll tabindex="0" role="region" aria-label=(label_of_table) {
                    table.report.list role="table" {
                        thead role="rowgroup" { tr role="row" { @for column in &list.columns { (self.head(*column)) } } }
                        tbody role="rowgroup" {
                            @for record in records.iter().take(PAGE_SIZE) { (self.row(record)) }
                        }
                    }
                }
            }
        }
    }

    fn head(&self, column: RecordColumn) -> Markup {
        let list = &self.begun.list;
        let sort = list.sort();
        let mut order = None;
        if sort.column == column.name {
            order = Some(if sort.is_descending {
                "descending"
            } else {
                "ascending"
            });
        }
        // The list's own order is not in its address.
        let mut sorted_now = list.query.clone();
        sorted_now.sort = Some(sort);
        let address = self.address().with(&sorted_now.sorted_by(column.name));
        html! {
            th.number[column.kind == RecordColumnKind::Amount] role="columnheader" scope="col"
                aria-sort=[order]
            {
                a href=(address) { (label(column.name)) }
            }
        }
    }

    fn row(&self, record: &ShownRecord) -> Markup {
        let list = &self.begun.list;
        let mut leading = 0;
        // The number of a repair leads to the repair, and the date to the record itself.
        if list.columns[0].name == "job_number" && record.job.is_some() {
            leading = list.columns.len() - 1;
        }
        let own = record_link(list.route, &record.id);
        let sort = list.sort();
        html! {
            tr role="row" {
                @for (index, (column, value)) in list.columns.iter().zip(&record.values).enumerate() {
                    td.number[column.kind == RecordColumnKind::Amount]
                        .sorted[column.name == sort.column] role="cell"
                        data-label=(label(column.name)) dir="auto"
                    {
                        @if index == leading {
                            a href=(own) { (self.value(column.kind, value, &record.id)) }
                        } @else if let (0, Some(job)) = (index, &record.job) {
                            a href=(record_link(Route::Jobs, job)) {
                                (self.value(column.kind, value, job))
                            }
                        } @else {
                            (self.value(column.kind, value, ""))
                        }
                    }
                }
            }
        }
    }

    /// A value for people; `instead` if there is none.
    fn value(&self, kind: RecordColumnKind, value: &SqlValue, instead: &str) -> Markup {
        let page = &self.context.page;
        let text = report::shown(value, None);
        html! {
            @if text.is_empty() {
                (shown(instead))
            } @else if kind == RecordColumnKind::Moment {
                (moment(&text, &page.zone, &self.viewer.locale))
            } @else if let (RecordColumnKind::Amount, SqlValue::Real(amount)) = (kind, value) {
                (money(*amount, page.reports.currency.as_deref(), &self.viewer.locale))
            } @else {
                (shown(&text))
            }
        }
    }

    /// The links to the first and to the next page.
    fn pages(&self) -> Markup {
        let list = &self.begun.list;
        let records = self.begun.rows.as_deref().unwrap_or_default();
        let mut first = list.query.clone();
        first.after = None;
        let mut next = None;
        if records.len() > PAGE_SIZE {
            let mut query = list.query.clone();
            query.after = Some(records[PAGE_SIZE - 1].key.clone());
            next = Some(self.address().with(&query));
        }
        html! {
            p.pages {
                @if list.query.after.is_some() {
                    a rel="prev" href=(self.address().with(&first)) { "First page" } " "
                }
                @if let Some(next) = next { a rel="next" href=(next) { "Next page" } }
            }
        }
    }

    fn notes(&self) -> Markup {
        let csv = ListAddress {
            path: "records.csv",
            ..self.address()
        };
        let excel = ListAddress {
            path: "records.xlsx",
            ..self.address()
        };
        let mut for_excel = self.address();
        for_excel.path = "records.csv";
        for_excel
            .parameters
            .push(("for".to_owned(), "excel".to_owned()));
        let mut rows = self.begun.list.query.clone();
        rows.after = None;
        let gone = self.begun.gone;
        html! {
            @if let Ok(totals) = self.totals { p.note { (first_upper(&totals.note)) "." } }
            @if gone > 0 {
                p.note {
                    (count(gone, "record is", "records are"))
                    " gone from the list of the workspace and not shown here."
                }
            }
            p.note {
                "Download: " a href=(excel.with(&rows)) { "Excel" } ", "
                a href=(csv.with(&rows)) { "CSV" } ", "
                a href=(for_excel.with(&rows)) { "CSV for Excel" }
                ", at most " (whole(MAX_FILE)) " records."
            }
        }
    }
}

#[cfg(test)]
mod tests;
