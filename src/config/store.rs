//! `[store]` and `[backup]`: the path of the database, how long old versions stay, and the daily
//! copies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::Time;
use serde::{Deserialize, Deserializer};

use super::offsite::{self, OffsiteSettings};
use super::table::Table;
use super::value::{DAY_MS, HOUR_MS, lasting, number, parsed, seconds, within};

/// The name of the database unless the configuration says otherwise.
pub(super) const DATABASE: &str = "mirror.db";
/// The name of the file that says which store a state folder has.
const NOTE: &str = "store.identity";
const DAY_S: u64 = 86_400;
/// A century.
const RETENTION_MAX_MS: u64 = 100 * 31_557_600_000;

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoreSettings {
    /// The SQLite file.
    #[serde(default = "database")]
    pub path: PathBuf,
    /// How long older versions stay in the log. The newest version of a record is always kept.
    #[serde(default = "seconds::<{ 400 * DAY_S }>")]
    #[serde(deserialize_with = "lasting::<60_000, RETENTION_MAX_MS, _, _>")]
    pub log_retention: Duration,
    /// The file of the state folder that says which store there is; `None` without a state folder.
    #[serde(skip)]
    pub note: Option<PathBuf>,
}

/// `[backup]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BackupSettings {
    /// How many daily backups are kept; 0 makes none.
    #[serde(
        default = "number::<7, _>",
        deserialize_with = "within::<0, 366, _, _>"
    )]
    pub keep: usize,
    /// When the daily backup is made, by the machine's time zone.
    #[serde(default = "half_past_three", deserialize_with = "time_of_day")]
    pub at: Time,
    /// How often a backup is made, from `at` on, if more than once a day.
    #[serde(default, deserialize_with = "lasting::<HOUR_MS, DAY_MS, _, _>")]
    pub every: Option<Duration>,
    /// The folder they are written to.
    #[serde(default = "backups")]
    pub path: PathBuf,
    /// The bucket that gets each backup as well; `None` if none does.
    #[serde(skip)]
    pub offsite: Option<OffsiteSettings>,
}

impl BackupSettings {
    /// The times of day at which a backup is made, the earliest first: `at`, and then each time that
    /// `every` has passed within the day.
    #[must_use]
    pub fn times(&self) -> Vec<Time> {
        let every = self.every.unwrap_or(Duration::from_secs(DAY_S));
        let mut times = Vec::new();
        let mut after = Duration::ZERO;
        while after < Duration::from_secs(DAY_S) {
            let after_at = jiff::SignedDuration::try_from(after).unwrap_or_default();
            times.push(self.at.wrapping_add(after_at));
            after += every;
        }
        times.sort_unstable();
        times
    }
}

fn database() -> PathBuf {
    DATABASE.into()
}

fn backups() -> PathBuf {
    "backups".into()
}

fn half_past_three() -> Time {
    Time::constant(3, 30, 0, 0)
}

/// `[store]`; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<StoreSettings> {
    let read: StoreSettings = table.read(&[])?;
    let path = table.file.base.store_path(&read.path);
    table.claim(&path);
    let state = table.file.base.state_dir.as_deref();
    Some(StoreSettings {
        path,
        note: state.map(|folder| folder.join(NOTE)),
        ..read
    })
}

/// `[backup]`; `store` is where the store is. `None` only if a problem was noted.
pub(super) fn backup(table: &Table<'_>, store: &Path) -> Option<BackupSettings> {
    let read: Option<BackupSettings> = table.read(&[]);
    let offsite = if table.has("s3") {
        let offsite = table.section("s3", offsite::read);
        if read.as_ref().is_some_and(|read| read.keep == 0) {
            table.note(
                "keep",
                "must be at least 1 for [backup.s3], which gets these backups",
            );
        }
        offsite
    } else {
        None
    };
    let read = read?;
    let path = if table.has("path") {
        table.file.base.state_path(&read.path)
    } else {
        store.with_file_name(&read.path)
    };
    Some(BackupSettings {
        path,
        offsite,
        ..read
    })
}

/// A time of day.
fn time_of_day<'de, D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
    parsed(d, parse_time_of_day)
}

/// A time of day, as `07:30`; the error follows the name of the key.
pub(super) fn parse_time_of_day(text: &str) -> Result<Time, String> {
    let read = Time::strptime("%H:%M", text);
    read.map_err(|_| "must be a time of day from \"00:00\" to \"23:59\"".to_owned())
}
