//! Fetches what polls alone do not bring: customers missed in a gap, customers older than a page,
//! and the definitions of custom fields.
//!
//! All of it is background requests: they use what polls leave of the budget, one at a time. Each
//! part can be stopped at any time and continues where it was. The result of a search never proves
//! that nothing is missing.

mod forms;
mod missed;
mod older;

pub use forms::CustomFields;
pub use missed::MissedCustomers;
pub use older::Prefixes;

/// The most matches that one search shows (contract, "Limits").
pub const MAX_SHOWN: usize = 25;
/// The longest term that a search takes, in characters (contract, "Limits").
const MAX_TERM: usize = 100;
