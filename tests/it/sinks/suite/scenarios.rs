//! The scenarios: one daemon with every destination, which must hold the whole log at the end.

use std::collections::{HashMap, HashSet};

use rustix::process::Signal;
use shopmirror::config::{Base, Config};

use super::destinations::all;
use super::judge::Arrival;
use super::world::World;
use super::{Destination, LATE, Mood, NO_MEANING, REFUSED, Scenario, no_meaning};

/// Enough for several rounds of every sink, and few enough for a process each.
const RECORDS: usize = 40;
const VERSIONS: usize = 3;

/// Nothing is there twice, whatever the sink.
fn once(_: &dyn Destination) -> bool {
    true
}

/// Nothing is there twice where the destination can tell a repeat.
fn once_where_repeats_are_known(one: &dyn Destination) -> bool {
    !one.shows_repeats()
}

async fn world(scenario: Scenario) -> World {
    World::of(scenario, all(false).await, RECORDS, VERSIONS).await
}

/// Every type of sink is there, and every empty cell names one that is.
fn assert_complete(all: &[Box<dyn Destination>]) {
    if std::env::var("SHOPMIRROR_LEFT_OUT").is_ok_and(|left_out| !left_out.is_empty()) {
        return;
    }
    let text =
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.x]\ntype = \"nothing\"\n";
    let base = Base {
        env_key: Some("key".into()),
        ..Base::default()
    };
    let said = Config::parse(text, "shopmirror.toml", &base)
        .unwrap_err()
        .to_string();
    let types = said
        .split("use one of ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    for name in types.split(", ") {
        let of_type = format!("type = \"{}\"", name.trim());
        assert!(
            all.iter().any(|one| one.keys("20s").contains(&of_type)),
            "{name} is missing"
        );
    }
    for name in NO_MEANING.iter().flat_map(|(names, ..)| *names) {
        assert!(all.iter().any(|one| one.name() == *name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_lets_no_version_of_its_record_pass_an_earlier_one() {
    // Of three versions the first is answered when everything else was: the second one was stored
    // behind it by then, because more than 64 changes passed both, and the third one was not.
    let (others, last) = (1..=102, 102);
    let other = |record: usize| (record, 0, format!("Name {record}"));
    let mut rows: Vec<_> = others.map(other).collect();
    rows.push((0, 2, "Third".to_owned()));
    rows.insert(40, (0, 1, "Second".to_owned()));
    rows.insert(0, (0, 0, LATE.to_owned()));
    let world = World::filled(Scenario::Late, all(false).await, rows).await;
    world.cells().for_each(|one| one.be(Mood::Late));
    let daemon = world.place.started().await;
    let is_asked = async |one: &dyn Destination| !one.received().await.is_empty();
    world
        .each("it has the first version", world.cells(), is_asked)
        .await;
    // The calls of the other sinks do not overlap.
    let webhook = world.cells().filter(|one| one.name() == "webhook");
    let has_others = async |one: &dyn Destination| {
        let arrived = one.received().await;
        let is_first = |other: &&Arrival| other.record_id == world.log[0].record_id;
        assert!(
            arrived.iter().filter(is_first).count() <= 1,
            "a later version was sent"
        );
        arrived.len() > last
    };
    world
        .each("it has all other records", webhook, has_others)
        .await;
    world.be(Mood::Well);
    world.done().await;
    daemon.stop().await;
    world.judge(once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_record_does_nothing_but_arrive_in_order_and_once() {
    let all = all(false).await;
    assert_complete(&all);
    let world = World::of(Scenario::Hostile, all, 12, 12).await;
    let daemon = world.place.started().await;
    world.done().await;
    let said = world.place.run(["log"]).await;
    daemon.stop().await;
    world.judge(once).await;
    let raw = |text: &str| {
        text.chars()
            .any(|c| c.is_control() && c != '\n' || c == '\u{202e}')
    };
    assert!(!raw(&said.out) && !raw(&world.place.log()), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_is_named_and_loses_nothing() {
    let world = world(Scenario::TimeOut).await;
    world.configure("1s");
    world.cells().for_each(|one| one.be(Mood::Held));
    let daemon = world.place.started().await;
    let named = async |one: &dyn Destination| {
        let said = problem(&world, one.name());
        said.contains("1s") || said.contains("time") || said.contains("answer")
    };
    world
        .each("its time-out is named", world.cells(), named)
        .await;
    // As the message says; a busy machine may need more than a second for an attempt.
    world.configure("2m");
    daemon.signal(Signal::HUP);
    world.be(Mood::Well);
    world.done().await;
    daemon.stop().await;
    // What was under way when the time was over may have arrived as well.
    world.judge(once_where_repeats_are_known).await;
}

/// What the store says of the sink's trouble: of the sink itself, or of the last refused change.
fn problem(world: &World, name: &str) -> String {
    let sink = format!(
        "SELECT concat_ws(' ', last_error, last_error_quotation) FROM _sinks WHERE name = '{name}'"
    );
    let parked = format!(
        "SELECT concat_ws(' ', last_error, last_error_quotation) FROM _queue WHERE sink = '{name}' ORDER BY attempts DESC LIMIT 1"
    );
    let rows = [world.place.rows(&sink), world.place.rows(&parked)].concat();
    rows.iter()
        .filter_map(|row| row[0].as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_refused_delays_only_its_own_record() {
    let mut rows: Vec<(usize, usize, String)> = (0..60)
        .map(|index| (index % 30, index / 30, format!("Name {index}")))
        .collect();
    // The first version of record 7; its second one has to wait.
    rows[7].2 = REFUSED.to_owned();
    let world = World::filled(Scenario::Refusal, all(false).await, rows).await;
    let daemon = world.place.started().await;
    let parked = async |one: &dyn Destination| {
        let open = world.place.rows(&format!(
            "SELECT seq, state FROM _queue WHERE sink = '{}' AND state <> 'ready' ORDER BY seq",
            one.name()
        ));
        // What is dead, because the far side asked for no other attempt, delays nothing.
        let dead = open.first().is_some_and(|row| row[1] == "dead");
        let seqs: Vec<_> = open.iter().map(|row| row[0].as_i64().unwrap()).collect();
        let sent = world.ready(one.name()) == 0;
        sent && world.position(one.name()) == 60 && seqs == if dead { vec![8] } else { vec![8, 38] }
    };
    world
        .each("only this record is parked", world.cells(), parked)
        .await;
    for one in world.cells() {
        let arrived = one.received().await;
        let ids: HashSet<&str> = arrived.iter().map(|a| a.event_id.as_str()).collect();
        let wanted = |change: &&Arrival| change.record_id != world.log[7].record_id;
        for change in world.log.iter().filter(wanted) {
            assert!(
                ids.contains(change.event_id.as_str()),
                "{}: {change:?}",
                one.name()
            );
        }
        assert!(
            !ids.contains(world.log[7].event_id.as_str()),
            "{}",
            one.name()
        );
        let problem = problem(&world, one.name());
        assert!(
            !problem.is_empty() && !problem.contains(REFUSED),
            "{}: {problem}",
            one.name()
        );
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_was_down_gets_everything_when_it_is_back() {
    let world = world(Scenario::Down).await;
    world.be(Mood::Down);
    let daemon = world.place.started().await;
    let paused = async |one: &dyn Destination| !problem(&world, one.name()).is_empty();
    world
        .each("its fault is named", world.cells(), paused)
        .await;
    assert_eq!(
        world
            .place
            .number("SELECT count(*) FROM _queue WHERE state = 'dead'"),
        0
    );
    world.be(Mood::Well);
    world.done().await;
    daemon.stop().await;
    world.judge(once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_far_side_that_restarts_in_the_middle_of_a_transaction_loses_and_doubles_nothing() {
    let world = World::of(Scenario::Restart, all(true).await, RECORDS, VERSIONS).await;
    world.cells().for_each(|one| one.crash_soon());
    let daemon = world.place.started().await;
    world
        .each("it has crashed", world.cells(), async |one| {
            one.has_crashed()
        })
        .await;
    world.cells().for_each(|one| one.come_back());
    world.done().await;
    daemon.stop().await;
    world.judge(once_where_repeats_are_known).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_sending_and_saving_repeats_under_the_same_ids_or_not_at_all() {
    let world = world(Scenario::Kill).await;
    // On a slow machine, no attempt may be over before the last sink is at work.
    world.configure("10m");
    world.be(Mood::Held);
    let daemon = world.place.started().await;
    world
        .each("it is at work", world.cells(), async |one| one.has_begun())
        .await;
    let is_file = |one: &dyn Destination| no_meaning(one.name(), Scenario::TimeOut).is_some();
    let file_is_away =
        async |one: &dyn Destination| !is_file(one) || !problem(&world, one.name()).is_empty();
    world
        .each("it is at work", world.cells(), file_is_away)
        .await;
    // From here on the daemon can send, and cannot save that it did.
    let store = world.place.writer();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    world.be(Mood::Well);
    world
        .each("it has got something", world.cells(), async |one| {
            // A file gets no byte before the store has its mark.
            is_file(one) || !one.received().await.is_empty()
        })
        .await;
    daemon.kill().await;
    store.execute_batch("ROLLBACK").unwrap();
    drop(store);
    let mut before = HashMap::new();
    for one in world.cells() {
        let ids: Vec<String> = one
            .received()
            .await
            .into_iter()
            .map(|a| a.event_id)
            .collect();
        assert_eq!(
            world.delivered(one.name()),
            0,
            "{}: it was saved",
            one.name()
        );
        before.insert(one.name(), ids);
    }
    let daemon = world.place.started().await;
    world.done().await;
    daemon.stop().await;
    world.judge(once_where_repeats_are_known).await;
    // For S3, the same batch is the same object.
    for one in world
        .cells()
        .filter(|one| one.shows_repeats() && one.name() != "s3")
    {
        let after = one.received().await;
        let again = after.iter().skip(before[one.name()].len());
        let ids: HashSet<&str> = again.map(|a| a.event_id.as_str()).collect();
        let repeated = before[one.name()]
            .iter()
            .any(|id| ids.contains(id.as_str()));
        assert!(repeated, "{}: what was not saved is sent again", one.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_load_lose_and_repeat_nothing() {
    let world = world(Scenario::Reload).await;
    // Up to the first reload nothing is done, except by a disk.
    let can_wait = |one: &&dyn Destination| no_meaning(one.name(), Scenario::Slow).is_none();
    world
        .cells()
        .filter(can_wait)
        .for_each(|one| one.be(Mood::Held));
    let daemon = world.place.started().await;
    for reload in 0..6 {
        if reload == 0 {
            let busy = world
                .cells()
                .filter(|one| !world.is_done(one.name()))
                .count();
            assert!(busy > 3, "only {busy} sinks were at work: this is no load");
        }
        let before = world.place.log().matches(" running ").count();
        // Another time-out is another sink.
        world.configure(if reload % 2 == 0 { "3m" } else { "2m" });
        daemon.signal(Signal::HUP);
        if reload == 0 {
            world.be(Mood::Slow);
        }
        crate::support::wait_until("it is reloaded", || {
            world.place.log().matches(" running ").count() > before
        })
        .await;
    }
    world.be(Mood::Well);
    world.done().await;
    daemon.stop().await;
    // On a busy machine the daemon may cut a delivery short, and says so; it is then sent again.
    let said = world.place.log();
    let was_cut = |one: &dyn Destination| {
        said.lines()
            .any(|line| line.contains("it is cut short") && line.contains(one.name()))
    };
    world
        .judge(|one| !one.shows_repeats() || !was_cut(one))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_sink_delays_none_of_the_others() {
    let world = world(Scenario::Slow).await;
    let all = world.all.iter().map(AsRef::as_ref).enumerate();
    let (slow, fast): (Vec<_>, Vec<_>) = all.partition(|(index, one)| {
        index % 2 == 0 && no_meaning(one.name(), Scenario::Slow).is_none()
    });
    slow.iter().for_each(|(_, one)| one.be(Mood::Held));
    let daemon = world.place.started().await;
    let fast = fast.into_iter().map(|(_, one)| one);
    let is_done = async |one: &dyn Destination| world.is_done(one.name());
    world
        .each("it is done beside slow ones", fast, is_done)
        .await;
    for (_, one) in &slow {
        assert_eq!(one.received().await, [], "{}", one.name());
    }
    world.be(Mood::Well);
    world.done().await;
    daemon.stop().await;
    world.judge(once).await;
}
