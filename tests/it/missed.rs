//! Nothing is missed silently: what a page proves, gaps, what counts as a change, what recovers
//! missed records.

mod bad_pages;
mod between;
mod changes;
mod identity;
mod late_answers;
mod ledger;
mod repair;
pub(crate) mod restart;
