use super::*;

/// Arrivals an hour of the worked example: uniform polling waits 6.0 s, the optimum 4.53 s.
const EXAMPLE: [f64; 6] = [20.0, 12.0, 30.0, 25.0, 120.0, 2.0];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn adaptive_and_uniform(traffic: &Traffic, settings: &Settings) -> [ScheduleResult; 2] {
    let adaptive = adaptive::run(traffic, settings);
    let plan = fixed::uniform(traffic, adaptive.requests);
    let uniform = fixed::run(traffic, settings, &plan);
    [adaptive.result("adaptive"), uniform.result("uniform")]
}

/// Requests by day and by night from an hour on, each an hour.
fn day_and_night(requests_by_hour: &[u64], from: usize) -> (f64, f64) {
    let (mut day, mut night) = ((0, 0), (0, 0));
    for (hour, requests) in requests_by_hour.iter().enumerate().skip(from) {
        let open = matches!((hour / 24 % 7, hour % 24), (0..=4, 9..=17) | (5, 10..=13));
        let part = if open { &mut day } else { &mut night };
        *part = (part.0 + requests, part.1 + 1);
    }
    (day.0 as f64 / f64::from(day.1), night.0 as f64 / f64::from(night.1))
}

#[test]
fn the_worked_example_is_near_its_optimum_with_rates_learned_from_nothing() {
    let settings = Settings { requests_per_minute: 30, ..Settings::default() };
    let mut sum = 0.0;
    for seed in 0..10 {
        let traffic = Traffic::rates(&EXAMPLE, 24.0, seed);
        let [adaptive, uniform] = adaptive_and_uniform(&traffic, &settings);
        assert!(adaptive.mean_delay_s < 4.85, "seed {seed}: {adaptive:?}");
        assert!(uniform.mean_delay_s > 5.9, "seed {seed}: {uniform:?}");
        assert_eq!((adaptive.lost, adaptive.http_429), (0, 0), "seed {seed}");
        assert_eq!(adaptive.requests, uniform.requests);
        sum += adaptive.mean_delay_s;
    }
    assert!(sum / 10.0 <= 4.8, "mean delay {}", sum / 10.0);
}

#[test]
fn a_shop_waits_less_than_under_uniform_polls_and_its_night_costs_little() {
    let traffic = Traffic::shop(Shop::Busy, 21.0 * 24.0, 1);
    let [adaptive, uniform] = adaptive_and_uniform(&traffic, &Settings::default());
    let (ours, theirs) = (adaptive.mean_delay_s, uniform.mean_delay_s);
    assert!(ours < 0.8 * theirs, "{ours} beside {theirs}");
    assert_eq!(adaptive.lost, 0);
    let (day, night) = day_and_night(&adaptive.requests_by_hour, 14 * 24);
    assert!(night < 0.1 * day, "{night} requests an hour by night, {day} by day");
}

/// Quiet routes of which one swells to `peak` records a minute within minutes, and ebbs.
fn ramp(seed: u64, peak: f64) -> Traffic {
    let mut chance = fastrand::Rng::with_seed(seed);
    let (busy, start) = (chance.usize(0..6), 300.0 + 300.0 * chance.f64());
    let (rise, hold) = (240.0 + 300.0 * chance.f64(), 300.0);
    let rate = move |route: usize, at: f64| {
        let since = at - start;
        let swell = (since / rise).min((rise + hold + rise - since) / rise).clamp(0.0, 1.0);
        EXAMPLE[route] + if route == busy { swell * peak * 60.0 } else { 0.0 }
    };
    let most = move |route: usize| EXAMPLE[route] + if route == busy { peak * 60.0 } else { 0.0 };
    Traffic::random(&NAMES, 2000.0, seed, most, rate)
}

/// A route with a steady stream and blocks of `size` records that come at once.
fn blocks(seed: u64, size: usize) -> Traffic {
    let mut traffic = Traffic::rates(&[1200.0, 12.0, 30.0, 25.0, 120.0, 2.0], 1.5, seed);
    let mut chance = fastrand::Rng::with_seed(!seed);
    let stream = &mut traffic.routes[0].arrivals;
    for block in 0..12 {
        let at = 300.0 + 400.0 * f64::from(block) + 100.0 * chance.f64();
        stream.extend(std::iter::repeat_n(at, size));
    }
    stream.sort_by(f64::total_cmp);
    traffic
}

#[test]
fn ramps_lose_nothing_where_uniform_polls_lose() {
    let settings = Settings { requests_per_minute: 12, ..Settings::default() };
    let mut uniform_lost = 0;
    for seed in 0..1000 {
        let [adaptive, uniform] = adaptive_and_uniform(&ramp(seed, 240.0), &settings);
        assert_eq!(adaptive.lost, 0, "seed {seed}: {adaptive:?}");
        assert_eq!(adaptive.gaps, 0, "seed {seed}: {adaptive:?}");
        uniform_lost += u32::from(uniform.lost > 0);
    }
    assert!(uniform_lost > 900, "uniform lost in {uniform_lost} of 1000 only: too easy");
}

