//! Runs the daemon's own schedule and budget on a virtual clock against a window of records.
//!
//! The adaptive run comes first. The fixed schedules beside it use the whole budget, and the least
//! delay at known rates says how much is left to gain. Every run ends with one more read of each
//! route that is not counted as a request, so that each record is either seen or lost. Pure: no
//! clock, no I/O, the same seed gives the same run.

mod adaptive;
mod chart;
mod fixed;
mod optimum;
mod table;
mod traffic;
mod window;

use std::time::Duration;

use serde::Serialize;

pub(crate) use self::chart::svg;
pub(crate) use self::table::table;
pub(crate) use self::traffic::{Shop, Traffic};

/// What a simulation is run with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SimulationSettings {
    /// Records a page can hold.
    pub(crate) limit: u32,
    /// Requests a minute that may be spent.
    pub(crate) requests_per_minute: u32,
    /// Shortest time between two polls of a route.
    pub(crate) min_interval: Duration,
    /// Longest time between two polls of a route.
    pub(crate) max_interval: Duration,
}

impl Default for SimulationSettings {
    /// What the configuration leaves to polls by default: the key's requests less the reserve, the
    /// page of the contract, and its intervals.
    fn default() -> Self {
        Self {
            limit: 100,
            requests_per_minute: 45,
            min_interval: Duration::from_secs(1),
            max_interval: Duration::from_secs(90),
        }
    }
}

/// The outcome of all schedules over the same records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ScheduleComparison {
    /// `adaptive`, `uniform`, `proportional`, `cron`, in this order.
    pub(crate) schedules: Vec<ScheduleResult>,
    /// The least mean delay that known rates allow under this budget; absent for a trace.
    pub(crate) optimum_delay_s: Option<f64>,
}

/// The outcome of one schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ScheduleResult {
    /// Which schedule.
    pub(crate) name: &'static str,
    /// Requests sent.
    pub(crate) requests: u64,
    /// The mean time from a record's arrival to the poll that saw it, in seconds.
    pub(crate) mean_delay_s: f64,
    /// The median of that time, in seconds.
    pub(crate) p50_s: f64,
    /// The time that 99 of 100 records stay below, in seconds.
    pub(crate) p99_s: f64,
    /// Records that arrived.
    pub(crate) arrived: u64,
    /// Records no poll saw.
    pub(crate) lost: u64,
    /// Lost records that no recorded gap covers.
    pub(crate) lost_outside_gaps: u64,
    /// Gaps recorded.
    pub(crate) gaps: u64,
    /// Pages that do not prove that nothing was missed, although there is reason to think so.
    pub(crate) suspect: u64,
    /// Requests the server refused.
    pub(crate) http_429: u64,
    /// Requests in each hour since the start.
    #[serde(skip)]
    pub(crate) requests_by_hour: Vec<u64>,
}

/// What a run collects.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunTotals {
    requests: u64,
    http_429: u64,
    delays: Vec<f32>,
    arrived: u64,
    lost: u64,
    lost_outside_gaps: u64,
    gaps: u64,
    suspect: u64,
    by_hour: Vec<u64>,
    /// The longest time by which an interval exceeded its guarantee; 0 if none did.
    over_guarantee: f64,
}

impl RunTotals {
    fn result(mut self, name: &'static str) -> ScheduleResult {
        let sum: f64 = self.delays.iter().map(|delay| f64::from(*delay)).sum();
        let seen = self.delays.len();
        ScheduleResult {
            name,
            requests: self.requests,
            mean_delay_s: if seen == 0 { 0.0 } else { sum / seen as f64 },
            p50_s: quantile(&mut self.delays, 0.5),
            p99_s: quantile(&mut self.delays, 0.99),
            arrived: self.arrived,
            lost: self.lost,
            lost_outside_gaps: self.lost_outside_gaps,
            gaps: self.gaps,
            suspect: self.suspect,
            http_429: self.http_429,
            requests_by_hour: self.by_hour,
        }
    }

    fn count_request(&mut self, at: f64) {
        self.requests += 1;
        let hour = (at / 3600.0) as usize;
        if self.by_hour.len() <= hour {
            self.by_hour.resize(hour + 1, 0);
        }
        self.by_hour[hour] += 1;
    }
}

fn quantile(delays: &mut [f32], part: f64) -> f64 {
    if delays.is_empty() {
        return 0.0;
    }
    let place = ((delays.len() - 1) as f64 * part).round() as usize;
    f64::from(*delays.select_nth_unstable_by(place, f32::total_cmp).1)
}

/// Runs the adaptive schedule over `traffic`, then the fixed ones with the whole budget.
pub(crate) fn compare(traffic: &Traffic, settings: &SimulationSettings) -> ScheduleComparison {
    let adaptive = adaptive::run(traffic, settings);
    let requests = traffic.span_s / optimum::SPAN_S * f64::from(settings.requests_per_minute);
    let requests = (requests.floor() as u64).max(1);
    let uniform = fixed::run(traffic, settings, &fixed::uniform(traffic, requests));
    let proportional = fixed::run(traffic, settings, &fixed::proportional(traffic, requests));
    let cron = fixed::run(traffic, settings, &fixed::cron(traffic, requests));
    ScheduleComparison {
        schedules: vec![
            adaptive.result("adaptive"),
            uniform.result("uniform"),
            proportional.result("proportional"),
            cron.result("cron"),
        ],
        optimum_delay_s: optimum::mean_delay(traffic, settings),
    }
}

#[cfg(test)]
mod tests;
