//! The options of a sandbox.

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::formats::DateFormats;
use super::shop::Shop;

/// The sandbox to make.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seed of its history and its keys.
    pub seed: u64,
    /// How busy the shop is.
    pub shop: Shop,
    /// How many times as fast as real time its clock runs: 0 to 100,000; 1 if not a number.
    pub speed: f64,
    /// Requests per minute that one key may send.
    pub requests_per_minute: u32,
    /// How the shop writes the dates that it enters.
    pub date_formats: DateFormats,
    /// The file that keeps what clients and the portal put in; only [`Sandbox::open`] uses it.
    pub state_file: Option<PathBuf>,
    /// A past of months in the shop hours of this zone, with a late and an unpaid repair here and
    /// there. From the start on the shop is open, and as busy as one can follow. Without it the past
    /// is short and as busy as the rest.
    pub past_in: Option<TimeZone>,
    /// Where its clock starts; `None`: always at the same time.
    pub start: Option<Timestamp>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            shop: Shop::default(),
            speed: 1.0,
            requests_per_minute: 60,
            date_formats: DateFormats::default(),
            state_file: None,
            past_in: None,
            start: None,
        }
    }
}
