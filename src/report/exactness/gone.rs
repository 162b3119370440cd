//! Notes about records that are gone from their list: those that a report leaves out, and those that
//! it still counts.

use shopmirror_core::record::Route;

use super::coverage::BusinessChoice;
use crate::store::{PollerRow, Reader, ReportDay, StoreError};

/// The notes of a report that reads these routes.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn notes(
    reader: &Reader,
    routes: &[Route],
    pollers: &[PollerRow],
    business: &BusinessChoice,
    days: &[ReportDay],
) -> Result<Vec<String>, StoreError> {
    let from = days.iter().map(|day| day.from).min();
    let to = days.iter().map(|day| day.to).max();
    let times = from.zip(to);
    let withheld = reader.withheld()?;
    let mut notes = Vec::new();
    for route in routes {
        let mut asked = None;
        if let Some(name) = &business.asked
            && !business.every.contains(route)
        {
            asked = Some((name.as_str(), business.default.as_deref()));
        }
        let vanished = reader.vanished(*route, asked, times)?;
        if vanished > 0 {
            let records = counted(vanished, *route);
            notes.push(format!("{records} gone from the list and not counted"));
        }
        let mut missing = 0;
        for row in pollers {
            if business.covers(*route, &row.route, row.business.as_deref()) {
                missing += row.vanishing.candidates().len() as i64;
            }
        }
        for list in &withheld {
            if business.covers(*route, &list.route, list.business.as_deref()) {
                missing += list.records;
            }
        }
        if missing > 0 {
            let records = counted(missing, *route);
            notes.push(format!("{records} missing from the list and still counted"));
        }
    }
    Ok(notes)
}

/// `1 payment is`, `3 payments are`.
fn counted(records: i64, route: Route) -> String {
    let plural = route.as_str().replace('_', " ");
    if records == 1 {
        return format!("1 {} is", plural.trim_end_matches('s'));
    }
    format!("{records} {plural} are")
}
