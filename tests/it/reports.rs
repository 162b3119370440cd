//! Reports: their numbers against those computed here from the sandbox's truth, in zones east and
//! west of UTC and over a change of the clock; a shop's own reports; hostile text in every format.

mod current_state;
mod expected;
mod numbers;
mod own;
mod plans;
mod recipes;
pub(crate) mod scheduled;
mod truth;
mod unknown;
