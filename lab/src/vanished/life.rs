//! What happens in a shop of the simulation between two polls.

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

use super::world::{Presence, World};

/// How much happens. Rates are far above a real shop's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Life {
    /// Records are created, and nobody edits one: payments.
    Still,
    /// The same, with saves that change nothing.
    Saves,
    Quiet,
    Busy,
    Flood,
}

/// The mean number of what happens in a third of an interval, or the chance of it.
struct Rates {
    create: f64,
    edit: f64,
    save: f64,
    /// One save of many records.
    bulk: f64,
    /// Records that are created in one moment.
    tied: f64,
    burst: f64,
    delete: f64,
    merge: f64,
    move_away: f64,
}

impl Life {
    fn rates(self) -> Rates {
        let still = Rates {
            create: 0.3,
            edit: 0.0,
            save: 0.0,
            bulk: 0.0,
            tied: 0.003,
            burst: 0.001,
            delete: 0.02,
            merge: 0.0,
            move_away: 0.005,
        };
        match self {
            Self::Still => still,
            Self::Saves => Rates { save: 0.2, ..still },
            Self::Quiet => Rates {
                create: 0.15,
                edit: 0.3,
                save: 0.1,
                bulk: 0.004,
                burst: 0.0,
                merge: 0.01,
                move_away: 0.01,
                ..still
            },
            Self::Busy => Rates {
                create: 3.0,
                edit: 4.0,
                save: 1.0,
                bulk: 0.01,
                tied: 0.01,
                burst: 0.004,
                delete: 0.03,
                merge: 0.02,
                move_away: 0.03,
            },
            Self::Flood => Rates {
                create: 12.0,
                edit: 12.0,
                save: 3.0,
                bulk: 0.03,
                tied: 0.02,
                burst: 0.02,
                delete: 0.04,
                merge: 0.02,
                move_away: 0.03,
            },
        }
    }

    /// A third of an interval in one business. Returns the records that were deleted.
    pub(super) fn pass(self, world: &mut World, random: &mut Rng, business: usize) -> Vec<i64> {
        let rates = self.rates();
        for _ in 0..poisson(random, rates.create) {
            world.pass(random.f64());
            world.create(business, false);
        }
        for (rate, is_change) in [(rates.edit, true), (rates.save, false)] {
            for _ in 0..poisson(random, rate) {
                world.pass(random.f64());
                let near = if random.f64() < 0.6 { 100 } else { 400 };
                if let Some(id) = random.choice(world.newest(business, near)) {
                    world.save(id, is_change, false);
                }
            }
        }
        if random.f64() < rates.bulk {
            save_many(world, random, business);
        }
        if random.f64() < rates.tied {
            world.pass(1.0);
            for _ in 0..random.choice([2, 3, 8, 30]).unwrap_or(2) {
                world.create(business, true);
            }
        }
        if random.f64() < rates.burst {
            burst(world, random, business);
        }
        let mut deleted = Vec::new();
        if random.f64() < rates.delete {
            deleted.extend(delete_some(world, random, business));
        }
        if random.f64() < rates.merge {
            let mut rows = world.newest(business, 120);
            random.shuffle(&mut rows);
            if let [gone, kept, _, _, ..] = rows[..] {
                world.pass(1.0);
                world.remove(gone, Presence::Deleted);
                deleted.push(gone);
                world.save(kept, true, false);
            }
        }
        if world.businesses() > 1
            && random.f64() < rates.move_away
            && let Some(id) = random.choice(world.newest(business, 120))
        {
            world.pass(1.0);
            world.move_to(id, 1 - business, random.bool());
        }
        world.pass(1.0);
        deleted
    }
}

/// One save of many records, which may share a moment, and of which some may change nothing.
fn save_many(world: &mut World, random: &mut Rng, business: usize) {
    let mut rows = world.newest(business, 300);
    let count = random.choice([5, 12, 30, 60, 110, 150]).unwrap_or(5);
    if random.bool() {
        random.shuffle(&mut rows);
    } else if random.f64() < 0.6 && !rows.is_empty() {
        let from = random.usize(..rows.len());
        rows.drain(..from);
    }
    rows.truncate(count);
    let mut unchanged = random.choice([0.0, 0.1, 0.5, 1.0]).unwrap_or(0.0);
    if count > 100 && unchanged == 1.0 {
        // A page of saves that change nothing, in the old order: what it pushes off the page looks
        // gone, and nothing shows that it is not.
        unchanged = 0.5;
    }
    let is_tied = random.f64() < 0.6;
    world.pass(1.0);
    for id in rows.into_iter().rev() {
        if !is_tied {
            world.pass(0.001);
        }
        world.save(id, random.f64() >= unchanged, is_tied);
    }
}

fn burst(world: &mut World, random: &mut Rng, business: usize) {
    for _ in 0..random.choice([90, 105, 150, 250]).unwrap_or(90) {
        world.pass(0.01);
        if random.f64() < 0.7 {
            world.create(business, false);
        } else if let Some(id) = random.choice(world.newest(business, 400)) {
            world.save(id, random.f64() < 0.8, false);
        }
    }
}

/// Deletes one record, a few or up to thirty, together or anywhere.
fn delete_some(world: &mut World, random: &mut Rng, business: usize) -> Vec<i64> {
    let drawn = random.f64();
    let count = if drawn < 0.7 {
        1
    } else if drawn < 0.9 {
        random.usize(2..=5)
    } else {
        random.usize(6..=30)
    };
    let near = if random.f64() < 0.7 { 100 } else { 2_000 };
    let mut rows = world.newest(business, near);
    if rows.is_empty() {
        return rows;
    }
    if random.bool() {
        let from = random.usize(..rows.len());
        rows.drain(..from);
    } else {
        random.shuffle(&mut rows);
    }
    rows.truncate(count);
    for id in &rows {
        world.remove(*id, Presence::Deleted);
    }
    rows
}

fn poisson(random: &mut Rng, mean: f64) -> u32 {
    let mut count = 0;
    let mut time = 0.0;
    if mean <= 0.0 {
        return 0;
    }
    loop {
        time -= (1.0 - random.f64()).ln();
        if time >= mean {
            return count;
        }
        count += 1;
    }
}
