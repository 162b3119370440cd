//! How the values of the fields that reports calculate with are read, by route: the settings, the
//! rules that were found, and the evidence for them.
//!
//! A rule is found by the records that are stored and written in their transaction, with the last
//! row of the log then. If the rules of a field change, the table is read again in steps.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{Connection, named_params};
use serde::{Deserialize, Serialize};
use shopmirror_core::reading::{
    CHANGED_BY, Evidence, FieldReader, FieldReading, Question, ReadField, ReadRules, ReadSettings,
    Rule, RuleSet, Ruling, WORD_FIELDS, fields_of,
};
use shopmirror_core::record::{Fields, Route};

use crate::store::error::StoreError;
use crate::store::meta;
use crate::store::mirror::word_fields::{self, FieldSource};
use crate::store::mirror::{derived, job_states, reread, views};
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The name of the settings in the table `_meta`.
const SETTINGS: &str = "read_settings";
/// A field that was there and is absent from so many stored records in a row has stopped coming.
const STOPPED: i64 = 5;

/// A rule that was found, and the row of the log where.
#[derive(Debug, Clone, Copy)]
struct FoundRule {
    rule: Rule,
    seq: i64,
}

/// What is known of the values of one field.
#[derive(Debug, Clone, Default)]
struct FieldFacts {
    evidence: Evidence,
    found: Vec<FoundRule>,
    /// The stored records in a row that lack the field; `None` if no record had it.
    absent: Option<i64>,
    is_changed: bool,
}

/// The readers of a route's fields, with what their rules follow from.
#[derive(Debug)]
pub(in crate::store) struct FieldRules {
    route: Route,
    settings: ReadSettings,
    facts: HashMap<&'static str, FieldFacts>,
    reader: FieldReader,
    has_evidence: bool,
}

impl FieldRules {
    pub(in crate::store) fn load(connection: &Connection, route: Route) -> rusqlite::Result<Self> {
        let settings = settings(connection)?;
        let mut facts: HashMap<&'static str, FieldFacts> = HashMap::new();
        for field in fields_of(route) {
            facts.insert(field.name, FieldFacts::default());
        }
        let mut has_evidence = false;
        for row in read_facts(connection, route)? {
            let Some(of_field) = facts.get_mut(row.field.as_str()) else {
                continue;
            };
            let Ok(rule) = row.rule.parse::<Rule>() else {
                of_field.absent = Some(row.records);
                continue;
            };
            has_evidence |= row.records > 0;
            of_field.evidence.add(rule, row.records);
            if let Some(seq) = row.found_seq {
                of_field.found.push(FoundRule { rule, seq });
            }
        }
        let zone = settings.zone();
        let reader = FieldReader::new(route, &settings, &zone, |field| {
            rules(&settings, field, &facts[field])
        });
        Ok(Self {
            route,
            settings,
            facts,
            reader,
            has_evidence,
        })
    }

    /// The value of each derived column of a record.
    pub(in crate::store) fn cells(&self, fields: &Fields<'_>) -> Vec<Value> {
        derived::cells(self.route, &self.reader.read(fields))
    }

    /// Takes a record that is stored as evidence, in place of its version before.
    pub(in crate::store) fn learn(&mut self, before: Option<&str>, record: &Fields<'_>) {
        self.unlearn(before);
        for reading in self.reader.read(record).fields {
            self.add_evidence(&reading, 1);
            let Some(facts) = self.facts.get_mut(reading.field) else {
                continue;
            };
            let absent = match (reading.is_sent, facts.absent) {
                (true, _) => Some(0),
                (false, Some(records)) => Some(records.saturating_add(1).min(STOPPED)),
                (false, None) => None,
            };
            facts.is_changed |= absent != facts.absent;
            facts.absent = absent;
        }
    }

    /// Takes back the evidence of a version that is no longer the latest.
    pub(in crate::store) fn unlearn(&mut self, body: Option<&str>) {
        if !self.has_evidence {
            return;
        }
        let Some(fields) = body.and_then(Fields::parse) else {
            return;
        };
        for reading in self.reader.read(&fields).fields {
            self.add_evidence(&reading, -1);
        }
    }

    fn add_evidence(&mut self, reading: &FieldReading, records: i64) {
        let (Some(rule), Some(facts)) = (reading.supports, self.facts.get_mut(reading.field))
        else {
            return;
        };
        facts.evidence.add(rule, records);
        facts.is_changed = true;
        self.has_evidence = true;
    }

    /// Finds or withdraws rules by the evidence; those that are found get the row `seq` of the log.
    /// Returns whether a value may be read in another way now.
    pub(in crate::store) fn judge(&mut self, seq: i64) -> bool {
        let mut has_other_rules = false;
        for (field, facts) in &mut self.facts {
            if !facts.is_changed {
                continue;
            }
            let before = rules(&self.settings, field, facts);
            for question in Question::ALL {
                facts.judge(question, seq);
            }
            let now = rules(&self.settings, field, facts);
            if now != before {
                has_other_rules = true;
                self.reader.set_rules(field, now);
            }
        }
        has_other_rules
    }

