//! The offsets of the workspace's time zone, in the table `_time_zone_offsets`.
//!
//! SQLite knows no time zones. The views add the offset of the row in which a time lies, so that
//! any program reads local times, also on the days when the clocks change.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rusqlite::{Connection, named_params};

use super::error::StoreError;
use super::handle::Store;
use super::open::write_tx;
use super::sql::Sql;

/// Before this second (the year 2000) the first offset holds.
const FIRST_SECOND: i64 = 946_684_800;
/// How many years ahead the offsets reach.
const YEARS_AHEAD: i64 = 10;
/// The most changes of the clock that are kept.
const MAX: usize = 400;

impl Store {
    /// Keeps the offsets of the workspace's time zone, which the views `report_*` use.
    pub async fn store_time_zone(&self, zone: TimeZone, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |writer| {
            let wanted = offsets(&zone, now);
            if read(&writer.connection)? == wanted {
                return Ok(());
            }
            let tx = write_tx(&mut writer.connection)?;
            tx.execute("DELETE FROM _time_zone_offsets", [])?;
            for (from_at, seconds) in wanted {
                tx.run(
                    "INSERT INTO _time_zone_offsets (from_at, seconds)
                    VALUES (:from_at, :seconds)",
                    named_params! { ":from_at": from_at, ":seconds": seconds },
                )?;
            }
            Ok(tx.commit()?)
        })
        .await
    }
}

fn read(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let sql = "
        SELECT from_at, seconds
        FROM _time_zone_offsets
        ORDER BY from_at";
    connection
        .prepare(sql)?
        .query_map([], |row| row.try_into())?
        .collect()
}

/// From when (UTC) the zone has which offset, in seconds.
fn offsets(zone: &TimeZone, now: Timestamp) -> Vec<(String, i64)> {
    let first = Timestamp::from_second(FIRST_SECOND).unwrap_or(Timestamp::UNIX_EPOCH);
    let years = Span::new().years(YEARS_AHEAD);
    let end = match now.to_zoned_datetime(TimeZone::UTC).checked_add(years) {
        Ok(end) => end.timestamp(),
        Err(_) => Timestamp::MAX,
    };
    let mut seconds = i64::from(zone.to_offset(first).seconds());
    let mut offsets = vec![("0001-01-01T00:00:00".to_owned(), seconds)];
    for change in zone.following(first).take(MAX) {
        if change.timestamp() >= end {
            break;
        }
        let after = i64::from(change.offset().seconds());
        // Some zones change their name only.
        if after != seconds {
            seconds = after;
            let at = change.timestamp().strftime("%Y-%m-%dT%H:%M:%S");
            offsets.push((at.to_string(), seconds));
        }
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_changes_of_the_clock() {
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let berlin = offsets(&TimeZone::get("Europe/Berlin").unwrap(), now);
        assert_eq!(berlin[0], ("0001-01-01T00:00:00".to_owned(), 3600));
        assert!(
            berlin.contains(&("2026-03-29T01:00:00".to_owned(), 7200)),
            "{berlin:?}"
        );
        assert!(
            berlin.contains(&("2026-10-25T01:00:00".to_owned(), 3600)),
            "{berlin:?}"
        );
        assert!(
            berlin.last().unwrap().0.starts_with("2035-10"),
            "{berlin:?}"
        );
        assert_eq!(offsets(&TimeZone::UTC, now).len(), 1);
        let kolkata = offsets(&TimeZone::get("Asia/Kolkata").unwrap(), now);
        assert_eq!(kolkata, [("0001-01-01T00:00:00".to_owned(), 19_800)]);
    }
}
