//! What one process tells the next: stops, kills, commands, clocks that are set and boots in any
//! order.

use super::*;

/// A machine on which one process after another polls with the same key.
struct Machine {
    now: f64,
    /// The number of the boot, when it was, and by how much the wall clock is wrong.
    boot: (u32, f64),
    wall_off: f64,
    kept: Option<Spending>,
    sent: Vec<f64>,
}

impl Machine {
    fn new() -> Self {
        Self {
            now: 1000.0,
            boot: (0, 0.0),
            wall_off: 0.0,
            kept: None,
            sent: Vec::new(),
        }
    }

    fn time(&self) -> MachineTime {
        let wall = Timestamp::from_millisecond(((1.8e9 + self.now + self.wall_off) * 1e3) as i64);
        let since_boot = Duration::from_secs_f64(self.now - self.boot.1);
        MachineTime::new(self.boot.0.to_string(), since_boot, wall.unwrap())
    }

    /// Runs a process that polls whenever it may; `latency` is how long a response takes.
    fn run(&mut self, settings: BudgetSettings, span: f64, latency: f64, is_killed: bool) {
        let begun = self.now;
        let mut budget = Budget::new(settings, at(0.0));
        if let Some(before) = &self.kept {
            budget.resume(before, "key", at(0.0), &self.time());
        }
        budget.start_cycle(6, at(0.0));
        self.kept = Some(budget.spending("key".into(), false, at(0.0), self.time()));
        let mut responses = VecDeque::new();
        while self.now < begun + span {
            let local = at(self.now - begun);
            while responses.front().is_some_and(|due| *due <= self.now) {
                responses.pop_front();
                budget.observe(
                    &KeyReading {
                        remaining: Some(50),
                        ..KeyReading::default()
                    },
                    local,
                );
            }
            match budget.try_take(Purpose::Poll, local) {
                Ok(()) => {
                    self.sent.push(self.now);
                    responses.push_back(self.now + latency);
                    self.now += 0.001;
                }
                Err(until) => {
                    let next = responses.front().copied().unwrap_or(f64::INFINITY);
                    self.now = (begun + until.as_secs_f64()).min(next).max(self.now + 1e-6);
                }
            }
        }
        self.now = begun + span;
        if !is_killed {
            let local = at(self.now - begun);
            self.kept = Some(budget.spending("key".into(), true, local, self.time()));
        }
    }

    /// A command that sends one request without keeping a record of its own.
    fn command(&mut self, settings: BudgetSettings) {
        let mut budget = Budget::new(settings, at(0.0));
        let Some(mut kept) = self.kept.take() else {
            return;
        };
        let begun = self.now;
        budget.resume(&kept, "key", at(0.0), &self.time());
        budget.start_cycle(1, at(0.0));
        while let Err(until) = budget.try_take(Purpose::Poll, at(self.now - begun)) {
            self.now = (begun + until.as_secs_f64()).max(self.now + 1e-6);
        }
        kept.add(&self.time());
        self.kept = Some(kept);
        self.sent.push(self.now);
    }
}

#[test]
fn no_minute_exceeds_the_limit_whatever_kills_stops_boots_and_clocks_do() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let limit = random.u32(2..=70);
        let mut machine = Machine::new();
        while machine.now < 2500.0 {
            let span = random.f64().powi(3) * 90.0;
            let latency = random.f64().powi(2) * 8.0;
            machine.run(settings(limit, 0), span, latency, random.bool());
            if random.u32(..4) == 0 {
                machine.command(settings(limit, 0));
            }
            // Across a boot there is only the wall clock, so it is right then.
            if machine.wall_off == 0.0 && random.u32(..3) == 0 {
                machine.boot = (machine.boot.0 + 1, machine.now);
            } else {
                machine.wall_off = if random.bool() {
                    random.f64() * 600.0 - 300.0
                } else {
                    0.0
                };
            }
            machine.now += random.f64().powi(3) * 70.0;
        }
        let most = most_in_a_minute(&machine.sent);
        assert!(
            most <= limit as usize,
            "seed {seed}: {most} of {limit} in a minute"
        );
    }
}

#[test]
fn a_process_that_is_killed_again_and_again_sends_at_the_even_pace() {
    for (up, down, least) in [(15.0, 0.0, 0.9), (5.0, 5.0, 0.8), (60.0, 0.0, 0.95)] {
        let mut machine = Machine::new();
        while machine.now < 1600.0 {
            machine.run(settings(60, 15), up, 0.1, true);
            machine.now += down;
        }
        let even = 600.0 * up / (up + down) * 45.0 / 60.5;
        let part = machine.sent.len() as f64 / even;
        assert!(
            part >= least,
            "{up} s up and {down} s down: {part} of the even pace"
        );
        let silence = machine
            .sent
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(0.0, f64::max);
        assert!(
            silence < down + 8.0,
            "{up} s up and {down} s down: {silence} s without a request"
        );
    }
}

#[test]
fn one_kill_makes_one_start_slower_and_no_later_one() {
    let mut machine = Machine::new();
    let mut waits = Vec::new();
    for is_killed in [false, true, false, false, false] {
        let (begun, before) = (machine.now, machine.sent.len());
        machine.run(settings(60, 15), 12.0, 0.05, is_killed);
        waits.push((
            machine.sent[before] - begun,
            machine.sent[before + 5] - begun,
        ));
        machine.now += 120.0;
    }
    assert!(waits[0].1 < 1.0 && waits[1].1 < 1.0, "{waits:?}");
    assert!(
        (1.0..2.0).contains(&waits[2].0) && waits[2].1 > 6.0,
        "after the kill: {waits:?}"
    );
    assert!(waits[3].0 < 0.01 && waits[4].1 < 1.0, "{waits:?}");
}
