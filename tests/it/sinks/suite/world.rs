//! A daemon with a log that is filled already, and every destination as its sinks.

use std::time::{Duration, Instant};

use serde_json::json;

use super::judge::{Arrival, wrong};
use super::{Destination, Mood, Scenario, no_meaning};
use crate::support::{BUDGET, LIMIT_S, Pages, Place, look_again};

/// Names that would do harm wherever text is not only text.
const NAMES: [&str; 10] = [
    "Zoë \"Q\" \\ 'x' \u{1f527}",
    "=cmd|'/C calc'!A1",
    "a\r\nBcc: thief@example.com\r\n\r\n.\r\nQUIT",
    "'; DROP TABLE changes; --",
    "$(touch owned) `touch owned`; touch owned",
    "a.b.> * /+/#",
    "\u{1b}[31m\u{202e}\u{9b}2J",
    "{{ 7 * 7 }}{% raw %}",
    "<script>alert(1)</script>&amp;",
    "nul \0 end",
];
/// Polls are rare: all changes are in the log already.
const CALM: &str = "[poll]\nmin_interval = \"30s\"\nmax_interval = \"60s\"\n";

/// What a sink is asked for besides where its destination is.
const USUAL: &str = "start = \"beginning\"\nchanges = [\"created\", \"updated\"]\n";
/// How often a refused change is tried again within two minutes; the next attempt comes in an hour.
const RETRIES: usize = 28;

/// One scenario.
pub(super) struct World {
    pub(super) place: Place,
    pub(super) all: Vec<Box<dyn Destination>>,
    pub(super) log: Vec<Arrival>,
    scenario: Scenario,
    _pages: Pages,
}

/// The record with this number.
pub(super) fn record_id(number: usize) -> String {
    match number % 4 {
        0 => format!("../{number}/'\"; \r\nPUB {number} 0"),
        1 => format!("=1+{number}.> #"),
        _ => number.to_string(),
    }
}

impl World {
    /// A log of so many records with so many versions each, in turns, and every destination that
    /// has a cell in this scenario or is a neighbour in it.
    pub(super) async fn of(
        scenario: Scenario,
        all: Vec<Box<dyn Destination>>,
        records: usize,
        versions: usize,
    ) -> Self {
        let rows = (0..versions).flat_map(|version| {
            (0..records)
                .map(move |record| (record, version, NAMES[(record + version) % 10].to_owned()))
        });
        Self::filled(scenario, all, rows.collect()).await
    }

    /// As [`Self::of`], with these rows: number of the record, number of the version from 0, name.
    pub(super) async fn filled(
        scenario: Scenario,
        all: Vec<Box<dyn Destination>>,
        rows: Vec<(usize, usize, String)>,
    ) -> Self {
        let pages = Pages::start().await;
        let place = pages.place();
        place.configure_all(&format!("{BUDGET}{CALM}"));
        let made = place.run(["once"]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        let log = fill(&place, &rows);
        let world = Self {
            place,
            all,
            log,
            scenario,
            _pages: pages,
        };
        world.configure("2m");
        world
    }

    /// Writes the configuration: every destination with this time-out.
    pub(super) fn configure(&self, timeout: &str) {
        // A kill needs a moment in which no failed attempt waits to be saved.
        let first = if self.scenario == Scenario::Kill {
            "10s"
        } else {
            "500ms"
        };
        let retry = format!(
            "retry = [\"{first}\", \"1s\", {}\"1h\"]\n",
            "\"4s\", ".repeat(RETRIES)
        );
        let sinks = self.all.iter().map(|one| {
            let (name, keys) = (one.name(), one.keys(timeout));
            format!("[sinks.{name}]\n{keys}\n{USUAL}{retry}\n")
        });
        let sinks: String = sinks.collect();
        self.place.configure_all(&format!("{BUDGET}{CALM}{sinks}"));
    }

    pub(super) fn be(&self, mood: Mood) {
        self.all.iter().for_each(|one| one.be(mood));
    }

    /// The destinations that have a cell in this scenario.
    pub(super) fn cells(&self) -> impl Iterator<Item = &dyn Destination> {
        let has_cell = |one: &&dyn Destination| no_meaning(one.name(), self.scenario).is_none();
        self.all.iter().map(AsRef::as_ref).filter(has_cell)
    }

    pub(super) fn position(&self, name: &str) -> i64 {
        self.place.number(&format!(
            "SELECT position FROM _sinks WHERE name = '{name}'"
        ))
    }

    /// Changes of which the store knows that the sink has them.
    pub(super) fn delivered(&self, name: &str) -> i64 {
        self.place.number(&format!(
            "SELECT delivered FROM _sinks WHERE name = '{name}'"
        ))
    }

    /// Rows that are handed over next.
    pub(super) fn ready(&self, name: &str) -> i64 {
        let ready =
            format!("SELECT count(*) FROM _queue WHERE sink = '{name}' AND state = 'ready'");
        self.place.number(&ready)
    }

    /// Whether the sink has nothing more to hand over.
    pub(super) fn is_done(&self, name: &str) -> bool {
        let last = i64::try_from(self.log.len()).unwrap();
        let open = format!("SELECT count(*) FROM _queue WHERE sink = '{name}'");
        self.position(name) >= last && self.place.number(&open) == 0
    }

    /// Waits until the condition holds for each of these destinations, and names those that it does
    /// not hold for.
    pub(super) async fn each<'a>(
        &self,
        what: &str,
        of: impl IntoIterator<Item = &'a dyn Destination>,
        condition: impl AsyncFn(&dyn Destination) -> bool,
    ) {
        let begun = Instant::now();
        let mut limit = begun + Duration::from_secs(LIMIT_S);
        let mut left: Vec<&dyn Destination> = of.into_iter().collect();
        let mut moved = Vec::new();
        loop {
            // A long backlog takes its time on a busy machine, and must go on.
            let now = self
                .place
                .rows("SELECT position, delivered FROM _sinks ORDER BY name");
            if now != moved {
                moved = now;
                limit = Instant::now() + Duration::from_secs(LIMIT_S);
            }
            let mut still = Vec::new();
            for one in left {
                if !condition(one).await {
                    still.push(one);
                }
            }
            if still.is_empty() {
                return;
            }
            let names: Vec<&str> = still.iter().map(|one| one.name()).collect();
            assert!(
                Instant::now() < limit,
                "{names:?}: waited in vain until {what}\n{:?}\n{}",
                self.place.rows("SELECT * FROM _sinks"),
                self.place.log()
            );
            left = still;
            look_again(begun, 50).await;
        }
    }

