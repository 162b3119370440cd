//! What a report says of itself in words: since when its lists are complete, which gaps they have,
//! when they were read, and what it leaves out.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::record::Route;

use super::Exactness;
use super::coverage::{Coverage, OLD};
use super::knowledge::Knowledge;
use crate::report::uses::Uses;
use crate::store::{Reader, StoreError, missing_link};
use crate::text::number::{count, whole};

/// A note that states or paid sums are as last seen, if newer records do not name their job.
///
/// # Errors
/// If the store cannot be read.
pub(in crate::report) fn of_links(reader: &Reader, uses: &Uses) -> Result<Vec<String>, StoreError> {
    let mut notes = Vec::new();
    for route in reader.unlinked_routes()? {
        let matters = match route {
            Route::JobStatusChanges => uses.states,
            _ => uses.paid_sums,
        };
        if matters {
            notes.push(missing_link(route));
        }
    }
    Ok(notes)
}

/// A note for each list of a report whose values are being read again.
///
/// # Errors
/// If the store cannot be read.
pub(in crate::report) fn of_rereads(
    reader: &Reader,
    uses: &Uses,
) -> Result<Vec<String>, StoreError> {
    let mut notes = Vec::new();
    for reread in reader.rereads()? {
        if uses.routes.contains(&reread.route) {
            notes.push(format!(
                "the values of {} are being read again ({} of {} records): until then, numbers may \
                 change",
                reread.route.as_str().replace('_', " "),
                whole(reread.done),
                whole(reread.total)
            ));
        }
    }
    Ok(notes)
}

/// A note that cancelled repairs cannot be told from completed ones.
///
/// # Errors
/// If the store cannot be read.
pub(in crate::report) fn of_cancelled(
    reader: &Reader,
    uses: &Uses,
) -> Result<Option<String>, StoreError> {
    if !uses.completed || reader.knows_cancelled()? {
        return Ok(None);
    }
    Ok(Some(
        "no repair has a status whose name means cancelled: if there is one, set cancelled_status in \
         [reports]"
            .to_owned(),
    ))
}

/// A note that repairs are left out because the mirror does not hold them.
pub(in crate::report) fn of_unknown_jobs(jobs: usize) -> Option<String> {
    if jobs == 0 {
        return None;
    }
    let repairs = count(jobs, "completed repair is", "completed repairs are");
    Some(format!(
        "{repairs} left out, of which only a status change was seen: most were taken in before \
         the mirror began, so the true numbers may be higher"
    ))
}

/// Since when every list is complete, for the shop. Beside a number that is only about so much
/// (`is_about`), it says what was read and not that it is complete.
pub(in crate::report) fn complete_since(
    known: &Knowledge,
    is_about: bool,
    zone: &TimeZone,
) -> String {
    if known.coverages.iter().any(|list| list.read_at.is_none()) {
        return "Not every list has been read so far".to_owned();
    }
    let Some(since) = known.coverages.iter().filter_map(|list| list.since).max() else {
        let word = if is_about { "Read" } else { "Complete" };
        return format!("{word} from the first record on");
    };
    let word = if is_about { "All read" } else { "Complete" };
    let since = since.to_zoned_datetime(zone.clone());
    format!("{word} since {}", since.strftime("%-d %B %Y, %H:%M"))
}

impl Knowledge {
    /// The notes of a report that counts repairs which were not heard of.
    pub(in crate::report) fn of_unheard(&self, uses: &Uses, zone: &TimeZone) -> Vec<String> {
        let mut notes = Vec::new();
        if !uses.unheard {
            return notes;
        }
        if self.unseen.hides_edits && uses.delivery_dates {
            let text = "delivery dates are as last seen: a repair that left the newest page is not \
                        shown again";
            notes.push(text.to_owned());
        }
        if let Some((repairs, since)) = self.unseen.unheard() {
            let repairs = usize::try_from(repairs).unwrap_or(usize::MAX);
            let repairs = count(repairs, "open repair was", "open repairs were");
            let since = since.to_zoned_datetime(zone.clone()).strftime("%-d %B");
            notes.push(format!(
                "{repairs} not heard of since {since}, when status changes may have been missed: look \
                 them up with `shopmirror report repairs --set unheard=1`"
            ));
        }
        match self.unseen.reopened() {
            Some(0) => {}
            Some(most) => {
                let most = whole(i64::try_from(most).unwrap_or(i64::MAX));
                notes.push(format!(
                    "up to {most} more if completed repairs were reopened in the gap"
                ));
            }
            None => notes.push(
                "there are more open repairs if completed ones were reopened while status changes \
                 were missed"
                    .to_owned(),
            ),
        }
        notes
    }

