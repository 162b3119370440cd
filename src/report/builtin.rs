//! The built-in reports.

use super::head::Report;
use crate::store::{compared, number_sql};

const TEXTS: [(&str, &str); 15] = [
    ("intake", include_str!("sql/intake.sql")),
    ("sources", include_str!("sql/sources.sql")),
    ("leads", include_str!("sql/leads.sql")),
    ("follow-ups", include_str!("sql/follow-ups.sql")),
    ("open-repairs", include_str!("sql/open-repairs.sql")),
    ("repairs", include_str!("sql/repairs.sql")),
    ("turnaround-by-brand", TURNAROUND),
    ("turnaround-by-person", TURNAROUND),
    ("technicians", include_str!("sql/technicians.sql")),
    ("payments", include_str!("sql/payments.sql")),
    ("outstanding", include_str!("sql/outstanding.sql")),
    ("outsourced", include_str!("sql/outsourced.sql")),
    ("busiest-hours", include_str!("sql/busiest-hours.sql")),
    ("customers", include_str!("sql/customers.sql")),
    ("mirror", include_str!("sql/mirror.sql")),
];
/// One text for each way to divide the repairs, which `{by}` names and `{column}`
/// holds, made of `{field}`.
const TURNAROUND: &str = include_str!("sql/turnaround.sql");

/// The built-in reports, in the order in which they are listed.
#[must_use]
pub fn built_in() -> Vec<Report> {
    let report = |(name, text): &(&str, &str)| match *name {
        "turnaround-by-brand" => made(
            name,
            &divided(text, "brand", "device_brand", "j.device_brand"),
        ),
        "turnaround-by-person" => made(
            name,
            &divided(
                text,
                "person",
                "assigned_to",
                "s.completed_by, j.assigned_to",
            ),
        ),
        _ => made(name, text),
    };
    TEXTS.iter().map(report).collect()
}

fn divided(text: &str, by: &str, field: &str, column: &str) -> String {
    text.replace("{by}", by)
        .replace("{field}", field)
        .replace("{column}", column)
}

/// A report of this program.
pub(super) fn made(name: &str, text: &str) -> Report {
    let mut text = text.to_owned();
    for row in ["c", "l"] {
        let number = number_sql(&format!("{row}.mobile_number"));
        let email = compared(&format!("{row}.email"));
        text = text
            .replace(&format!("{{{row}.number}}"), &number)
            .replace(&format!("{{{row}.email}}"), &email);
    }
    Report::parse(name, &text).expect("a test asks every report")
}