    /// Waits until every sink is done.
    pub(super) async fn done(&self) {
        let all = self.all.iter().map(AsRef::as_ref);
        self.each("it is done", all, async |one| self.is_done(one.name()))
            .await;
    }

    /// Every cell of the scenario holds the whole log; `once` says of which nothing may be there
    /// twice. All cells that are wrong are named together.
    pub(super) async fn judge(&self, once: impl Fn(&dyn Destination) -> bool) {
        let mut said = Vec::new();
        for one in &self.all {
            let one = one.as_ref();
            // What was acknowledged may reach a reader a little later.
            let limit = Instant::now() + Duration::from_secs(LIMIT_S);
            let mut found = wrong(&self.log, &one.received().await, once(one));
            while found.as_ref().is_some_and(|text| text.contains("missing"))
                && Instant::now() < limit
            {
                tokio::time::sleep(Duration::from_millis(100)).await;
                found = wrong(&self.log, &one.received().await, once(one));
            }
            let found = match found {
                None => one.trespass().await,
                found => found,
            };
            said.extend(found.map(|text| format!("{} in {:?}: {text}", one.name(), self.scenario)));
        }
        assert!(said.is_empty(), "{}", said.join("\n"));
    }
}

/// Fills the log as polls would have, and returns what each sink is to get.
fn fill(place: &Place, rows: &[(usize, usize, String)]) -> Vec<Arrival> {
    let mut store = place.writer();
    let tx = store.transaction().unwrap();
    let mut log = Vec::with_capacity(rows.len());
    for (index, (record, version, name)) in rows.iter().enumerate() {
        let id = record_id(*record);
        let change = Arrival {
            event_id: format!("evt_{index:06}"),
            record_id: id.clone(),
            version: i64::try_from(version + 1).unwrap(),
            name: name.clone(),
        };
        let mut body = json!({ "id": id, "name": name, "mobile": format!("+4917{index:08}") });
        if name.contains(super::REFUSED) {
            // Each destination has its own reason to refuse it.
            body["note"] = "n".repeat(40_000).into();
            body["follow"] = "no date".into();
        } else {
            body["must"] = "".into();
        }
        let kind = if *version == 0 { "created" } else { "updated" };
        let route = ["payments", "customers", "leads", "jobs"][record % 4];
        tx.prepare_cached(
            "INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, body) \
             VALUES (?, ?, ?, ?, ?, '2026-01-02T03:04:05.000000Z', ?)",
        )
        .unwrap()
        .execute((
            &change.event_id,
            route,
            &change.record_id,
            kind,
            change.version,
            body.to_string(),
        ))
        .unwrap();
        log.push(change);
    }
    tx.commit().unwrap();
    log
}
