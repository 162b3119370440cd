//! The repairs that are open, and those that were completed lately, by their current state.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{has, texts};
use crate::clock::second;
use crate::record::Route;
use crate::store::{JobLink, QueryError, Reader, SqlValue};

/// Words by which the name of a status says that a repair is ready for pickup.
const READY_WORDS: [&str; 3] = ["pickup", "collect", "collection"];

/// A repair, open or completed lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Repair {
    pub(super) status: Option<String>,
    /// Its times in UTC as the mirror holds them; empty if it was always so.
    pub(super) created_at: String,
    pub(super) since: String,
    pub(super) completed_at: Option<String>,
    pub(super) due: Due,
    pub(super) is_ready: bool,
    /// Since when, or from when to its completion, it was ready for pickup.
    pub(super) ready_from: Option<String>,
}

/// When a repair is to be delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Due {
    #[default]
    Never,
    On(Date),
    /// There is a date, in a form that is not read.
    Unread,
}

impl Due {
    /// Reads the day at the start of a text.
    fn of(text: &str) -> Self {
        match text.get(..10).map(str::parse) {
            _ if text.is_empty() => Self::Never,
            Some(Ok(day)) => Self::On(day),
            _ => Self::Unread,
        }
    }
}

impl Repair {
    pub(super) fn is_open(&self) -> bool {
        self.completed_at.is_none()
    }

    /// Whether it was open at a time, which lies in the days that were read.
    pub(super) fn was_open(&self, then: &Moment) -> bool {
        self.created_at.as_str() <= then.text.as_str()
            && self.completed_at.as_ref().is_none_or(|completed| *completed > then.text)
    }

    pub(super) fn was_ready(&self, then: &Moment) -> bool {
        self.ready_from.as_ref().is_some_and(|from| *from <= then.text) && self.was_open(then)
    }

    pub(super) fn was_overdue(&self, then: &Moment) -> bool {
        matches!(self.due, Due::On(due) if due < then.day) && self.was_open(then)
    }
}

/// A time as the mirror's texts are compared with it, and its day in the shop's zone.
pub(super) struct Moment {
    text: String,
    day: Date,
}

impl Moment {
    pub(super) fn of(at: Timestamp, zone: &TimeZone) -> Self {
        Self { text: second(at), day: at.to_zoned(zone.clone()).date() }
    }
}

/// What says whether a status means that a repair is ready for pickup.
pub(super) struct ReadyStatus<'a> {
    /// The statuses of the configuration; without them, the names decide.
    pub(super) named: &'a [String],
}

impl ReadyStatus<'_> {
    pub(super) fn is(&self, status: &str) -> bool {
        let status = status.trim().to_lowercase();
        if self.named.is_empty() {
            let words: Vec<&str> = status.split(|c: char| !c.is_alphanumeric()).collect();
            let has = |word: &str| words.contains(&word);
            return status == "ready"
                || READY_WORDS.into_iter().any(has)
                || words.windows(2).any(|pair| pair == ["pick", "up"])
                || (has("ready") && has("delivery"));
        }
        self.named.iter().any(|named| named.trim().to_lowercase() == status)
    }
}

