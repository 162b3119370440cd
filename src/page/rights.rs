//! What a reader of the page may see, by the role of the token. Every page asks here. Pure.
//!
//! Who is not the owner sees what is named here and nothing else: a new page, a new report and a
//! new field are the owner's until they are named.

use axum::http::StatusCode;
use shopmirror_core::record::Route;

use super::not_shown::NotShown;
use crate::config::Role;
use crate::report::Report;

/// The addresses that hold no record: every token is enough.
const OF_EACH_TOKEN: [&str; 2] = ["/readyz", "/metrics"];
/// The addresses for people of the shop.
const OF_STAFF: [&str; 11] = [
    "/",
    "/wall",
    "/reports",
    "/report",
    "/records",
    "/records.csv",
    "/records.xlsx",
    "/record",
    "/find",
    "/person",
    "/page.js",
];
/// The fields of records for people of the shop: the number of the repair, names, status, dates,
/// device, people, problem. `created` and `changed` are the dates of each list.
const STAFF_FIELDS: [&str; 21] = [
    "job_number",
    "customer_name",
    "name",
    "vendor_name",
    "status",
    "status_stage",
    "created",
    "created_at",
    "changed",
    "updated_at",
    "received_at",
    "estimated_delivery",
    "completed_at",
    "next_follow_up",
    "returned_on",
    "device_type",
    "device_brand",
    "device_model",
    "assigned_to",
    "changed_by",
    "problem",
];
/// The reports for people of the shop: none shows an amount, a payment or another field.
const STAFF_REPORTS: [&str; 14] = [
    "intake",
    "leads",
    "follow-ups",
    "open-repairs",
    "repairs",
    "turnaround-by-brand",
    "turnaround-by-person",
    "backlog",
    "rework",
    "time-to-repair",
    "technicians",
    "outsourced",
    "busiest-hours",
    "customers",
];
/// The parameters of these reports that compare an amount.
const AMOUNT_PARAMETERS: [&str; 2] = ["amount_from", "amount_to"];

/// What a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    role: Role,
    shows_records: bool,
}

impl Rights {
    /// Those of who has no token.
    pub(super) const NONE: Self = Self {
        role: Role::Wall,
        shows_records: false,
    };

    /// Those of a role. No role shows more than `shows_records` allows.
    pub(super) fn new(role: Role, shows_records: bool) -> Self {
        Self {
            role,
            shows_records,
        }
    }

    /// Whether everything of the page is shown: amounts, payments, System, texts as they were sent.
    pub(super) fn shows_all(self) -> bool {
        self.role == Role::Owner
    }

    /// Whether the page at an address is shown.
    pub(super) fn shows_page(self, path: &str) -> bool {
        match self.role {
            Role::Owner => true,
            Role::Staff => OF_STAFF.contains(&path) || OF_EACH_TOKEN.contains(&path),
            Role::Wall => path == "/wall" || OF_EACH_TOKEN.contains(&path),
        }
    }

    /// Whether single records are shown.
    pub(super) fn shows_records(self) -> bool {
        self.shows_records && self.role != Role::Wall
    }

    /// Whether the records of a route are shown.
    pub(super) fn shows_route(self, route: Route) -> bool {
        self.shows_records() && (self.shows_all() || route != Route::Payments)
    }

    /// The routes whose records are shown.
    pub(super) fn routes(self) -> Vec<Route> {
        let mut routes = Route::ALL.to_vec();
        routes.retain(|route| self.shows_route(*route));
        routes
    }

    /// Whether a field of a record, or a column of a list, is shown.
    pub(super) fn shows_field(self, name: &str) -> bool {
        self.shows_records() && (self.shows_all() || STAFF_FIELDS.contains(&name))
    }

    /// Whether a report is shown.
    pub(super) fn shows_report(self, report: &Report) -> bool {
        if report.shows_records() && !self.shows_records() {
            return false;
        }
        match self.role {
            Role::Owner => true,
            Role::Staff => !report.is_own && STAFF_REPORTS.contains(&report.name.as_str()),
            Role::Wall => false,
        }
    }

    /// Whether a parameter of a report is shown and may be set.
    pub(super) fn shows_parameter(self, name: &str) -> bool {
        self.shows_all() || !AMOUNT_PARAMETERS.contains(&name)
    }

    /// Refuses what only the owner sees.
    pub(super) fn need_all(self) -> Result<(), NotShown> {
        self.need(self.shows_all())
    }

    /// Refuses what is not shown, in the words for what does not exist.
    pub(super) fn need(self, is_shown: bool) -> Result<(), NotShown> {
        if is_shown {
            return Ok(());
        }
        let text = "There is nothing at this address, or your token does not show it.";
        Err(NotShown::new(StatusCode::NOT_FOUND, text))
    }

    /// The code of a response. Only the owner is told whether a name is wrong or hidden.
    pub(super) fn code(self, code: StatusCode) -> StatusCode {
        if code == StatusCode::BAD_REQUEST && !self.shows_all() {
            return StatusCode::NOT_FOUND;
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;

    #[test]
    fn no_report_for_staff_shows_money_or_reads_a_field_that_is_hidden() {
        let staff = Rights::new(Role::Staff, true);
        let mut shown = 0;
        for report in report::built_in() {
            if !staff.shows_report(&report) {
                continue;
            }
            shown += 1;
            assert!(!report.has_money(), "{}", report.name);
            for name in report.parameters.keys() {
                let is_amount = name.contains("amount");
                assert_eq!(staff.shows_parameter(name), !is_amount, "{name}");
            }
        }
        assert_eq!(shown, STAFF_REPORTS.len());
        assert!(!Rights::new(Role::Staff, false).shows_field("problem"));
        assert!(!Rights::NONE.shows_page("/"));
    }
}
