//! Power cuts: any moment, and any part of what was not synced by then.
//!
//! Of everything at once; and of what is rare among it, in cases of their own: a full index file and the
//! next one, files of the folder `config`. [`crate::role_change`] has the slave that becomes a master.

use std::path::Path;

use mqstore_core::config::StoreConfig;
use mqstore_core::format::index::IndexShape;

use crate::check::Known;
use crate::disk::{Capture, Moments, RecordedDisk};
use crate::lives::{Case, Extent, Totals, begin, make_step, repeatable, run};
use crate::script::{ALL, Mix, Step, steps};
use crate::workload::{KINDS, Kind, config};

const STEPS: usize = 60;
/// Before one in so many steps the process is killed, and another opens the store.
const KILLED_ONE_IN: usize = 40;
/// With a removal, and so many steps behind its begin, the power is cut at one in so many calls.
const CLOSE_STEPS: usize = 4;
const CLOSER_ONE_IN: usize = 6;

/// A store that lives by steps.
struct Scripted {
    name: &'static str,
    kind: Kind,
    mix: Mix,
    moments: Moments,
    /// What is different of the options.
    change: fn(&mut StoreConfig),
}

impl Case for Scripted {
    fn name(&self) -> String {
        format!("{}, {:?}", self.name, self.kind)
    }

    fn config(&self, root: &Path, _random: &mut fastrand::Rng) -> StoreConfig {
        let mut config = config(root, self.kind);
        (self.change)(&mut config);
        config
    }

    fn live(
        &mut self,
        root: &Path,
        life: usize,
        known: Known,
        random: &mut fastrand::Rng,
    ) -> Vec<Capture<Known>> {
        let disk = RecordedDisk::new(root, random.u64(..), self.moments, known);
        let fs = disk.file_system();
        // Often the clock stands still: what is told by times cannot be told then.
        let mut now_ms = 1_700_000_000_000 + life as i64 * if random.bool() { 100_000 } else { 0 };
        let mut driven = begin(&disk, self.config(root, random), now_ms);
        let mut acknowledged = disk.known().promised;
        let mut close_steps = 0;
        for step in steps(life, STEPS, &self.mix, random) {
            now_ms += random.i64(0..3);
            if random.usize(..KILLED_ONE_IN) == 0 {
                // The process alone is killed: what it wrote is there, and not yet on the disk.
                drop(driven);
                driven = begin(&disk, self.config(root, random), now_ms);
                acknowledged = disk.known().promised;
            }
            if matches!(step, Step::Remove(_)) {
                close_steps = CLOSE_STEPS;
            }
            disk.look_closer(Some(CLOSER_ONE_IN).filter(|_| close_steps > 0));
            close_steps = close_steps.saturating_sub(1);
            let done = make_step(&disk, &driven, &*fs, step, now_ms, &mut acknowledged).unwrap();
            assert!(done.refusal.is_none(), "{:?}", done.refusal);
            let flushed = driven.store.log().flushed_offset();
            if self.kind == Kind::Synchronous {
                assert!(done.done.iter().all(|done| done.end <= flushed), "each put waits for its flush");
            }
        }
        if random.u8(..3) == 0 {
            driven.store.close().unwrap();
            disk.know(|known| known.promised = acknowledged);
        }
        disk.captures()
    }
}

/// Runs a case with stores of all kinds.
fn run_all(runs: u64, extent: Extent, case: impl Fn(Kind) -> Scripted) {
    let mut totals = Totals::default();
    repeatable(runs, |seed| KINDS.iter().for_each(|&kind| run(&mut case(kind), extent, seed, &mut totals)));
    totals.print();
}

#[test]
fn what_was_flushed_is_there_after_a_power_cut() {
    run_all(1, Extent { lives: 4, images: 2, nested_one_in: 60 }, |kind| Scripted {
        name: "anything",
        kind,
        mix: ALL,
        moments: Moments::one_in(6),
        change: |_| {},
    });
}

/// Index files of six keys in a log that hardly rolls: most of them end in the middle of a message's keys.
#[test]
fn keys_are_found_after_a_power_cut_while_index_files_roll() {
    run_all(1, Extent { lives: 3, images: 1, nested_one_in: 50 }, |kind| Scripted {
        name: "index roll",
        kind,
        mix: Mix { dispatch: 60, flush_queues: 40, flush_everything: 15, retention: 3, most_keys: 9, ..ALL },
        moments: Moments { below: Some(("index", 3)), one_in: 40 },
        change: |config| {
            config.index_shape = IndexShape { hash_slot_num: 3, index_num: 7 };
            config.mapped_file_size_commit_log = 16_384;
        },
    });
}

#[test]
fn a_removed_queue_stays_away_after_a_power_cut_and_what_it_had_since_stays() {
    run_all(1, Extent { lives: 3, images: 1, nested_one_in: 10 }, |kind| Scripted {
        name: "queue removal",
        kind,
        mix: Mix { remove: 20, retention: 3, ..ALL },
        moments: Moments::one_in(60),
        change: |_| {},
    });
}

/// What is delivered to queues that were removed while it waited too.
#[test]
fn delayed_messages_are_delivered_after_a_power_cut() {
    run_all(1, Extent { lives: 3, images: 1, nested_one_in: 20 }, |kind| Scripted {
        name: "delayed messages",
        kind,
        mix: Mix { delayed_percent: 40, deliver: 30, write_delays: 10, remove: 4, retention: 3, ..ALL },
        moments: Moments { below: Some(("config", 6)), one_in: 30 },
        change: |_| {},
    });
}

#[test]
fn a_config_file_is_the_old_one_or_the_new_one_after_a_power_cut() {
    run_all(1, Extent { lives: 2, images: 2, nested_one_in: 50 }, |kind| Scripted {
        name: "config write",
        kind,
        mix: Mix { put: 20, config: 60, ..ALL },
        moments: Moments { below: Some(("config", 4)), one_in: 60 },
        change: |_| {},
    });
}