/// The repairs that are open, and those completed since a time.
pub(super) fn read(
    reader: &mut Reader,
    since: Timestamp,
    link: Option<&JobLink>,
    ready: &ReadyStatus<'_>,
) -> Result<Vec<Repair>, QueryError> {
    let columns = reader.columns(Route::Jobs)?;
    let column = |name: &str| match columns.iter().any(|known| known == name) {
        true => format!("j.{name}"),
        false => "NULL".to_owned(),
    };
    // What the repair was before it was completed.
    let needs = ["status", "created_at"].map(|column| (Route::JobStatusChanges, column));
    let says_before = has(reader, &needs)?;
    let before = link.filter(|_| says_before).map_or_else(
        || "NULL".to_owned(),
        |link| {
            let is_of_job = link.condition_from_job("p", "j");
            format!(
                "(SELECT p.created_at || ' ' || p.status FROM job_status_changes p \
                 WHERE {is_of_job} AND p.created_at < s.completed_at \
                 ORDER BY p.created_at DESC LIMIT 1)"
            )
        },
    );
    let select = |before: &str, condition: &str| {
        format!(
            "SELECT s.status, {created}, s.since, s.completed_at, {due}, {before} \
             FROM _job_states s JOIN jobs j ON j.id = s.id \
             WHERE {condition}",
            created = column("created_at"),
            due = column("estimated_delivery"),
        )
    };
    // Each part is found by an index.
    let parts = [
        select("NULL", "s.stage < 'completed'"),
        select("NULL", "s.stage > 'completed'"),
        select("NULL", "s.stage IS NULL"),
        select(&before, "s.completed_at >= :since"),
    ];
    let parameters = [("since".to_owned(), SqlValue::Text(second(since)))];
    let rows = texts(reader, &parts.join(" UNION ALL "), &parameters)?;
    Ok(rows.into_iter().map(|row| repair(row, ready)).collect())
}

fn repair(row: Vec<Option<String>>, ready: &ReadyStatus<'_>) -> Repair {
    let mut cells = row.into_iter();
    let mut next = || cells.next().flatten();
    let status = next();
    let (created_at, since, completed_at) =
        (next().unwrap_or_default(), next().unwrap_or_default(), next());
    let due = next().map_or(Due::Never, |text| Due::of(&text));
    let before = next();
    let is_ready = completed_at.is_none() && status.as_deref().is_some_and(|s| ready.is(s));
    let ready_from = match &completed_at {
        None => is_ready.then(|| since.clone()),
        Some(_) => before
            .as_deref()
            .and_then(|before| before.split_once(' '))
            .and_then(|(since, status)| ready.is(status).then(|| since.to_owned())),
    };
    Repair { status, created_at, since, completed_at, due, is_ready, ready_from }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_date_is_the_day_at_the_start_of_a_text() {
        for text in ["2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01 12:30"] {
            assert_eq!(Due::of(text), Due::On("2026-03-01".parse().unwrap()));
        }
        let others = ["", "soon", "01/03/2026"].map(Due::of);
        assert_eq!(others, [Due::Never, Due::Unread, Due::Unread]);
    }

    #[test]
    fn a_repair_is_open_from_intake_until_completion_and_ready_before_it() {
        let repair = Repair {
            created_at: "2026-03-01T10:00:00.5Z".to_owned(),
            completed_at: Some("2026-03-05T10:00:00Z".to_owned()),
            ready_from: Some("2026-03-03T10:00:00Z".to_owned()),
            due: Due::On("2026-03-03".parse().unwrap()),
            ..Repair::default()
        };
        let states = |day: &str| {
            let then = Moment::of(format!("{day}T12:00:00Z").parse().unwrap(), &TimeZone::UTC);
            (repair.was_open(&then), repair.was_ready(&then), repair.was_overdue(&then))
        };
        assert_eq!(states("2026-02-28"), (false, false, false));
        assert_eq!(states("2026-03-01"), (true, false, false));
        assert_eq!(states("2026-03-03"), (true, true, false));
        assert_eq!(states("2026-03-04"), (true, true, true));
        assert_eq!(states("2026-03-05"), (false, false, false));
    }

    #[test]
    fn the_names_of_statuses_say_what_is_ready_unless_the_configuration_does() {
        let named = ["Abholbereit".to_owned()];
        let (guess, told) = (ReadyStatus { named: &[] }, ReadyStatus { named: &named });
        assert!(guess.is("Ready for Pickup") && guess.is("to collect") && !guess.is("In repair"));
        for status in
            ["Ready", "Awaiting pick-up", "Pick up", "Ready for delivery", "For collection"]
        {
            assert!(guess.is(status), "{status}");
        }
        for status in ["Already informed", "Ready for repair", "Collected", "Out for delivery"] {
            assert!(!guess.is(status), "{status}");
        }
        assert!(told.is(" abholbereit ") && !told.is("Ready for pickup"));
    }
}
