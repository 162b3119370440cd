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
    let hours = (traffic.span_s / HOUR_S).ceil() as usize;
    let (mut cost, mut records) = (0.0, 0.0);
    let mut known: Vec<(&[f64], f64)> = Vec::new();
    for hour in 0..hours {
        let rates = traffic
            .known_rates
            .get(hour % traffic.known_rates.len().max(1))?;
        let least = known
            .iter()
            .find(|(of, _)| of == rates)
            .map(|(_, least)| *least);
        let least = least.unwrap_or_else(|| {
            let least = of_rates(rates, settings);
            known.push((rates, least));
            least
        });
        let total: f64 = rates.iter().sum();
        let part = (traffic.span_s / HOUR_S - hour as f64).min(1.0);
        cost += least * total * part;
        records += total * part;
    }
    (records > 0.0).then(|| cost / records)
}

fn of_rates(rates: &[f64], settings: &SimulationSettings) -> f64 {
    let budget = f64::from(settings.requests_per_minute) / SPAN_S;
    let most = 1.0 / settings.min_interval.as_secs_f64().max(0.001);
    let least = (1.0 / settings.max_interval.as_secs_f64().max(0.001)).min(most);
    // If the budget cannot keep the longest interval, no schedule does: then it bounds none.
    let least = if least * rates.len() as f64 > budget {
        1e-12
    } else {
        least
    };
    let total: f64 = rates.iter().sum();
    let polls = |factor: f64| {
        rates
            .iter()
            .map(move |rate| (factor * rate.sqrt()).clamp(least, most))
    };
    let (mut low, mut high) = (1e-9_f64, 1e9_f64);
    for _ in 0..80 {
        let middle = (low * high).sqrt();
        if polls(middle).sum::<f64>() > budget {
            high = middle
        } else {
            low = middle
        }
    }
    let cost: f64 = rates
        .iter()
        .zip(polls(low))
        .map(|(rate, polls)| rate / (2.0 * polls))
        .sum();
    if total > 0.0 { cost / total } else { 0.0 }
}
