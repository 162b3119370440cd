//! The built-in reports.

use super::head::Report;
use crate::store::{compared, number_sql};

const TEXTS: [(&str, &str); 23] = [
    ("intake", include_str!("sql/intake.sql")),
    ("sources", include_str!("sql/sources.sql")),
    ("leads", include_str!("sql/leads.sql")),
    ("follow-ups", include_str!("sql/follow-ups.sql")),
    ("open-repairs", include_str!("sql/open-repairs.sql")),
    ("repairs", include_str!("sql/repairs.sql")),
    ("turnaround-by-brand", TURNAROUND),
    ("turnaround-by-person", TURNAROUND),
    ("backlog", include_str!("sql/backlog.sql")),
    ("rework", include_str!("sql/rework.sql")),
    ("time-to-repair", include_str!("sql/time-to-repair.sql")),
    ("technicians", include_str!("sql/technicians.sql")),
    ("payments", include_str!("sql/payments.sql")),
    ("till-by-method", include_str!("sql/till-by-method.sql")),
    ("average-repair", include_str!("sql/average-repair.sql")),
    ("money-by-brand", MONEY),
    ("money-by-device", MONEY),
    ("money-by-person", MONEY),
    ("outstanding", include_str!("sql/outstanding.sql")),
    ("outsourced", include_str!("sql/outsourced.sql")),
    ("busiest-hours", include_str!("sql/busiest-hours.sql")),
    ("customers", include_str!("sql/customers.sql")),
    ("mirror", include_str!("sql/mirror.sql")),
];
/// One text for each way to divide the repairs, which `{by}` names and `{column}`
/// holds, made of `{field}`; `{none}` stands for one without a value.
const TURNAROUND: &str = include_str!("sql/turnaround.sql");
const MONEY: &str = include_str!("sql/money.sql");

/// By what repairs are divided: its name, the field that it needs, and where it is found.
struct Division {
    by: &'static str,
    field: &'static str,
    column: &'static str,
    /// The list of the repairs of one row, as the comment of a report has it.
    leads_to: &'static str,
    /// What stands for none.
    none: &'static str,
}

const BY_BRAND: Division = Division {
    by: "brand",
    field: "device_brand",
    leads_to: r#"leads_to.repairs = { list = "repairs", state = "completed", brand = "{brand}", from = "{from}", to = "{to}" }"#,
    column: "nullif(j.device_brand, '')",
    none: "(none)",
};
const BY_DEVICE: Division = Division {
    by: "device",
    field: "device",
    column: "j.device",
    leads_to: "# No list of repairs can be asked for a device.",
    none: "(none)",
};
const BY_PERSON: Division = Division {
    by: "person",
    field: "assigned_to",
    leads_to: r#"leads_to.repairs = { list = "repairs", state = "completed", person = "{person}", from = "{from}", to = "{to}" }"#,
    column: "s.completed_by, nullif(j.assigned_to, '')",
    none: "(not assigned)",
};

/// The built-in reports, in the order in which they are listed.
#[must_use]
pub fn built_in() -> Vec<Report> {
    let mut reports = Vec::with_capacity(TEXTS.len());
    for (name, text) in TEXTS {
        let report = match name {
            "turnaround-by-brand" | "money-by-brand" => made(name, &divided(text, &BY_BRAND)),
            "money-by-device" => made(name, &divided(text, &BY_DEVICE)),
            "turnaround-by-person" | "money-by-person" => made(name, &divided(text, &BY_PERSON)),
            _ => made(name, text),
        };
        reports.push(report);
    }
    reports
}

fn divided(text: &str, division: &Division) -> String {
    text.replace("{by}", division.by)
        .replace("{field}", division.field)
        .replace("{column}", division.column)
        .replace("{leads_to}", division.leads_to)
        .replace("{none}", division.none)
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
