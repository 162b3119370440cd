//! `import`: reads older records of a list from a file that the shop has, and stores those that the
//! mirror lacks.
//!
//! What polls have shown stays. Before anything is stored, the file is compared with the mirror: an
//! export may carry printed numbers in the place of ids.

mod agree;
mod columns;
mod sheet;
mod values;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueHint;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use shopmirror_core::reading::DateFormat;
use shopmirror_core::record::{Page, PollerId, Record, Route};

use super::exit::{DATA, USAGE, refuse};
use super::output::{self, Bar, Output, cell, count};
use super::runtime;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::store::{CompleteImport, Import, ImportOutcome, Operator, PollerRow, Reader};
use agree::Agreement;
use columns::{Columns, Mapping, TakenColumn};
use values::{FileRecord, LeftOut, Unread, Values};

/// Records that are stored in one transaction.
const PART: usize = 500;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route of the records
    #[arg(value_parser = super::route())]
    route: Route,
    /// A file of CSV, XLSX or NDJSON, by the end of its name
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Take a field from a column of another name; may be given several times
    #[arg(long, value_name = "FIELD=COLUMN", value_parser = columns::mapping)]
    map: Vec<Mapping>,
    /// The business (branch) of the records; needed if the configuration names businesses
    #[arg(long, value_name = "ID")]
    business: Option<String>,
    /// How the file writes times and dates, for example "%d.%m.%Y %H:%M"
    #[arg(long, value_name = "FORMAT", value_parser = date_format)]
    date_format: Option<String>,
    /// Only say what would be stored
    #[arg(long)]
    dry_run: bool,
    /// Store the file although its ids cannot be compared with those of the mirror, or differ
    #[arg(long)]
    trust_ids: bool,
    /// Your word that the file has every record since this day: reports count from then on
    #[arg(long, value_name = "DATE")]
    complete_since: Option<Date>,
}

fn date_format(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(DateFormat::Pattern(pattern)) => Ok(pattern),
        _ => Err("write a format such as \"%d.%m.%Y %H:%M\" or \"%m/%d/%Y\"".to_owned()),
    }
}

/// What `import --json` prints.
#[derive(Debug, Serialize)]
struct ImportResult {
    /// The route.
    route: Route,
    /// The business (branch); null for the default of the workspace.
    business: Option<String>,
    /// Rows of the file that were read as records.
    records: usize,
    /// Rows that were left out.
    left_out: LeftOut,
    /// Each field with the column that it is taken from.
    fields: Vec<TakenColumn>,
    /// The columns that are not taken.
    other_columns: Vec<String>,
    /// The values that cannot be read, by field.
    unread: Vec<Unread>,
    /// How the records compare with those that the workspace has shown.
    agreement: Agreement,
    /// What was stored, or would be.
    outcome: ImportOutcome,
    /// Since when the operator says that every record is in the file.
    complete_since: Option<Timestamp>,
    /// Whether it was stored.
    stored: bool,
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    check_business(config, args)?;
    let list = PollerId {
        route: args.route,
        business: args.business.clone(),
    };
    let reader = super::reader(config)?;
    let poller = poller_of(&reader, &list)?;
    let (records, mut result) = read_file(config, args, &reader)?;
    if !args.trust_ids
        && let Err(reason) = result.agreement.judge(args.route)
    {
        output::print_note(&described(&result));
        return refuse(DATA, reason);
    }
    if let Some(day) = args.complete_since {
        if result.left_out.has_records() {
            output::print_note(&described(&result));
            return refuse(
                DATA,
                "rows of the file were left out, so it does not have every record: correct them, \
                 or leave --complete-since out",
            );
        }
        let zone = &config.workspace.time_zone;
        result.complete_since = complete_since(&reader, &poller, &records, day, zone)?;
    }
    let import = Import {
        list,
        page: Arc::default(),
        as_of: as_of(&records, &args.file, &poller),
        at: Timestamp::now(),
        job_link: config.reports.job_link.clone(),
    };
    let may_be_complete = result.complete_since.is_some();
    store(config, import, &records, args.dry_run, &mut result)?;
    let code = out.done(&result, &format!("{}{}", described(&result), told(&result)))?;
    if may_be_complete && result.outcome.newer > 0 {
        return refuse(
            DATA,
            "records were left to polls, so reports do not take the list as complete yet: run the \
             same command again after the next poll",
        );
    }
    Ok(code)
}

