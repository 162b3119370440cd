//! How the values that reports calculate with are read, in words.

use shopmirror_core::reading::{FieldKind, Rule, fields_of};

use super::WorkspaceStatus;
use super::health::{Finding, degraded};
use crate::store::{FieldRule, FieldSource, FieldStatus, Reread};
use crate::text::number::{count, whole};

impl WorkspaceStatus {
    /// A line for each field whose values need a rule or cannot be read, and for each table that is
    /// being read again.
    pub(super) fn reading_facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        for field in &self.fields {
            facts.extend(source_text(field));
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
        for status in &self.fields {
            if !status.has_stopped {
                continue;
            }
            let FieldStatus { route, field, .. } = status;
            findings.push(degraded(format!(
                "the newest {route} have no {field}, so reports lack it: if it has another name \
                 now, or is no longer sent, set `{route}.{field}` in [reports.fields]"
            )));
        }
        findings
    }
}

/// Which field of records stands for one of reports.
fn source_text(field: &FieldStatus) -> Option<String> {
    let FieldStatus {
        route,
        field,
        source,
        ..
    } = field;
    let FieldSource {
        name,
        is_configured,
    } = source.as_ref()?;
    let by = if *is_configured {
        "configured"
    } else {
        "found by its name"
    };
    Some(match name {
        Some(name) => format!("{route}.{field}: the field {name} of {route} ({by})"),
        None => format!("{route}.{field}: no field of {route} ({by})"),
    })
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
    let mut known = fields_of(field.route).iter();
    let read = known.find(|known| known.name == field.field)?;
    match read.kind {
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

#[cfg(test)]
mod tests {
    use shopmirror_core::record::Route;

    use super::*;

    #[test]
    fn a_field_says_how_it_is_read_or_which_setting_decides() {
        let status = WorkspaceStatus {
            fields: vec![FieldStatus {
                route: Route::Leads,
                field: "next_follow_up".to_owned(),
                source: Some(FieldSource {
                    name: Some("call_on".to_owned()),
                    is_configured: true,
                }),
                rules: vec![FieldRule {
                    rule: "dates".to_owned(),
                    found_seq: Some(12),
                }],
                unreadable: 2,
                example: Some("17".to_owned()),
                has_stopped: true,
            }],
            rereads: vec![Reread {
                route: Route::Leads,
                done: 500,
                total: 4_000,
            }],
            ..WorkspaceStatus::default()
        };
        assert_eq!(
            status.reading_facts(),
            [
                "leads.next_follow_up: the field call_on of leads (configured)",
                "leads.next_follow_up: dates: midnight is the date as written (found at change 12)",
                "leads.next_follow_up: 2 values cannot be read: record 17; [reports.date_formats] \
                 next_follow_up would say how they are meant",
                "leads are being read again: 500 of 4,000",
            ]
        );
        let reason = &status.judge_fields()[0].1;
        assert!(
            reason.starts_with("the newest leads have no next_follow_up, so reports lack it"),
            "{reason}"
        );
    }
}
