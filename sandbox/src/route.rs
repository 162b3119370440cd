//! The six polling reads, by the last segment of their path.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the six `/automation/triggers/*` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Recent repairs.
    Jobs,
    /// Recent customers.
    Customers,
    /// Recent leads.
    Leads,
    /// Recent payments.
    Payments,
    /// Recent repair status changes.
    JobStatusChanges,
    /// Recent outsourced repairs.
    OutsourcedJobs,
}

impl Route {
    /// Every route, in the order of the contract.
    pub const ALL: [Self; 6] = [
        Self::Jobs,
        Self::Customers,
        Self::Leads,
        Self::Payments,
        Self::JobStatusChanges,
        Self::OutsourcedJobs,
    ];

    /// The last segment of the route's path.
    #[must_use]
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Customers => "customers",
            Self::Leads => "leads",
            Self::Payments => "payments",
            Self::JobStatusChanges => "job-status-changes",
            Self::OutsourcedJobs => "outsourced-jobs",
        }
    }

    /// Reads a route's name, with `-` or `_` between words.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.replace('_', "-");
        Self::ALL.into_iter().find(|route| route.segment() == name)
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.segment())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_read_back_from_either_spelling() {
        for route in Route::ALL {
            assert_eq!(Route::named(route.segment()), Some(route));
            assert_eq!(
                Route::named(&route.segment().replace('-', "_")),
                Some(route)
            );
        }
        assert_eq!(Route::named("invoices"), None);
    }
}
