use super::traffic::TraceError;
use super::*;

/// Arrivals an hour of the worked example: uniform polling waits 6.0 s, the optimum 4.53 s.
const EXAMPLE: [f64; 6] = [20.0, 12.0, 30.0, 25.0, 120.0, 2.0];

#[test]
fn an_import_at_the_defaults_loses_nothing() {
    for (seed, (records, seconds)) in [(150, 60.0), (240, 60.0), (2400, 300.0)]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let mut traffic = Traffic::rates(&EXAMPLE, 1.5, seed as u64);
        let start = 3600.0 + 61.3 * seed as f64;
        let import = (0..records).map(|k| start + seconds * f64::from(k) / f64::from(records));
        traffic.routes[5].arrivals.extend(import);
        traffic.routes[5].arrivals.sort_by(f64::total_cmp);
        let run = adaptive::run(&traffic, &SimulationSettings::default());
        assert!(
            run.over_guarantee < 0.01,
            "seed {seed}: {} s over",
            run.over_guarantee
        );
        let run = run.result("adaptive");
        assert_eq!(
            (run.lost, run.gaps),
            (0, 0),
            "seed {seed}: {records} in {seconds} s"
        );
    }
}

#[test]
fn a_trace_is_read_and_its_errors_name_the_line() {
    let text = "seconds,route,id\n1767571300,leads,a\n1767571200,jobs,7\n1767571260,jobs,8\n1767571290,jobs,7\n";
    let traffic = Traffic::from_trace(text, None).unwrap();
    let names: Vec<&str> = traffic
        .routes
        .iter()
        .map(|route| route.name.as_str())
        .collect();
    let all = [
        "jobs",
        "customers",
        "leads",
        "payments",
        "job_status_changes",
        "outsourced_jobs",
    ];
    assert_eq!(names, all, "a daemon polls the quiet routes too");
    assert_eq!(traffic.routes[0].arrivals, [0.0, 60.0]);
    assert_eq!(traffic.start.as_second(), 1_767_571_200);
    assert_eq!(
        compare(&traffic, &SimulationSettings::default()).schedules[0].arrived,
        3
    );

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
