//! Asks the program every report in every form, and compares each number with the truth.

use jiff::ToSpan;
use shopmirror::config::{CountedBy, ReportFormat};
use shopmirror::report::{self, Answer, Cell, Exactness, Figure, Question, Report, rendered};
use shopmirror::store::Reader;

use super::judge::{Place, Tally, Truths, Verdict, compare, judge, lazy};
use super::life::Life;
use super::mirror::Mirror;
use super::records::{BUSINESSES, Business};
use super::told::{self, Mark, Number};
use super::truth::{Asked, HOME_RANGES, REPORTS, Unit, home, names_of, truth};
use super::world::World;

/// One moment at which everything is asked for.
pub(super) struct Asking<'a> {
    tally: &'a mut Tally,
    reader: Reader,
    mirror: &'a Mirror,
    life: &'a Life,
    /// The workspace, with the values that only a record's own row says as pages showed them last.
    last_seen: World,
    reports: &'a [Report],
    seed: u64,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        tally: &'a mut Tally,
        mirror: &'a Mirror,
        life: &'a Life,
        reports: &'a [Report],
        seed: u64,
    ) -> Self {
        Self {
            tally,
            reader: mirror.reader(),
            mirror,
            life,
            last_seen: life.world.as_last_seen(&mirror.shown),
            reports,
            seed,
        }
    }

    fn asked(&self, by: Unit, days_back: i64, business: Option<Business>) -> Asked {
        let world = &self.life.world;
        let today = world.now.to_zoned_datetime(self.life.zone.clone()).date();
        Asked {
            zone: self.life.zone.clone(),
            now: world.now,
            from: today.saturating_sub(days_back.days()),
            to: today,
            by,
            business,
        }
    }

    /// Every report by day, of all businesses and of each; now and then also by week and month.
    pub(super) fn every_report(&mut self, also_by_week_and_month: bool) {
        let mut businesses: Vec<Option<Business>> = vec![None];
        businesses.extend(BUSINESSES.map(Some));
        let mut units = vec![(Unit::Day, 9)];
        if also_by_week_and_month {
            units.extend([(Unit::Week, 40), (Unit::Month, 70)]);
        }
        for business in businesses {
            for (by, days_back) in &units {
                let asked = self.asked(*by, *days_back, business);
                for name in REPORTS {
                    self.report(name, &asked);
                }
            }
        }
    }

    fn report(&mut self, name: &'static str, asked: &Asked) {
        let mut reports = self.reports.iter();
        let report = reports.find(|report| report.name == name).unwrap();
        let words = format!(
            "(seed {}, {:?}, {}, by {:?}, business {:?})",
            self.seed, self.life.world.order, asked.now, asked.by, asked.business
        );
        let mut place = Place {
            form: "json",
            report: name,
            now: asked.now,
            asked: &words,
            is_list: report.is_list,
            summed: &report.totals,
        };
        let answer = match self.answer(report, asked) {
            Ok(answer) => answer,
            Err(error) => {
                let why = error.to_string();
                self.tally
                    .count(&place, "(refused)", Verdict::Unknown, &why);
                return;
            }
        };
        let truths = Truths {
            now: truth(name, &self.life.world, asked),
            when_read: lazy(|| truth(name, &self.mirror.read, asked)),
            last_seen: lazy(|| truth(name, &self.last_seen, asked)),
        };
        let json = rendered(&answer, ReportFormat::Json).unwrap();
        let json = told::json(&json, names_of(name));
        compare(self.tally, &place, &json, &truths);
        let csv = rendered(&answer, ReportFormat::Csv).unwrap();
        let mut csv = told::csv(&csv, names_of(name));
        csv.notes.clone_from(&json.notes);
        place.form = "csv";
        compare(self.tally, &place, &csv, &truths);
    }

    fn answer(&mut self, report: &Report, asked: &Asked) -> Result<Answer, report::ReportError> {
        let question = Question {
            from: Some(asked.from),
            to: Some(asked.to),
            by: match asked.by {
                Unit::Day => CountedBy::Day,
                Unit::Week => CountedBy::Week,
                Unit::Month => CountedBy::Month,
            },
            business: asked.business.map(|business| business.to_string()),
            ..Question::default()
        };
        report::answer(&mut self.reader, report, &question, &asked.zone, asked.now)
    }

    /// Every number of Home, for each of its ranges.
    pub(super) fn home(&mut self) {
        let asked = self.asked(Unit::Day, 0, None);
        for range in HOME_RANGES {
            let zone = &self.life.zone;
            let found = report::home(&mut self.reader, range, &[], zone, asked.now).unwrap();
            let words = format!(
                "(seed {}, {:?}, {}, {range:?})",
                self.seed, self.life.world.order, asked.now
            );
            let place = Place {
                form: "home",
                report: "home",
                now: asked.now,
                asked: &words,
                is_list: false,
                summed: &[],
            };
            let now = home(&self.life.world, &asked, range);
            let when_read = home(&self.mirror.read, &asked, range);
            let last_seen = home(&self.last_seen, &asked, range);
            for (name, number) in numbers_of(&found) {
                let of = |truth: &std::collections::BTreeMap<String, f64>| {
                    judge(
                        number,
                        Some(truth.get(&name).copied().unwrap_or_default()),
                        1e-9,
                    )
                };
                let mut verdict = of(&now);
                if verdict.is_bad() && !of(&when_read).is_bad() {
                    verdict = Verdict::RightAsOf;
                }
                if verdict.is_bad() && !of(&last_seen).is_bad() && place_tells(&found) {
                    verdict = Verdict::AsLastSeen;
                }
                let column = name.split(".days").next().unwrap();
                let truth = now.get(&name);
                let why = format!("{name} is {number:?}, true {truth:?}");
                self.tally.count(&place, column, verdict, &why);
            }
        }
    }
}