#[test]
fn blocks_of_records_lose_nothing_where_uniform_polls_lose() {
    let settings = Settings { requests_per_minute: 4, ..Settings::default() };
    let mut uniform_lost = 0;
    for seed in 0..1000 {
        let [adaptive, uniform] = adaptive_and_uniform(&blocks(seed, 60), &settings);
        assert_eq!(adaptive.lost, 0, "seed {seed}: {adaptive:?}");
        assert_eq!(adaptive.gaps, 0, "seed {seed}: {adaptive:?}");
        uniform_lost += u32::from(uniform.lost > 0);
    }
    assert!(uniform_lost > 200, "uniform lost in {uniform_lost} of 1000 only: too easy");
}

#[test]
fn beyond_what_is_feasible_every_loss_lies_in_a_gap() {
    let settings = Settings { requests_per_minute: 6, ..Settings::default() };
    let (mut lost, mut gaps, mut suspect) = (0, 0, 0);
    for seed in 0..60 {
        let run = adaptive::run(&ramp(seed, 3000.0), &settings).result("adaptive");
        assert_eq!(run.lost_outside_gaps, 0, "seed {seed}");
        assert_eq!(run.http_429, 0, "seed {seed}");
        lost += run.lost;
        gaps += run.gaps;
        suspect += run.suspect;
    }
    assert!(lost > 10_000 && gaps > 200, "{lost} lost in {gaps} gaps: too easy");
    assert!(suspect * 100 <= gaps, "{suspect} suspect of {gaps}");
}

#[test]
fn a_year_with_faults_loses_nothing_unsaid() {
    let faults = Faults { seed: 11, failing: 0.02, a_day: 1.0 };
    let settings = Settings {
        requests_per_minute: 4,
        max_interval: Duration::from_secs(600),
        faults: Some(faults),
        ..Settings::default()
    };
    let traffic = Traffic::shop(Shop::Busy, 365.0 * 24.0, 11);
    let run = adaptive::run(&traffic, &settings).result("adaptive");
    assert_eq!(run.lost_outside_gaps, 0, "{}", run.lost);
    assert_eq!((run.lost, run.http_429), (0, 0), "{} gaps", run.gaps);
    assert!(run.arrived > 400_000, "{}", run.arrived);
    assert!(run.mean_delay_s < 90.0, "{}", run.mean_delay_s);
    assert!(run.requests < 4 * 60 * 24 * 365, "{}", run.requests);
}

#[test]
fn rates_of_zero_and_nothing_at_all_neither_stall_nor_storm() {
    let result =
        compare(&Traffic::rates(&[0.0, 0.0, -3.0, f64::NAN], 24.0, 1), &Settings::default());
    for schedule in &result.schedules {
        assert_eq!((schedule.arrived, schedule.lost), (0, 0));
        assert!((100..=64_800).contains(&schedule.requests), "{schedule:?}");
    }
}

#[test]
fn absurd_spans_and_rates_end() {
    for hours in [-1.0, 0.0, f64::NAN] {
        assert!(Traffic::rates(&EXAMPLE, hours, 1).span_s <= 3600.0);
    }
    assert!(Traffic::rates(&[1e-9], f64::INFINITY, 1).span_s < 1e9);
    let endless = Traffic::rates(&[1e15], 1.0, 1);
    assert!(endless.routes[0].arrivals.len() <= 5_000_000);
}

#[test]
fn the_same_seed_gives_the_same_numbers_in_the_promised_shape() {
    let run = || compare(&Traffic::rates(&EXAMPLE, 2.0, 7), &Settings::default());
    assert_eq!(run(), run());
    let json = serde_json::to_value(run()).unwrap();
    let names: Vec<&str> =
        json["schedules"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["adaptive", "uniform", "proportional", "cron"]);
    let mut keys: Vec<&String> = json["schedules"][0].as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "arrived",
            "gaps",
            "http_429",
            "lost",
            "lost_outside_gaps",
            "mean_delay_s",
            "name",
            "p50_s",
            "p99_s",
            "requests",
            "suspect"
        ]
    );
}

#[test]
fn every_schedule_is_given_the_same_requests_and_the_same_records() {
    let result = compare(&Traffic::shop(Shop::Quiet, 30.0, 3), &Settings::default());
    let first = &result.schedules[0];
    for schedule in &result.schedules {
        assert_eq!((schedule.requests, schedule.arrived), (first.requests, first.arrived));
    }
}

#[test]
fn a_trace_is_read_and_its_errors_name_the_line() {
    let text = "seconds,route,id\n1767571300,leads,a\n1767571200,jobs,7\n1767571260,jobs,8\n1767571290,jobs,7\n";
    let traffic = Traffic::from_trace(text, None).unwrap();
    let names: Vec<&str> = traffic.routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["jobs", "leads"]);
    assert_eq!(traffic.routes[0].arrivals, [0.0, 60.0]);
    assert_eq!(traffic.start.as_second(), 1_767_571_200);
    assert_eq!(compare(&traffic, &Settings::default()).schedules[0].arrived, 3);

    let wrong = |text| Traffic::from_trace(text, None).unwrap_err().to_string();
    assert!(wrong("1,jobs,1\nsoon,jobs,2\n").starts_with("trace line 2: the first field"));
    assert!(wrong("1,jobs\n").starts_with("trace line 1: there is no id"));
    assert_eq!(Traffic::from_trace("", None), Err(TraceError::Empty));
}