/// Reads the file, and compares it with the mirror.
fn read_file(
    config: &Config,
    args: &Args,
    reader: &Reader,
) -> anyhow::Result<(Vec<FileRecord>, ImportResult)> {
    let sheet = sheet::read(&args.file)?;
    let columns = Columns::find(&sheet, args.route, reader, &args.map)?;
    let zone = &config.workspace.time_zone;
    let values = Values::new(args.route, reader, zone, args.date_format.as_deref())?;
    let file = values.read(&sheet, &columns)?;
    if file.records.is_empty() {
        return refuse(DATA, "the file has no row with an id: nothing was stored");
    }
    let agreement = Agreement::of(&file.records, args.route, reader)?;
    let result = ImportResult {
        route: args.route,
        business: args.business.clone(),
        records: file.records.len(),
        left_out: file.left_out,
        fields: columns.taken(),
        other_columns: columns.others(),
        unread: file.unread,
        agreement,
        outcome: ImportOutcome::default(),
        complete_since: None,
        stored: false,
    };
    Ok((file.records, result))
}

/// Stores the records, and the word that they are complete unless some are left to polls.
fn store(
    config: &Config,
    mut import: Import,
    records: &[FileRecord],
    dry_run: bool,
    result: &mut ImportResult,
) -> anyhow::Result<()> {
    let path = &config.store.path;
    let mut operator = Operator::open(path)?;
    result.outcome = store_parts(&mut operator, &mut import, records, dry_run)?;
    if result.outcome.newer > 0 {
        result.complete_since = None;
    }
    if dry_run {
        return Ok(());
    }
    result.stored = true;
    if let Some(since) = result.complete_since {
        operator.note_complete_import(CompleteImport {
            route: import.list.route.as_str().to_owned(),
            business: import.list.business,
            since,
        })?;
    }
    // Without a daemon, the next run sends what sinks ask for.
    let _ = runtime()?.block_on(control::send(path, &ControlRequest::Wake));
    super::index_log(path);
    Ok(())
}

/// Records of a business that is polled have its name.
fn check_business(config: &Config, args: &Args) -> anyhow::Result<()> {
    let polled = config.workspace.polled_businesses();
    if polled.contains(&args.business) {
        return Ok(());
    }
    let names: Vec<&str> = config.workspace.businesses.iter().map(|id| &**id).collect();
    let reason = if names.is_empty() {
        "the configuration polls the default business only: leave --business out".to_owned()
    } else {
        format!(
            "name the business of the records with --business: {}",
            names.join(" or ")
        )
    };
    refuse(USAGE, reason)
}

/// The poller of the list. Without its first poll nothing says which records are old.
fn poller_of(reader: &Reader, list: &PollerId) -> anyhow::Result<PollerRow> {
    for poller in reader.pollers()? {
        if poller.id().as_ref() == Some(list) {
            return Ok(poller);
        }
    }
    refuse(
        DATA,
        format!("{list} was not polled yet: let the daemon poll once first, then import again"),
    )
}

/// Up to when the file shows its records: when the newest of them was made or changed. A file may
/// have been copied since. One without times is no newer than the first poll.
fn as_of(records: &[FileRecord], file: &Path, poller: &PollerRow) -> Timestamp {
    let newest = records.iter().filter_map(|record| record.newest_at).max();
    if let Some(at) = newest {
        return at;
    }
    let written = std::fs::metadata(file).and_then(|facts| facts.modified());
    let (Ok(written), Ok(first_polled_at)) = (written, poller.first_polled_at.parse()) else {
        return Timestamp::UNIX_EPOCH;
    };
    match Timestamp::try_from(written) {
        Ok(written) => written.min(first_polled_at),
        Err(_) => Timestamp::UNIX_EPOCH,
    }
}

/// Stores the records, each part in a transaction of its own. An import that was interrupted goes
/// on when the same command runs again.
fn store_parts(
    operator: &mut Operator,
    import: &mut Import,
    records: &[FileRecord],
    dry_run: bool,
) -> anyhow::Result<ImportOutcome> {
    let bar = Bar::rows();
    let mut outcome = ImportOutcome::default();
    let mut done = 0;
    for part in records.chunks(PART) {
        import.page = Arc::new(page(part));
        outcome.add(&operator.import(import, dry_run)?);
        done += part.len() as u64;
        bar.at(done, records.len() as u64);
    }
    Ok(outcome)
}

