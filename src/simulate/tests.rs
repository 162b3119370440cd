use super::*;
use crate::contiguity;

/// Arrivals an hour of the worked example: uniform polling waits 6.0 s, the optimum 4.53 s.
const EXAMPLE: [f64; 6] = [20.0, 12.0, 30.0, 25.0, 120.0, 2.0];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn adaptive_and_uniform(traffic: &Traffic, settings: &SimulationSettings) -> [ScheduleResult; 2] {
    let adaptive = adaptive::run(traffic, settings);
    let plan = fixed::uniform(traffic, adaptive.requests);
    let uniform = fixed::run(traffic, settings, &plan);
    [adaptive.result("adaptive"), uniform.result("uniform")]
}

#[test]
fn the_worked_example_is_near_its_optimum_after_days_of_calm() {
    let settings = SimulationSettings { requests_per_minute: 10, ..SimulationSettings::default() };
    let traffic = Traffic::rates(&EXAMPLE, 15.0 * 24.0, 1);
    let [adaptive, uniform] = adaptive_and_uniform(&traffic, &settings);
    let optimum = optimum::mean_delay(&traffic, &settings).unwrap();
    assert!((13.5..14.5).contains(&optimum), "{optimum}");
    // The first days, in which the guarantees still grow, are part of the mean.
    assert!(adaptive.mean_delay_s < 1.07 * optimum, "{adaptive:?} beside {optimum}");
    assert!(uniform.mean_delay_s > 17.5, "{uniform:?}");
    assert_eq!((adaptive.lost, adaptive.http_429), (0, 0));
}

#[test]
fn a_new_daemon_is_never_slower_than_polling_in_turn() {
    for (requests_per_minute, part) in [(45, 0.95), (30, 1.02), (10, 1.02)] {
        let settings = SimulationSettings { requests_per_minute, ..SimulationSettings::default() };
        let (mut ours, mut theirs) = (0.0, 0.0);
        for seed in 0..6 {
            let traffic = Traffic::rates(&EXAMPLE, 6.0, seed);
            let [adaptive, uniform] = adaptive_and_uniform(&traffic, &settings);
            assert_eq!((adaptive.lost, adaptive.http_429), (0, 0), "seed {seed}");
            ours += adaptive.mean_delay_s;
            theirs += uniform.mean_delay_s;
        }
        assert!(ours < part * theirs, "{ours} beside {theirs} at {requests_per_minute}");
    }
}

#[test]
fn a_shop_waits_less_than_under_uniform_polls_and_spends_the_whole_budget() {
    let traffic = Traffic::shop(Shop::Busy, 10.0 * 24.0, 1);
    let settings = SimulationSettings { requests_per_minute: 10, ..SimulationSettings::default() };
    let [adaptive, uniform] = adaptive_and_uniform(&traffic, &settings);
    let (ours, theirs) = (adaptive.mean_delay_s, uniform.mean_delay_s);
    assert!(ours < 0.85 * theirs, "{ours} beside {theirs}");
    assert_eq!(adaptive.lost, 0);
    let whole = traffic.span_s / 60.5 * 10.0;
    assert!(adaptive.requests as f64 > 0.999 * whole, "{} of {whole}", adaptive.requests);
}

#[test]
fn batches_larger_than_a_page_do_not_slow_the_other_routes() {
    let mut traffic = Traffic::rates(&EXAMPLE, 24.0, 1);
    let settings = SimulationSettings::default();
    let before = adaptive::run(&traffic, &settings).result("adaptive").mean_delay_s;
    for batch in 0..6 {
        let at = 7200.0 + 6000.0 * f64::from(batch);
        traffic.routes[1].arrivals.extend((0..150).map(|k| at + f64::from(k) / 150.0));
    }
    traffic.routes[1].arrivals.sort_by(f64::total_cmp);
    let after = adaptive::run(&traffic, &settings).result("adaptive");
    assert!(after.lost >= 200 && after.lost_outside_gaps == 0, "{after:?}");
    assert!(after.mean_delay_s < 1.3 * before, "{} beside {before}", after.mean_delay_s);
}