    /// Writes what was learned.
    pub(in crate::store) fn save(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for (field, facts) in &mut self.facts {
            if std::mem::take(&mut facts.is_changed) {
                facts.save(connection, self.route, field)?;
            }
        }
        Ok(())
    }
}

impl FieldFacts {
    fn found(&self, question: Question) -> Option<FoundRule> {
        let rules = question.rules();
        let mut found = self.found.iter().copied();
        found.find(|found| rules.contains(&found.rule))
    }

    fn judge(&mut self, question: Question, seq: i64) {
        let before = self.found(question).map(|found| found.rule);
        let now = match self.evidence.ruling(question, before) {
            Ruling::Found(rule) => Some(rule),
            Ruling::Open | Ruling::Contradicted => None,
        };
        if now == before {
            return;
        }
        let rules = question.rules();
        self.found.retain(|found| !rules.contains(&found.rule));
        if let Some(rule) = now {
            self.found.push(FoundRule { rule, seq });
        }
    }

    fn save(&self, connection: &Connection, route: Route, field: &str) -> rusqlite::Result<()> {
        let remove = "
            DELETE FROM _field_facts
            WHERE route = :route AND field = :field";
        connection.run(
            remove,
            named_params! { ":route": route.as_str(), ":field": field },
        )?;
        for rule in Rule::ALL {
            let found = self.found.iter().find(|found| found.rule == rule);
            let records = self.evidence.count(rule);
            if records > 0 || found.is_some() {
                let seq = found.map(|found| found.seq);
                save_fact(connection, route, field, rule.as_str(), records, seq)?;
            }
        }
        match self.absent {
            Some(records) => save_fact(connection, route, field, ABSENT, records, None),
            None => Ok(()),
        }
    }
}

/// The rules of a field: the configuration's, else those that were found.
fn rules(settings: &ReadSettings, field: &str, facts: &FieldFacts) -> RuleSet {
    let mut rules = RuleSet::default();
    for question in Question::ALL {
        let found = facts.found(question).map(|found| found.rule);
        rules.set(question, settings.answer(field, question).or(found));
    }
    rules
}

/// Stands in place of a rule where records are counted that lack the field.
const ABSENT: &str = "absent";

#[derive(Deserialize)]
struct FactRow {
    field: String,
    rule: String,
    records: i64,
    found_seq: Option<i64>,
}

fn read_facts(connection: &Connection, route: Route) -> rusqlite::Result<Vec<FactRow>> {
    let sql = "
        SELECT field, rule, records, found_seq
        FROM _field_facts
        WHERE route = :route";
    connection.rows(sql, named_params! { ":route": route.as_str() })
}

fn save_fact(
    connection: &Connection,
    route: Route,
    field: &str,
    rule: &str,
    records: i64,
    found_seq: Option<i64>,
) -> rusqlite::Result<()> {
    let sql = "
        INSERT INTO _field_facts (route, field, rule, records, found_seq)
        VALUES (:route, :field, :rule, :records, :found_seq)";
    connection.run(
        sql,
        named_params! {
            ":route": route.as_str(),
            ":field": field,
            ":rule": rule,
            ":records": records,
            ":found_seq": found_seq,
        },
    )?;
    Ok(())
}

impl Reader {
    /// The fields that reports read in the records of a route, each with the field of a record that
    /// stands for it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read_fields(&self, route: Route) -> Result<Vec<(ReadField, String)>, StoreError> {
        let settings = settings(&self.connection)?;
        let mut fields = Vec::new();
        for read in fields_of(route) {
            if let Some(source) = settings.source(route, read.name) {
                fields.push((*read, source.to_owned()));
            }
        }
        Ok(fields)
    }
}

/// The settings by which values are read.
pub(in crate::store) fn settings(connection: &Connection) -> rusqlite::Result<ReadSettings> {
    Ok(meta::read(connection, SETTINGS)?.unwrap_or_default())
}

/// Takes the settings by which values are read; those of other rules are read again. Returns
/// whether they differ from those before.
pub(in crate::store) fn configure(
    connection: &Connection,
    settings: &ReadSettings,
) -> rusqlite::Result<bool> {
    let before: Option<ReadSettings> = meta::read(connection, SETTINGS)?;
    if before.as_ref() == Some(settings) {
        return Ok(false);
    }
    meta::write(connection, SETTINGS, settings)?;
    let before = before.unwrap_or_default();
    for route in Route::ALL {
        if before.fields.get(&route) != settings.fields.get(&route) {
            // They are about other fields of the records.
            let sql = "DELETE FROM _field_facts WHERE route = :route";
            connection.run(sql, named_params! { ":route": route.as_str() })?;
        }
        reread::begin(connection, route)?;
    }
    let who = |settings: &ReadSettings| {
        let name = settings.configured_source(CHANGED_BY.route, CHANGED_BY.name);
        name.map(str::to_owned)
    };
    if who(&before) != who(settings) {
        job_states::rebuild(connection)?;
    }
    views::refresh(connection)?;
    Ok(true)
}