/// The records as a page of the workspace has them.
fn page(part: &[FileRecord]) -> Page {
    let mut body = String::from("[");
    let mut records = Vec::with_capacity(part.len());
    for record in part {
        if !records.is_empty() {
            body.push(',');
        }
        let start = body.len();
        body.push_str(&record.text);
        let read = Record::read(&body, start..body.len());
        records.push(read.expect("a record of the file is an object with an id"));
    }
    body.push(']');
    Page::new(body, records)
}

/// Since when the file and the polls together have every record; `None` if the polls alone do.
///
/// # Errors
/// If records may be missing between the newest of the file and the first poll.
fn complete_since(
    reader: &Reader,
    poller: &PollerRow,
    records: &[FileRecord],
    day: Date,
    zone: &TimeZone,
) -> anyhow::Result<Option<Timestamp>> {
    let since = day.to_zoned_datetime(zone.clone())?.timestamp();
    let Some(polled_since) = &poller.complete_since else {
        return Ok(None);
    };
    let polled_since: Timestamp = polled_since.parse()?;
    if since >= polled_since {
        return Ok(None);
    }
    let newest = records.iter().filter_map(|record| record.created_at).max();
    if newest >= Some(polled_since) {
        return Ok(Some(since));
    }
    let last = reader.newest_shown_before(poller, polled_since)?;
    let is_in_file = |id: &String| records.iter().any(|record| record.id.as_str() == id);
    if last.as_ref().is_some_and(is_in_file) {
        return Ok(Some(since));
    }
    refuse(
        DATA,
        format!(
            "the file does not reach the polls, which have every record of {} since \
             {polled_since}: records may be missing between its newest row and that time. Export \
             the newest records as well, or leave --complete-since out",
            poller.route
        ),
    )
}

/// What the file has, for people.
fn described(result: &ImportResult) -> String {
    let records = count(result.records, "record", "records");
    let mut text = format!("the file has {records} of {}\n", result.route);
    for TakenColumn { field, column } in &result.fields {
        text += &format!("  {field:<22} from {:?}\n", cell(column, 60));
    }
    if !result.other_columns.is_empty() {
        let columns: Vec<String> = result.other_columns.iter().map(|c| cell(c, 40)).collect();
        text += &format!(
            "not taken: {} (take a column with --map FIELD=COLUMN)\n",
            columns.join(", ")
        );
    }
    text += &told_left_out(&result.left_out);
    for unread in &result.unread {
        text += &format!(
            "{} of {} cannot be read, for example {:?}: name the format with --date-format, or \
             correct the file\n",
            count(unread.values, "value", "values"),
            unread.field,
            cell(&unread.example, 40)
        );
    }
    text + &result.agreement.told()
}

/// Which rows were left out, for people.
fn told_left_out(left_out: &LeftOut) -> String {
    let mut text = String::new();
    let rows = |rows| count(rows, "row was", "rows were");
    if left_out.without_id > 0 {
        text += &format!("{} left out: no id\n", rows(left_out.without_id));
    }
    if left_out.repeated > 0 {
        let rows = rows(left_out.repeated);
        text += &format!("{rows} left out: the id of an earlier row\n");
    }
    if let Some(line) = left_out.first_line {
        text += &format!(
            "{} left out: more cells than there are columns, first in line {line}; put values that \
             hold the sign between cells in double quotes\n",
            rows(left_out.too_many_cells)
        );
    }
    text
}

/// What was done, for people.
fn told(result: &ImportResult) -> String {
    let outcome = &result.outcome;
    let verb = if result.stored {
        "stored"
    } else {
        "would store"
    };
    let mut text = format!("{verb} {}", count(outcome.stored, "record", "records"));
    if outcome.replaced > 0 {
        text += &format!(", and {} of an earlier import anew", outcome.replaced);
    }
    text += &format!(
        "; {} are in the mirror and stay as they are\n",
        outcome.known
    );
    if outcome.newer > 0 {
        text += &format!(
            "{} not surely older than the last poll: left to polls, so that sinks get them (a \
             column created_at shows what is older)\n",
            count(outcome.newer, "record is", "records are")
        );
    }
    if outcome.repaired > 0 {
        text += &format!("{} of them were missing in a gap\n", outcome.repaired);
    }
    if let Some(since) = result.complete_since {
        let verb = if result.stored { "take" } else { "would take" };
        text += &format!(
            "reports {verb} the list as complete since {}, by import\n",
            super::moment::shown(&since.to_string())
        );
    }
    if !result.stored {
        text += "nothing was stored: run the same command without --dry-run\n";
    }
    text
}