#[test]
fn an_import_at_the_defaults_loses_nothing() {
    for (seed, (records, seconds)) in
        [(150, 60.0), (240, 60.0), (2400, 300.0)].into_iter().cycle().take(30).enumerate()
    {
        let mut traffic = Traffic::rates(&EXAMPLE, 3.0, seed as u64);
        let start = 7200.0 + 61.3 * seed as f64;
        let import = (0..records).map(|k| start + seconds * f64::from(k) / f64::from(records));
        traffic.routes[5].arrivals.extend(import);
        traffic.routes[5].arrivals.sort_by(f64::total_cmp);
        let run = adaptive::run(&traffic, &SimulationSettings::default()).result("adaptive");
        assert_eq!((run.lost, run.gaps), (0, 0), "seed {seed}: {records} in {seconds} s");
    }
}

#[test]
fn a_rule_that_proves_too_much_shows_as_records_lost_outside_gaps() {
    fn believes_everything(
        previous: Option<&contiguity::PreviousPage>,
        page: &[contiguity::Sighting],
        limit: usize,
    ) -> contiguity::Proof {
        let proof = contiguity::classify(previous, page, limit);
        contiguity::Proof { contiguity: contiguity::Contiguity::Contiguous, ..proof }
    }
    let settings = SimulationSettings { requests_per_minute: 6, ..SimulationSettings::default() };
    let traffic = ramp(1, 3000.0);
    let right = adaptive::run(&traffic, &settings).result("adaptive");
    assert!(right.lost > 100 && right.lost_outside_gaps == 0, "{right:?}");
    let wrong = adaptive::run_by(&traffic, &settings, believes_everything, |_, _, _, _| ())
        .result("adaptive");
    assert!(wrong.lost > 100 && wrong.lost_outside_gaps == wrong.lost, "{wrong:?}");
}

#[test]
fn no_guarantee_is_exceeded_in_the_minutes_after_the_unspaced_first_cycle() {
    for seed in 0..40 {
        let requests_per_minute = [45, 60, 30, 10][seed as usize % 4];
        let settings = SimulationSettings { requests_per_minute, ..SimulationSettings::default() };
        let busy = EXAMPLE.map(|rate| rate * 30.0);
        let mut traffic = Traffic::rates(&busy, 0.25, seed);
        for batch in 0..3 {
            let at = 13.0 + seed as f64 * 2.9 + 40.0 * f64::from(batch);
            for route in [1, 2] {
                let arrivals = &mut traffic.routes[route].arrivals;
                arrivals.extend((0..150).map(|k| at + f64::from(k) / 150.0));
                arrivals.sort_by(f64::total_cmp);
            }
        }
        let run = adaptive::run(&traffic, &settings);
        assert!(run.over_guarantee < 0.01, "seed {seed}: {} s over", run.over_guarantee);
    }
}

#[test]
fn a_start_with_many_routes_promises_no_interval_far_beyond_polling_in_turn() {
    for (requests_per_minute, routes) in [(45, 30), (45, 42), (45, 60), (20, 18), (5, 6)] {
        let settings = SimulationSettings { requests_per_minute, ..SimulationSettings::default() };
        let traffic = Traffic::rates(&vec![20.0; routes], 0.25, 1);
        let in_turn = routes as f64 * 60.5 / f64::from(requests_per_minute);
        let run =
            adaptive::run_by(&traffic, &settings, contiguity::classify, |schedule, _, _, at| {
                let longest = (0..routes).map(|p| schedule.guarantee(p)).fold(0.0, f64::max);
                assert!(
                    longest < 1.6 * in_turn.max(10.0),
                    "{longest:.0} s at {at:.0} s, {routes} routes in turn {in_turn:.0} s"
                );
            });
        assert!(run.over_guarantee < 0.01, "{} s over", run.over_guarantee);
    }
}

/// The battery's imports: records, seconds, and the route of a quiet shop.
const IMPORTS: [(u32, f64, usize); 5] =
    [(150, 60.0, 5), (240, 60.0, 1), (2400, 300.0, 5), (300, 300.0, 1), (300, 200.0, 5)];

fn add_import(traffic: &mut Traffic, (records, seconds, route): (u32, f64, usize), start: f64) {
    let arrivals = &mut traffic.routes[route].arrivals;
    arrivals.extend((0..records).map(|k| start + seconds * f64::from(k) / f64::from(records)));
    arrivals.sort_by(f64::total_cmp);
}

