//! Asks the program every report in every form, and compares each number with the truth.

use jiff::ToSpan;
use shopmirror::config::{CountedBy, ReportFormat};
use shopmirror::report::{
    self, Answer, Cell, CsvForm, Exactness, Figure, Question, Report, rendered,
};
use shopmirror::store::Reader;

use super::judge::{Fault, Place, Tally, Truths, Verdict, compare, lazy};
use super::life::Life;
use super::mirror::Mirror;
use super::records::{BUSINESSES, Business};
use super::told::{self, Mark, Number, Told};
use super::truth::{Asked, HOME_RANGES, REPORTS, Rows, Unit, home, names_of, totals, truth};
use super::world::World;

/// One moment at which everything is asked for.
pub(super) struct Asking<'a> {
    reader: Reader,
    life: &'a Life,
    /// The workspace as pages showed its records last.
    last_seen: World,
    /// What a number may tell instead of what is true now.
    others: Vec<(Verdict, World)>,
    deleted: usize,
    still_counted: usize,
    reports: &'a [Report],
    seed: u64,
}

impl<'a> Asking<'a> {
    pub(super) fn new(mirror: &Mirror, life: &'a Life, reports: &'a [Report], seed: u64) -> Self {
        let world = &life.world;
        let deleted = world.deleted();
        let still_counted = mirror.counted(deleted.clone());
        let last_seen = world.as_last_seen(&mirror.shown);
        let mut others = vec![(Verdict::RightAsOf, mirror.read.clone())];
        others.push((Verdict::AsLastSeen, last_seen.clone()));
        others.push((Verdict::AsLastSeen, world.as_repairs_said(&mirror.shown)));
        if !still_counted.is_empty() {
            let not_found = |world: &World| world.with_deleted(&still_counted);
            others.push((Verdict::NotFound, not_found(world)));
            others.push((Verdict::NotFound, not_found(&last_seen)));
            others.push((Verdict::NotFound, not_found(&mirror.read)));
        }
        let places = mirror.places();
        if !world.moved_unseen(&places).is_empty() {
            others.push((Verdict::NotFound, world.unmoved(&places)));
            others.push((Verdict::NotFound, last_seen.unmoved(&places)));
            others.push((Verdict::NotFound, mirror.read.unmoved(&places)));
        }
        others.push((Verdict::UnknownThoughShown, mirror.shown.clone()));
        Self {
            reader: mirror.reader(),
            life,
            last_seen,
            others,
            deleted: deleted.len(),
            still_counted: still_counted.len(),
            reports,
            seed,
        }
    }

    /// The truths of these rows in every world that a number may tell.
    fn truths<'t>(&'t self, rows: impl Fn(&World) -> Rows + Copy + 't) -> Truths<'t> {
        let others = self.others.iter();
        let others = others.map(|(verdict, world)| (*verdict, lazy(move || rows(world))));
        Truths {
            now: rows(&self.life.world),
            others: others.collect(),
            shown_totals: lazy(Rows::new),
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

    /// Every report by day, of all businesses and of one of them; now and then also by week and
    /// month.
    pub(super) fn every_report(&mut self, tally: &mut Tally, day: usize) {
        tally.deleted = self.deleted;
        tally.still_counted = self.still_counted;
        let mut units = vec![(Unit::Day, 9)];
        if day % 3 == 2 {
            units.extend([(Unit::Week, 40), (Unit::Month, 70)]);
        }
        let one = BUSINESSES[day % BUSINESSES.len()];
        for business in [None, Some(one)] {
            for (by, days_back) in &units {
                let asked = self.asked(*by, *days_back, business);
                for name in REPORTS {
                    self.report(tally, name, &asked);
                }
            }
        }
    }

    fn report(&mut self, tally: &mut Tally, name: &'static str, asked: &Asked) {
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
                let fault = Fault::RowMissing;
                tally.count(&place, "(refused)", Verdict::Unknown, fault, &why);
                return;
            }
        };
        let names = names_of(name);
        let form = |format| text_of(&answer, format);
        let json = told::json(&form(ReportFormat::Json), names);
        let mut csv = told::csv(&form(ReportFormat::Csv), names);
        csv.notes.clone_from(&json.notes);
        let text = told::text(&form(ReportFormat::Table), names);
        let mut forms = vec![("json", json), ("csv", csv), ("text", text)];
        // A document has no column of ids, by which the truth names some rows.
        if !names.iter().any(|name| name.ends_with("_id")) {
            forms.push(("html", told::html(&form(ReportFormat::Html), names)));
        }
        let mut truths = self.truths(|world| truth(name, world, asked));
        if name == "outstanding" {
            truths.shown_totals = lazy(|| totals(&self.last_seen));
        }
        for (form, told) in forms {
            // A table for people is cut off after so many records, and says so.
            if told
                .notes
                .iter()
                .any(|note| note.starts_with("these are the first "))
            {
                continue;
            }
            place.form = form;
            compare(tally, &place, &told, &truths);
        }
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
    pub(super) fn home(&mut self, tally: &mut Tally) {
        let asked = self.asked(Unit::Day, 0, None);
        let summed = ["number".to_owned()];
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
                summed: &summed,
            };
            let mut told = Told {
                notes: found.notes.iter().cloned().collect(),
                as_of: Some(found.as_of),
                ..Told::default()
            };
            for (name, number) in numbers_of(&found) {
                told.rows
                    .insert(vec![name], [("number".to_owned(), number)].into());
            }
            let truths = self.truths(|world| home(world, &asked, range));
            compare(tally, &place, &told, &truths);
        }
    }
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
    figure("money_in", &home.money.as_ref().unwrap().received);
    figure("leads", &home.leads);
    for (name, cell) in [
        ("open", &home.now.open.cell),
        ("ready", &home.now.ready.cell),
        ("ready_long", &home.now.ready_long.cell),
        ("overdue", &home.now.overdue.cell),
        ("open_long", &home.now.open_long.cell),
        ("follow_ups", &home.now.follow_ups.cell),
        ("unpaid", &home.money.as_ref().unwrap().unpaid.cell),
    ] {
        add(name.to_owned(), cell);
    }
    for (status, count) in &home.by_status {
        numbers.push((format!("status.{status}"), number_of(count)));
    }
    numbers
}

/// The text of an answer in a form.
fn text_of(answer: &Answer, format: ReportFormat) -> String {
    let bytes = rendered(answer, format, CsvForm::DATA)
        .unwrap()
        .into_bytes();
    String::from_utf8(bytes).unwrap()
}
