//! What a report says of itself in words: since when its lists are complete, which gaps they have,
//! when they were read, and what it leaves out.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::record::Route;

use super::Exactness;
use super::assumed::assumed;
use super::coverage::{Coverage, OLD};
use super::knowledge::Knowledge;
use crate::report::uses::Uses;
use crate::store::{Reader, StoreError, missing_link};
use crate::text::number::{count, whole};

/// A note for each list of a report whose values are being read again.
///
/// # Errors
/// If the store cannot be read.
fn of_rereads(reader: &Reader, uses: &Uses) -> Result<Vec<String>, StoreError> {
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
    let lists = known.coverages.iter();
    let Some((since, by)) = lists.filter_map(Coverage::complete_since).max() else {
        let word = if is_about { "Read" } else { "Complete" };
        return format!("{word} from the first record on");
    };
    let word = if is_about { "All read" } else { "Complete" };
    format!("{word} since {}{by}", moment(since, zone))
}

impl Coverage {
    /// Since when the list is complete, and what is said after that.
    fn complete_since(&self) -> Option<(Timestamp, &'static str)> {
        let by = if self.is_by_import { ", by import" } else { "" };
        Some((self.since?, by))
    }
}

impl Knowledge {
    /// The notes of a query about what it reads: about links, values that are read again, `own`, the
    /// notes of its report, what is assumed, and what was not seen.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(in crate::report) fn of_query(
        &self,
        reader: &Reader,
        uses: &Uses,
        own: Vec<String>,
        zone: &TimeZone,
    ) -> Result<Vec<String>, StoreError> {
        let mut notes = self.of_links(uses);
        notes.extend(of_rereads(reader, uses)?);
        notes.extend(own);
        notes.extend(assumed(reader, uses)?);
        notes.extend(self.of_edits(reader, uses)?);
        notes.extend(self.of_refunds(uses));
        notes.extend(self.of_unheard(uses, zone));
        notes.extend(self.of_reopened(uses));
        Ok(notes)
    }

    /// A note that states or paid sums are as last seen, if newer records do not name their job.
    fn of_links(&self, uses: &Uses) -> Vec<String> {
        let mut notes = Vec::new();
        for (route, matters) in [
            (Route::JobStatusChanges, uses.states),
            (Route::Payments, uses.paid_sums),
        ] {
            if matters && !self.linked.contains(&route) {
                notes.push(missing_link(route));
            }
        }
        notes
    }

    /// A note that amounts are as last seen, if their lists do not show old records again.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn of_edits(&self, reader: &Reader, uses: &Uses) -> Result<Option<String>, StoreError> {
        let mut hides = false;
        for (route, matters) in [
            (Route::Payments, uses.kinds || uses.paid_sums),
            (Route::Jobs, uses.paid_sums || uses.totals),
        ] {
            let is_hidden = matters && self.hiding_edits.contains(&route);
            hides |= is_hidden && reader.has_left_pages(route)?;
        }
        Ok(hides.then(|| {
            "amounts are as last seen: what left the newest page is not shown again".to_owned()
        }))
    }

    /// A note that more is owed if a refund was missed.
    fn of_refunds(&self, uses: &Uses) -> Option<String> {
        if !uses.paid_sums || !self.lacks(Route::Payments, self.as_of(&uses.routes)) {
            return None;
        }
        Some("payments may be missing: if one of them was a refund, more is owed".to_owned())
    }

    /// The notes of a report that counts repairs which were not heard of.
    fn of_unheard(&self, uses: &Uses, zone: &TimeZone) -> Vec<String> {
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
        match self.unseen.reopened_after(Timestamp::MIN) {
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

    /// A note that completed repairs may be open again, for a report that counts them.
    fn of_reopened(&self, uses: &Uses) -> Option<String> {
        if !uses.sums_completed || uses.unheard {
            return None;
        }
        let from = self.days.first().map_or(Timestamp::MIN, |day| day.from);
        match self.unseen.reopened_after(from) {
            Some(0) => None,
            Some(most) => Some(format!(
                "up to {} may have been opened again while status changes were missed, and may count \
                 no more",
                count(
                    usize::try_from(most).unwrap_or(usize::MAX),
                    "completed repair",
                    "completed repairs"
                )
            )),
            None => Some(
                "completed repairs may have been opened again while status changes were missed, and \
                 may count no more"
                    .to_owned(),
            ),
        }
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
        let mut parts = self.grouped(|known| {
            Some(match (known.read_at, known.complete_since()) {
                (None, _) => "never read".to_owned(),
                (_, None) if worst == Exactness::Exact => "complete".to_owned(),
                (_, None) => "read from the first record on".to_owned(),
                (_, Some((since, by))) if worst == Exactness::About => {
                    format!("all read since {}{by}", moment(since, zone))
                }
                (_, Some((since, by))) => format!("complete since {}{by}", moment(since, zone)),
            })
        });
        if self.coverages.iter().any(|known| known.since.is_some()) {
            parts.push("of earlier times only some records are known".to_owned());
        }
        parts.extend(self.gaps(has_period, zone));
        parts.extend(self.imports(zone));
        parts.extend(self.grouped(|known| {
            let at = known.read_at?;
            if self.now.duration_since(at) <= OLD {
                return None;
            }
            Some(format!("last read on {}", moment(at, zone)))
        }));
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
    fn imports(&self, zone: &TimeZone) -> Vec<String> {
        let mut parts = Vec::new();
        for list in &self.coverages {
            let name = list.route.as_str().replace('_', " ");
            for import in &list.imports {
                let from = moment(import.from, zone);
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

    /// The gaps of each list; with `has_period` those of the days only.
    fn gaps(&self, has_period: bool, zone: &TimeZone) -> Vec<String> {
        let (mut from, mut to) = (Timestamp::MIN, Timestamp::MAX);
        if has_period
            && let Some(first) = self.days.first()
            && let Some(last) = self.days.last()
        {
            (from, to) = (first.from, last.to);
        }
        let mut parts = Vec::new();
        for list in &self.coverages {
            let mut near = Vec::new();
            for gap in &list.gaps {
                if gap.0 < to && gap.1 > from && gap.0 < self.now {
                    near.push(gap);
                }
            }
            let last = near.iter().map(|gap| gap.1).max();
            let (Some((first, _)), Some(last)) = (near.first(), last) else {
                continue;
            };
            let (first, last) = (moment(*first, zone), moment(last, zone));
            let name = list.route.as_str().replace('_', " ");
            parts.push(match near.len() {
                1 => format!("{name} may be missing between {first} and {last}"),
                gaps => format!(
                    "{name} may be missing in {gaps} gaps between {first} and {last}: see \
                     `shopmirror gaps`"
                ),
            });
        }
        parts
    }
}

/// A moment on the clock of the shop.
fn moment(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned_datetime(zone.clone())
        .strftime("%-d %B %Y, %H:%M")
        .to_string()
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
                is_by_import: false,
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
                hiding_edits: Vec::new(),
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
