//! What a report's SELECT reads, as SQLite says it: the lists, the days that are asked for, the
//! current states of repairs and what was paid for them.

use shopmirror_core::record::Route;

use crate::store::QueryReads;

/// The columns that say what a repair is now, of the table of states and of the view.
const STATES: [&str; 6] = [
    "status",
    "stage",
    "since",
    "source",
    "completed_at",
    "open_seconds",
];
const STATES_OF_VIEW: [&str; 6] = [
    "current_status",
    "current_stage",
    "status_since",
    "state_source",
    "completed_at",
    "turnaround_days",
];

/// The columns that tell completed repairs from others, of the table of states and of the view.
const COMPLETED: [&str; 4] = [
    "completed_at",
    "open_seconds",
    "is_cancelled",
    "turnaround_days",
];
const KINDS: [&str; 1] = ["_kind"];
const TOTALS: [&str; 1] = ["_total_amount"];
const DELIVERY_DATES: [&str; 2] = ["estimated_delivery", "_estimated_delivery"];

/// What a report's SELECT reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// The lists whose records it reads.
    pub(super) routes: Vec<Route>,
    /// Whether the days that are asked for change the answer.
    pub(super) has_period: bool,
    /// Whether it shows what repairs are now.
    pub(super) states: bool,
    /// Whether it shows what was paid for repairs.
    pub(super) paid_sums: bool,
    /// Whether it says which repairs were not heard of.
    pub(super) unheard: bool,
    /// Whether it counts completed repairs, or leaves out those that are not.
    pub(super) completed: bool,
    /// Whether it has a column that counts repairs which are completed now, as its head says.
    pub(super) sums_completed: bool,
    /// Whether it says who completed repairs.
    pub(super) who: bool,
    /// Whether it shows what repairs cost.
    pub(super) totals: bool,
    /// Whether it tells payments from refunds, or leaves out those that are void.
    pub(super) kinds: bool,
    /// Whether it shows on which day repairs are to be delivered.
    pub(super) delivery_dates: bool,
}

impl Uses {
    /// What a query reads.
    pub(super) fn of(reads: &QueryReads) -> Self {
        let QueryReads { tables, parameters } = reads;
        let mut uses = Self {
            routes: Vec::new(),
            sums_completed: false,
            has_period: tables.contains_key("days")
                || parameters.contains("from")
                || parameters.contains("to"),
            unheard: tables.contains_key("unheard"),
            completed: reads.reads("_job_states", &COMPLETED)
                || reads.reads("report_jobs", &COMPLETED),
            who: reads.reads("_job_states", &["completed_by"])
                || reads.reads("report_jobs", &["completed_by"]),
            totals: reads.reads("jobs", &TOTALS) || reads.reads("worded_jobs", &TOTALS),
            kinds: reads.reads("payments", &KINDS)
                || reads.reads("worded_payments", &KINDS)
                || reads.reads("report_payments", &["kind"]),
            delivery_dates: reads.reads("jobs", &DELIVERY_DATES)
                || reads.reads("report_jobs", &DELIVERY_DATES),
            states: reads.reads("_job_states", &STATES)
                || reads.reads("report_jobs", &STATES_OF_VIEW),
            paid_sums: reads.reads("_job_states", &["paid"])
                || reads.reads("report_jobs", &["paid_total"]),
        };
        for route in Route::ALL {
            // A table of states is made of three lists.
            let by_states = match route {
                Route::Jobs => tables.contains_key("_job_states"),
                Route::JobStatusChanges => uses.states,
                Route::Payments => uses.paid_sums,
                _ => false,
            };
            let is_named = tables.contains_key(route.as_str())
                || tables.contains_key(&format!("worded_{route}"))
                || tables.contains_key(&format!("report_{route}"));
            if is_named || by_states || tables.contains_key("_pollers") {
                uses.routes.push(route);
            }
        }
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(tables: &[(&str, &[&str])], parameters: &[&str]) -> Uses {
        let mut reads = QueryReads::default();
        for (table, columns) in tables {
            let columns = columns.iter().map(|column| (*column).to_owned());
            reads.tables.insert((*table).to_owned(), columns.collect());
        }
        reads.parameters = parameters.iter().map(|name| (*name).to_owned()).collect();
        Uses::of(&reads)
    }

    #[test]
    fn a_report_says_whether_its_period_can_be_chosen() {
        assert!(uses(&[("days", &["period"])], &[]).has_period);
        assert!(uses(&[("jobs", &["created_at"])], &["from"]).has_period);
        assert!(!uses(&[("jobs", &["oldest_days"])], &["today"]).has_period);
    }

    #[test]
    fn what_a_repair_is_now_comes_from_its_status_changes_and_payments() {
        let of = |table: &str, column: &str| {
            let uses = uses(&[(table, &[column])], &[]);
            let routes: Vec<&str> = uses.routes.iter().map(|route| route.as_str()).collect();
            routes.join(" ")
        };
        assert_eq!(of("report_jobs", "id"), "jobs");
        assert_eq!(
            of("report_jobs", "current_stage"),
            "jobs job_status_changes"
        );
        assert_eq!(of("report_jobs", "paid_total"), "jobs payments");
        assert_eq!(of("_job_states", "paid"), "jobs payments");
        assert_eq!(of("_job_states", "since"), "jobs job_status_changes");
        assert_eq!(uses(&[("_pollers", &["route"])], &[]).routes, Route::ALL);
    }
}
