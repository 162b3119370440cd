//! The parts of shopmirror that do no I/O: what a record is, what a page proves, when to poll, how
//! many requests may be sent.
//!
//! Time and randomness come in as arguments, so a test runs hours or a year in a moment. The only
//! clock here, [`clock::Clock`], follows tokio's, which a test can pause. What this crate may use
//! is the list of its dependencies: no files, no sockets, no database.

pub mod backoff;
pub mod budget;
pub mod clock;
pub mod contiguity;
pub mod duration;
pub mod newest;
pub mod reading;
pub mod record;
pub mod schedule;
pub mod vanishing;
