//! What a sandbox is made with.

use std::path::PathBuf;

use jiff::Timestamp;

use super::shop::Shop;

/// What sandbox to make.
#[derive(Debug, Clone)]
pub struct Options {
    /// What its history and its keys are drawn from.
    pub seed: u64,
    /// How much goes on.
    pub shop: Shop,
    /// How many times as fast as real time its clock runs: 0 to 100,000; 1 if it is no number.
    pub speed: f64,
    /// Requests a minute one key may make.
    pub requests_per_minute: u32,
    /// Where what clients and the portal put in is kept; only [`Sandbox::open`] looks at it.
    pub state_file: Option<PathBuf>,
    /// Where its clock starts; `None`: at the same moment every time.
    pub start: Option<Timestamp>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            shop: Shop::default(),
            speed: 1.0,
            requests_per_minute: 60,
            state_file: None,
            start: None,
        }
    }
}
