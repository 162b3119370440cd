//! The least mean delay that any schedule can reach if it knows every rate in advance.
//!
//! The square-root law between the shortest and the longest interval, hour by hour. No real
//! schedule reaches it, since rates must be learned and polls fall on whole requests.

use shopmirror_core::clock::KEY_MINUTE;

use super::SimulationSettings;
use super::traffic::Traffic;

const HOUR_S: f64 = 3600.0;
/// The span over which the budget spreads a minute's requests, in seconds.
pub(super) const SPAN_S: f64 = KEY_MINUTE.as_secs_f64();

/// The least mean delay in seconds; `None` when the rates are not known or nothing arrives.
pub(super) fn mean_delay(traffic: &Traffic, settings: &SimulationSettings) -> Option<f64> {
    // The hours of a week repeat, and many of them have the same rates.
    let mut computed: Vec<(&[f64], f64)> = Vec::new();
    let hours = (traffic.span_s / HOUR_S).ceil() as usize;
    let mut cost = 0.0;
    let mut records = 0.0;
    for hour in 0..hours {
        let hour_of_rates = hour % traffic.known_rates.len().max(1);
        let rates = traffic.known_rates.get(hour_of_rates)?;
        let least = match computed.iter().find(|(same, _)| same == rates) {
            Some((_, least)) => *least,
            None => {
                let least = least_delay(rates, settings);
                computed.push((rates, least));
                least
            }
        };
        let per_hour: f64 = rates.iter().sum();
        let part = (traffic.span_s / HOUR_S - hour as f64).min(1.0);
        cost += least * per_hour * part;
        records += per_hour * part;
    }
    if records > 0.0 {
        Some(cost / records)
    } else {
        None
    }
}

/// The least mean delay at constant rates an hour.
fn least_delay(rates: &[f64], settings: &SimulationSettings) -> f64 {
    let total: f64 = rates.iter().sum();
    if total <= 0.0 {
        return 0.0;
    }
    let budget = f64::from(settings.requests_per_minute) / SPAN_S;
    let most = 1.0 / settings.min_interval.as_secs_f64().max(0.001);
    let mut least = (1.0 / settings.max_interval.as_secs_f64().max(0.001)).min(most);
    // If the budget cannot keep the longest interval, no schedule does: then it bounds none.
    if least * rates.len() as f64 > budget {
        least = 1e-12;
    }

    let mut low = 1e-9_f64;
    let mut high = 1e9_f64;
    for _ in 0..80 {
        let middle = (low * high).sqrt();
        let mut needed = 0.0;
        for rate in rates {
            needed += (middle * rate.sqrt()).clamp(least, most);
        }
        if needed > budget {
            high = middle;
        } else {
            low = middle;
        }
    }
    let mut cost = 0.0;
    for rate in rates {
        let polls = (low * rate.sqrt()).clamp(least, most);
        cost += rate / (2.0 * polls);
    }
    cost / total
}