/// How the values of one field stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldStatus {
    /// The route.
    pub route: Route,
    /// The field, by its name in reports.
    pub field: String,
    /// The field of records that stands for it, if the configuration or the data say so; null if
    /// it is the one of the same name.
    pub source: Option<FieldSource>,
    /// The rules by which its ambiguous values are read.
    pub rules: Vec<FieldRule>,
    /// Records with a value that cannot be read.
    pub unreadable: i64,
    /// The id of the newest of them.
    pub example: Option<String>,
    /// Whether the newest records lack the field although earlier ones had it.
    pub has_stopped: bool,
}

/// A rule of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldRule {
    /// `decimal_point`, `decimal_comma`, `day_first`, `month_first`, `dates` or `moments`.
    pub rule: String,
    /// The row of the log where it was found; null if the configuration says it.
    pub found_seq: Option<i64>,
}

/// The newest record of a route whose field `:field` cannot be read, and how many there are.
pub(in crate::store) fn unreadable_sql(route: Route) -> String {
    format!(
        "SELECT count(*) AS records, max(_seq) AS seq, id
        FROM \"{route}\"
        WHERE _unreadable IS NOT NULL
            AND EXISTS (SELECT 1 FROM json_each(_unreadable) WHERE value = :field)"
    )
}

impl Reader {
    /// How the values of every route are read now.
    pub fn read_rules(&self) -> Result<ReadRules, StoreError> {
        let mut all = ReadRules {
            settings: settings(&self.connection)?,
            ..ReadRules::default()
        };
        for route in Route::ALL {
            let known = FieldRules::load(&self.connection, route)?;
            for (field, facts) in &known.facts {
                let of_field = rules(&known.settings, field, facts).rules();
                if !of_field.is_empty() {
                    let of_route = all.rules.entry(route).or_default();
                    of_route.insert((*field).to_owned(), of_field);
                }
            }
        }
        Ok(all)
    }

    /// The fields that reports use of which there is something to say: which field of records
    /// stands for it, a rule, values that cannot be read, or that it stopped coming.
    pub fn field_statuses(&self) -> Result<Vec<FieldStatus>, StoreError> {
        let mut statuses = Vec::new();
        for route in Route::ALL {
            let rules = FieldRules::load(&self.connection, route)?;
            for field in fields_of(route) {
                let facts = &rules.facts[field.name];
                let (unreadable, example) = unreadable(&self.connection, route, field.name)?;
                let status = FieldStatus {
                    route,
                    field: field.name.to_owned(),
                    source: word_fields::configured(&rules.settings, route, field.name),
                    rules: rules.of_field(field.name),
                    unreadable,
                    example,
                    has_stopped: facts.absent.is_some_and(|records| records >= STOPPED),
                };
                let has_news = status.has_stopped || status.unreadable > 0;
                if has_news || status.source.is_some() || !status.rules.is_empty() {
                    statuses.push(status);
                }
            }
        }
        for field in WORD_FIELDS {
            if let Some(source) = word_fields::found(&self.connection, field)? {
                statuses.push(FieldStatus {
                    route: field.route,
                    field: field.name.to_owned(),
                    source: Some(source),
                    rules: Vec::new(),
                    unreadable: 0,
                    example: None,
                    has_stopped: false,
                });
            }
        }
        Ok(statuses)
    }
}

impl FieldRules {
    fn of_field(&self, field: &str) -> Vec<FieldRule> {
        let mut rules = Vec::new();
        for question in Question::ALL {
            let configured = self.settings.answer(field, question);
            let found = self.facts[field].found(question);
            let (rule, found_seq) = match (configured, found) {
                (Some(rule), _) => (rule, None),
                (None, Some(found)) => (found.rule, Some(found.seq)),
                (None, None) => continue,
            };
            rules.push(FieldRule {
                rule: rule.as_str().to_owned(),
                found_seq,
            });
        }
        rules
    }
}

/// How many records have a value of a field that cannot be read, and the id of the newest of them.
fn unreadable(
    connection: &Connection,
    route: Route,
    field: &str,
) -> rusqlite::Result<(i64, Option<String>)> {
    connection
        .prepare_cached(&unreadable_sql(route))?
        .query_row(named_params! { ":field": field }, |row| {
            Ok((row.get("records")?, row.get("id")?))
        })
}