/// Whether a note of Home says that numbers are as they were seen last.
fn place_tells(home: &report::Home) -> bool {
    home.notes.iter().any(|note| note.contains("seen"))
}

fn number_of(cell: &Cell) -> Number {
    let mark = match cell.exactness {
        Exactness::Exact => Mark::Exact,
        Exactness::AtLeast => Mark::AtLeast,
        Exactness::AtMost => Mark::AtMost,
        Exactness::Between { upper } => Mark::Between { upper },
        Exactness::About => Mark::About,
        Exactness::Unknown => Mark::Unknown,
    };
    Number::of(cell.number(), mark)
}

/// The numbers of Home by name. `taken_in.days.29` is the number of today.
fn numbers_of(home: &report::Home) -> Vec<(String, Number)> {
    let mut numbers: Vec<(String, Number)> = Vec::new();
    let mut add = |name: String, cell: &Cell| numbers.push((name, number_of(cell)));
    let mut figure = |name: &str, figure: &Figure| {
        add(format!("{name}.now"), &figure.now);
        add(format!("{name}.before"), &figure.before);
        for (nth, cell) in figure.days.iter().enumerate() {
            add(format!("{name}.days.{nth}"), cell);
        }
    };
    figure("taken_in", &home.taken_in);
    figure("completed", &home.completed);
    figure("money_in", &home.money_in);
    figure("leads", &home.leads);
    for (name, cell) in [
        ("open", &home.now.open),
        ("ready", &home.now.ready),
        ("ready_long", &home.now.ready_long),
        ("overdue", &home.now.overdue),
        ("open_long", &home.now.open_long),
        ("follow_ups", &home.now.follow_ups),
        ("unpaid", &home.now.unpaid),
    ] {
        add(name.to_owned(), cell);
    }
    for (status, count) in &home.by_status {
        let number = Number::of(Some(*count), Mark::Exact);
        numbers.push((format!("status.{status}"), number));
    }
    numbers
}
