//! The owner's words for what the workspace sends: `jobs` are repairs, fields are written as people
//! write.

use shopmirror_core::record::Route;

use crate::report::first_upper;

/// A list of the workspace: `Repairs`.
pub(super) fn list(route: Route) -> String {
    first_upper(record(route).1)
}

/// One record of a list, and several: `repair`, `repairs`.
pub(super) fn record(route: Route) -> (&'static str, &'static str) {
    match route {
        Route::Jobs => ("repair", "repairs"),
        Route::Customers => ("customer", "customers"),
        Route::Leads => ("lead", "leads"),
        Route::Payments => ("payment", "payments"),
        Route::JobStatusChanges => ("status change", "status changes"),
        Route::OutsourcedJobs => ("outsourced repair", "outsourced repairs"),
    }
}

/// The name of a field: `estimated_delivery` is `Estimated delivery`.
pub(super) fn field(name: &str) -> String {
    first_upper(&name.trim_start_matches('_').replace('_', " "))
}