    /// Since when the data is complete, for people. `has_period` leaves out the gaps of other
    /// times.
    /// A line with a number that is not exact says what was read of the lists: `worst` is the least
    /// sure of the numbers.
    pub(in crate::report) fn line(
        &self,
        has_period: bool,
        worst: Exactness,
        zone: &TimeZone,
    ) -> String {
        let moment = |at: Timestamp| {
            at.to_zoned_datetime(zone.clone())
                .strftime("%-d %B %Y, %H:%M")
                .to_string()
        };
        let mut parts = self.grouped(|known| {
            Some(match (known.read_at, known.since) {
                (None, _) => "never read".to_owned(),
                (_, None) if worst == Exactness::Exact => "complete".to_owned(),
                (_, None) => "read from the first record on".to_owned(),
                (_, Some(since)) if worst == Exactness::About => {
                    format!("all read since {}", moment(since))
                }
                (_, Some(since)) => format!("complete since {}", moment(since)),
            })
        });
        if self.coverages.iter().any(|known| known.since.is_some()) {
            parts.push("of earlier times only some records are known".to_owned());
        }
        parts.extend(self.gaps(has_period, &moment));
        parts.extend(self.imports(&moment));
        let is_old = |at: &Timestamp| self.now.duration_since(*at) > OLD;
        let last_read = |at| format!("last read on {}", moment(at));
        parts.extend(self.grouped(|known| known.read_at.filter(is_old).map(last_read)));
        if parts.is_empty() {
            return "nothing is known of how complete the data is".to_owned();
        }
        parts.join("; ")
    }

    /// A text for each list that has one; lists with the same text are named together.
    fn grouped(&self, text_of: impl Fn(&Coverage) -> Option<String>) -> Vec<String> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for list in &self.coverages {
            let Some(text) = text_of(list) else { continue };
            let name = list.route.as_str().replace('_', " ");
            match groups.iter_mut().find(|(other, _)| *other == text) {
                Some((_, names)) => names.push(name),
                None => groups.push((text, vec![name])),
            }
        }
        groups
            .into_iter()
            .map(|(text, names)| format!("{}: {text}", names.join(", ")))
            .collect()
    }

    /// The imports that no page showed whole.
    fn imports(&self, moment: &impl Fn(Timestamp) -> String) -> Vec<String> {
        let mut parts = Vec::new();
        for list in &self.coverages {
            let name = list.route.as_str().replace('_', " ");
            for import in &list.imports {
                let from = moment(import.from);
                let reach = if import.may_be_older {
                    "and their dates may be older still"
                } else {
                    "and none is older"
                };
                parts.push(format!(
                    "{name} of an import may be missing: those that were seen are dated from {from} \
                     on, {reach}; see `shopmirror gaps`"
                ));
            }
        }
        parts
    }

    fn gaps(&self, has_period: bool, moment: &impl Fn(Timestamp) -> String) -> Vec<String> {
        let days = self
            .days
            .first()
            .zip(self.days.last())
            .filter(|_| has_period);
        let is_near = |gap: &(Timestamp, Timestamp)| {
            days.is_none_or(|(first, last)| gap.0 < last.to && gap.1 > first.from)
        };
        let missing = |known: &Coverage| {
            let near = known
                .gaps
                .iter()
                .filter(|gap| is_near(gap) && gap.0 < self.now);
            let near: Vec<_> = near.collect();
            let from = moment(near.first()?.0);
            let to = moment(near.iter().map(|gap| gap.1).max()?);
            let name = known.route.as_str().replace('_', " ");
            Some(match near.len() {
                1 => format!("{name} may be missing between {from} and {to}"),
                gaps => format!(
                    "{name} may be missing in {gaps} gaps between {from} and {to}: see \
                     `shopmirror gaps`"
                ),
            })
        };
        self.coverages.iter().filter_map(missing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_since_when_every_list_is_complete() {
        let of = |read_at: Option<&str>, since: Option<&str>| {
            let at = |text: &str| text.parse().unwrap();
            let list = Coverage {
                route: Route::Jobs,
                read_at: read_at.map(at),
                since: since.map(at),
                gaps: Vec::new(),
                imports: Vec::new(),
            };
            let known = Knowledge {
                unseen: crate::report::exactness::standing::Unseen::default(),
                coverages: vec![list],
                linked: Vec::new(),
                unknown_jobs: Vec::new(),
                gone: Vec::new(),
                days: Vec::new(),
                now: Timestamp::MAX,
            };
            complete_since(&known, false, &TimeZone::UTC)
        };
        let read = Some("2026-12-01T10:00:00Z");
        assert_eq!(of(read, None), "Complete from the first record on");
        assert_eq!(of(None, None), "Not every list has been read so far");
        let since = of(read, Some("2026-12-01T08:00:00Z"));
        assert_eq!(since, "Complete since 1 December 2026, 08:00");
    }
}
