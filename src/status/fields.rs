//! How the values that reports calculate with are read, in words.

use shopmirror_core::reading::{FieldKind, Rule, fields_of};

use super::WorkspaceStatus;
use super::health::{Finding, degraded};
use crate::store::{FieldRule, FieldStatus, Reread};
use crate::text::number::{count, whole};

impl WorkspaceStatus {
    /// A line for each field whose values need a rule or cannot be read, and for each table that is
    /// being read again.
    pub(super) fn reading_facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        for field in &self.fields {
            for rule in &field.rules {
                facts.push(rule_text(field, rule));
            }
            if field.unreadable > 0 {
                facts.push(unreadable_text(field));
            }
        }
        for reread in &self.rereads {
            facts.push(progress_text(reread));
        }
        facts
    }

    /// The fields that stopped coming.
    pub(super) fn judge_fields(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for FieldStatus { route, field, .. } in self.fields.iter().filter(|field| field.has_stopped)
        {
            findings.push(degraded(format!(
                "the newest {route} have no {field}, so reports lack it: if it has another name \
                 now, or is no longer sent, set `{route}.{field}` in [reports.fields]"
            )));
        }
        findings
    }
}

fn rule_text(field: &FieldStatus, rule: &FieldRule) -> String {
    let FieldStatus { route, field, .. } = field;
    let meaning = match rule.rule.parse::<Rule>() {
        Ok(rule) => rule.meaning(),
        Err(_) => rule.rule.as_str(),
    };
    match rule.found_seq {
        Some(seq) => format!("{route}.{field}: {meaning} (found at change {seq})"),
        None => format!("{route}.{field}: {meaning} (configured)"),
    }
}

fn unreadable_text(field: &FieldStatus) -> String {
    let values = count(
        field.unreadable,
        "value cannot be read",
        "values cannot be read",
    );
    let example = field.example.as_deref().unwrap_or_default();
    let text = format!(
        "{}.{}: {values}: record {example}",
        field.route, field.field
    );
    match setting(field) {
        Some(setting) => format!("{text}; {setting} would say how they are meant"),
        None => text,
    }
}

/// The setting that ends a doubt about the values of a field.
fn setting(field: &FieldStatus) -> Option<String> {
    let known = fields_of(field.route).iter();
    let kind = known.clone().find(|known| known.name == field.field)?.kind;
    match kind {
        FieldKind::Amount => Some("[reports] decimal_separator".to_owned()),
        FieldKind::Day => Some(format!("[reports.date_formats] {}", field.field)),
        FieldKind::Instant => None,
    }
}

/// How far a table is read again.
fn progress_text(reread: &Reread) -> String {
    format!(
        "{} are being read again: {} of {}",
        reread.route,
        whole(reread.done),
        whole(reread.total)
    )
}
