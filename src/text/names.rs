//! The names of routes and of fields as the shop says them: `jobs` are repairs. Pure.

use shopmirror_core::record::Route;

use super::first_upper;

/// The heading of a route's list: `Repairs`.
#[must_use]
pub fn list_title(route: Route) -> String {
    first_upper(nouns(route).1)
}

/// One record of a route, and several: `repair`, `repairs`.
#[must_use]
pub fn nouns(route: Route) -> (&'static str, &'static str) {
    match route {
        Route::Jobs => ("repair", "repairs"),
        Route::Customers => ("customer", "customers"),
        Route::Leads => ("lead", "leads"),
        Route::Payments => ("payment", "payments"),
        Route::JobStatusChanges => ("status change", "status changes"),
        Route::OutsourcedJobs => ("outsourced repair", "outsourced repairs"),
    }
}

/// The name of a field for people: `estimated_delivery` is `Estimated delivery`.
#[must_use]
pub fn label(field: &str) -> String {
    first_upper(&field.trim_start_matches('_').replace('_', " "))
}