#[test]
fn at_risk_is_told_before_the_first_loss_that_an_earlier_page_could_foretell() {
    let (mut losing, mut foretold) = (0, 0);
    for seed in 0..60 {
        let settings =
            SimulationSettings { requests_per_minute: 10, ..SimulationSettings::default() };
        let mut traffic = Traffic::rates(&EXAMPLE, 3.0, seed);
        let import = IMPORTS[seed as usize % IMPORTS.len()];
        let start = 7200.0 + 17.3 * seed as f64;
        add_import(&mut traffic, import, start);
        let (mut lost, mut warned, mut shown) = (0, false, 0);
        adaptive::run_by(&traffic, &settings, contiguity::classify, |schedule, run, poller, at| {
            // What the status said until this page was read.
            let at_risk = schedule.forecast().first_to_fail == Some(poller);
            if run.lost > lost {
                losing += 1;
                foretold += usize::from(at_risk);
                assert!(
                    at_risk || shown < 7,
                    "seed {seed}: {} lost after {shown} were shown",
                    run.lost
                );
            }
            lost = run.lost;
            warned |= at_risk;
            if poller == import.2 {
                let arrivals = &traffic.routes[poller].arrivals;
                shown = arrivals.iter().filter(|arrival| (start..=at).contains(arrival)).count();
            }
        });
        assert!(lost == 0 || warned, "seed {seed}: {lost} lost and never at risk");
    }
    assert!(losing > 60 && foretold * 4 > losing * 3, "{foretold} of {losing} losses foretold");
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

#[test]
fn ramps_lose_far_less_than_under_uniform_polls() {
    let settings = SimulationSettings { requests_per_minute: 12, ..SimulationSettings::default() };
    let (mut ours, mut theirs) = (0, 0);
    for seed in 0..40 {
        let [adaptive, uniform] = adaptive_and_uniform(&ramp(seed, 240.0), &settings);
        assert_eq!(adaptive.lost_outside_gaps, 0, "seed {seed}: {adaptive:?}");
        ours += adaptive.lost;
        theirs += uniform.lost;
    }
    assert!(ours * 10 < theirs * 8, "{ours} lost beside {theirs}");
}

/// A route with a steady stream, and blocks of `size` records on it that come at once.
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
fn blocks_of_records_on_a_busy_route_lose_hardly_more_than_under_uniform_polls() {
    let settings = SimulationSettings { requests_per_minute: 5, ..SimulationSettings::default() };
    let (mut ours, mut theirs) = (0, 0);
    for seed in 0..200 {
        let [adaptive, uniform] = adaptive_and_uniform(&blocks(seed, 68), &settings);
        assert_eq!(adaptive.lost_outside_gaps, 0, "seed {seed}: {adaptive:?}");
        ours += adaptive.lost;
        theirs += uniform.lost;
    }
    // Chance makes the sums differ by a fifth.
    assert!(ours * 10 <= theirs * 12 && theirs < 2000, "{ours} of 144,000 lost beside {theirs}");
}

#[test]
fn beyond_what_is_feasible_every_loss_lies_in_a_gap() {
    let settings = SimulationSettings { requests_per_minute: 6, ..SimulationSettings::default() };
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
fn four_months_with_faults_lose_nothing_unsaid() {
    let faults = SimulatedFaults { seed: 11, failing: 0.02, a_day: 1.0 };
    let settings = SimulationSettings {
        requests_per_minute: 4,
        max_interval: Duration::from_secs(600),
        faults: Some(faults),
        ..SimulationSettings::default()
    };
    let traffic = Traffic::shop(Shop::Busy, 120.0 * 24.0, 11);
    let run = adaptive::run(&traffic, &settings).result("adaptive");
    assert_eq!(run.lost_outside_gaps, 0, "{}", run.lost);
    assert_eq!((run.lost, run.http_429), (0, 0), "{} gaps", run.gaps);
    assert!(run.arrived > 130_000, "{}", run.arrived);
    assert!(run.mean_delay_s < 90.0, "{}", run.mean_delay_s);
    assert!(run.requests < 4 * 60 * 24 * 120, "{}", run.requests);
}

#[test]
fn rates_of_zero_and_nothing_at_all_neither_stall_nor_storm() {
    let result = compare(
        &Traffic::rates(&[0.0, 0.0, -3.0, f64::NAN], 24.0, 1),
        &SimulationSettings::default(),
    );
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
    let run = || compare(&Traffic::rates(&EXAMPLE, 2.0, 7), &SimulationSettings::default());
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
fn every_schedule_is_given_the_whole_budget_and_the_same_records() {
    let result = compare(&Traffic::shop(Shop::Quiet, 30.0, 3), &SimulationSettings::default());
    let first = &result.schedules[0];
    for schedule in &result.schedules {
        assert!(schedule.requests.abs_diff(first.requests) <= 6, "{schedule:?} beside {first:?}");
        assert_eq!(schedule.arrived, first.arrived);
    }
}

#[test]
fn a_trace_with_businesses_has_all_routes_of_each_and_no_others() {
    let names = |text: &str| -> Vec<String> {
        let traffic = Traffic::from_trace(text, None).unwrap();
        traffic.routes.into_iter().map(|route| route.name).collect()
    };
    let two = names("\u{feff}seconds,route,id\r\n1,jobs@1,1\r\n2,leads@2,1\r\n");
    assert_eq!(two.len(), 12, "{two:?}");
    assert_eq!((two[0].as_str(), two[11].as_str()), ("jobs@1", "outsourced_jobs@2"));
    assert_eq!(names("1,a,1\n2,b,1\n"), ["a", "b"]);
}

#[test]
fn the_least_delay_of_a_tiny_budget_is_one_that_it_can_reach() {
    let settings = SimulationSettings { requests_per_minute: 1, ..SimulationSettings::default() };
    let traffic = Traffic::rates(&[20.0; 6], 1.0, 1);
    let least = optimum::mean_delay(&traffic, &settings).unwrap();
    assert!((least - 6.0 * 60.5 / 2.0).abs() < 1.0, "{least}");
    // A schedule that cannot keep max_interval is not bounded by it: unequal rates gain from that.
    let unequal = Traffic::rates(&[1000.0, 1.0, 1.0, 1.0, 1.0, 0.0], 24.0, 1);
    let outcome = compare(&unequal, &settings);
    let least = outcome.optimum_delay_s.unwrap();
    let reached = outcome.schedules.iter().map(|result| result.mean_delay_s);
    let reached = reached.fold(f64::INFINITY, f64::min);
    assert!((10.0..reached).contains(&least), "{least} s, but {reached} s were reached");
}

#[test]
fn a_trace_is_read_and_its_errors_name_the_line() {
    let text = "seconds,route,id\n1767571300,leads,a\n1767571200,jobs,7\n1767571260,jobs,8\n1767571290,jobs,7\n";
    let traffic = Traffic::from_trace(text, None).unwrap();
    let names: Vec<&str> = traffic.routes.iter().map(|route| route.name.as_str()).collect();
    let all = ["jobs", "customers", "leads", "payments", "job_status_changes", "outsourced_jobs"];
    assert_eq!(names, all, "a daemon polls the quiet routes too");
    assert_eq!(traffic.routes[0].arrivals, [0.0, 60.0]);
    assert_eq!(traffic.start.as_second(), 1_767_571_200);
    assert_eq!(compare(&traffic, &SimulationSettings::default()).schedules[0].arrived, 3);

    let wrong = |text| Traffic::from_trace(text, None).unwrap_err().to_string();
    assert!(wrong("1,jobs,1\nsoon,jobs,2\n").starts_with("trace line 2: the first field"));
    assert!(wrong("1,jobs\n").starts_with("trace line 1: there is no id"));
    assert!(wrong("1,\"jobs@a,b\"\n").starts_with("trace line 1: there is no id"));
    assert!(
        wrong("1,\"jobs@a,7\n").starts_with("trace line 1: a quote of the route is not closed")
    );
    assert_eq!(Traffic::from_trace("", None), Err(TraceError::Empty));
    assert!(wrong("0,jobs,1\n9999999999,jobs,2\n").starts_with("the trace lasts over 316 years"));
    assert!(Traffic::from_trace("0,jobs,1\n9999999999,jobs,2\n", Some(1.0)).is_ok());
    let swapped: String = (0..2_000).map(|id| format!("{id},{id},jobs\n")).collect();
    assert!(wrong(&swapped).starts_with("the trace names 2000 routes"));
}
