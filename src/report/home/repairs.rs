//! The repairs that are open now, counted by status, and which statuses mean ready for pickup.

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use super::{LIMITS, begins_with_day, has, number, text};
use crate::clock::second;
use crate::record::Route;
use crate::store::{QueryError, Reader, SqlValue};

/// Words by which the name of a status says that a repair is ready for pickup.
const READY_WORDS: [&str; 3] = ["pickup", "collect", "collection"];
/// Since when the state of a repair counts as long.
const READY_LONG: SignedDuration = SignedDuration::from_hours(14 * 24);
const OPEN_LONG: SignedDuration = SignedDuration::from_hours(30 * 24);
/// In which time a status was in use, so that a count of none says something.
const IN_USE: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The open repairs with one status.
pub(super) struct OpenRepairs {
    pub(super) status: Option<String>,
    pub(super) count: f64,
    /// Those whose day of delivery has passed.
    pub(super) overdue: f64,
    /// Those whose day of delivery is in a form that is not read.
    pub(super) unread_due: f64,
    /// Those that were taken in long ago.
    pub(super) open_long: f64,
    /// Those that have the status for long, if it means ready for pickup.
    pub(super) ready_long: f64,
}

/// The open repairs, the most frequent status first.
pub(super) fn open(
    reader: &mut Reader,
    now: Timestamp,
    today: Date,
) -> Result<Vec<OpenRepairs>, QueryError> {
    let columns = reader.columns(Route::Jobs)?;
    let column = |name: &str| match columns.iter().any(|known| known == name) {
        true => format!("j.{name}"),
        false => "NULL".to_owned(),
    };
    let (created_at, due) = (column("created_at"), column("estimated_delivery"));
    let is_day = begins_with_day(&due);
    // Each part is found by an index. An empty time is no time.
    let part = |stage: &str| {
        format!(
            "SELECT s.status, s.since, {created_at} AS created_at, nullif({due}, '') AS due, \
             {is_day} AS is_day FROM _job_states s JOIN jobs j ON j.id = s.id WHERE s.stage {stage}"
        )
    };
    let parts = ["< 'completed'", "> 'completed'", "IS NULL"].map(part).join(" UNION ALL ");
    let sql = format!(
        "SELECT status, count(*), total(is_day AND substr(due, 1, 10) < :today), \
         total(due IS NOT NULL AND NOT is_day), total(created_at BETWEEN '0' AND :open_long), \
         total(since BETWEEN '0' AND :ready_long) \
         FROM ({parts}) GROUP BY status ORDER BY count(*) DESC, status"
    );
    let parameters = [
        ("today".to_owned(), SqlValue::Text(today.to_string())),
        ("open_long".to_owned(), before(now, OPEN_LONG)),
        ("ready_long".to_owned(), before(now, READY_LONG)),
    ];
    let found = reader.query(&sql, &parameters, LIMITS)?;
    let row = |row: &Vec<SqlValue>| OpenRepairs {
        status: text(&row[0]),
        count: number(&row[1]),
        overdue: number(&row[2]),
        unread_due: number(&row[3]),
        open_long: number(&row[4]),
        ready_long: number(&row[5]),
    };
    Ok(found.rows.iter().map(row).collect())
}

/// Whether a status whose name means ready for pickup was given to a repair lately.
pub(super) fn was_ready_used(reader: &mut Reader, now: Timestamp) -> Result<bool, QueryError> {
    let needs = ["status", "created_at"].map(|column| (Route::JobStatusChanges, column));
    if !has(reader, &needs)? {
        return Ok(false);
    }
    let sql = "SELECT DISTINCT status FROM job_status_changes WHERE created_at >= :since";
    let found = reader.query(sql, &[("since".to_owned(), before(now, IN_USE))], LIMITS)?;
    let mut statuses = found.rows.iter().filter_map(|row| text(&row[0]));
    Ok(statuses.any(|status| is_ready(&status, &[])))
}

/// A time as the mirror's texts are compared with it.
fn before(now: Timestamp, by: SignedDuration) -> SqlValue {
    SqlValue::Text(second(now.checked_sub(by).unwrap_or(Timestamp::MIN)))
}

/// Whether a status means ready for pickup: the configuration names those that do, or else their names decide.
pub(super) fn is_ready(status: &str, named: &[String]) -> bool {
    let status = status.trim().to_lowercase();
    if !named.is_empty() {
        return named.iter().any(|named| named.trim().to_lowercase() == status);
    }
    let words: Vec<&str> = status.split(|c: char| !c.is_alphanumeric()).collect();
    let has = |word: &str| words.contains(&word);
    status == "ready"
        || READY_WORDS.into_iter().any(has)
        || words.windows(2).any(|pair| pair == ["pick", "up"])
        || (has("ready") && has("delivery"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_statuses_say_what_is_ready_unless_the_configuration_does() {
        let guess = |status: &str| is_ready(status, &[]);
        let told = |status: &str| is_ready(status, &["Abholbereit".to_owned()]);
        assert!(guess("Ready for Pickup") && guess("to collect") && !guess("In repair"));
        for status in
            ["Ready", "Awaiting pick-up", "Pick up", "Ready for delivery", "For collection"]
        {
            assert!(guess(status), "{status}");
        }
        for status in ["Already informed", "Ready for repair", "Collected", "Out for delivery"] {
            assert!(!guess(status), "{status}");
        }
        assert!(told(" abholbereit ") && !told("Ready for pickup"));
    }
}
