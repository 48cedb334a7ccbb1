//! Power cuts: any moment, and any part of what was not synced by then.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use crate::check::{Known, check, check_store};
use crate::disk::{Capture, RecordedDisk};
use crate::image;
use crate::workload::{Acknowledged, Driven, KINDS, Kind, Put, Step, config, steps};
use crate::{scratch, setting};

/// Lives of a store: each goes on where a crash left the one before.
const LIVES: usize = 4;
const STEPS: usize = 60;
/// One in so many calls is a moment at which the power is cut.
const ONE_IN: usize = 6;
/// Images made of each.
const IMAGES: usize = 2;

/// Lets a store live, and gives what a crash could leave.
fn live(
    root: &Path,
    kind: Kind,
    life: usize,
    known: Known,
    random: &mut fastrand::Rng,
) -> Vec<Capture<Known>> {
    let disk = RecordedDisk::new(root, random.u64(..), ONE_IN, known);
    let fs = disk.file_system();
    // Often the clock stands still: what is told by times cannot be told then.
    let mut now_ms = 1_700_000_000_000 + life as i64 * if random.bool() { 100_000 } else { 0 };
    let driven = Driven::open(config(root, kind), disk.file_system(), now_ms).unwrap();
    // What was recovered is on the disk before the first put, and what was not does not come back.
    let recovered = check_store(&driven.store, &disk.known());
    let mut acknowledged = Vec::new();
    disk.know(|known| {
        known.tried.retain(|name, _| recovered.iter().any(|found| found.name == *name));
        acknowledged.extend(recovered.iter().map(|found| found.acknowledged(&known.tried)));
        known.promised.clone_from(&acknowledged);
    });
    for step in steps(life, STEPS, random) {
        now_ms += random.i64(0..3);
        disk.know(|known| try_step(known, &step));
        let kept_from = driven.kept_from(&step);
        acknowledged.retain(|done: &Acknowledged| done.offset >= kept_from);
        disk.know(|known| known.promised.retain(|done| done.offset >= kept_from));
        let done = driven.make(&step, &*fs, now_ms).unwrap();
        assert!(done.refusal.is_none(), "{:?}", done.refusal);
        acknowledged.extend(done.done);
        let flushed = driven.store.log().flushed_offset();
        disk.know(|known| {
            known.promised = acknowledged.iter().filter(|done| done.end <= flushed).cloned().collect();
            if kind == Kind::Synchronous {
                assert_eq!(known.promised.len(), acknowledged.len(), "each put waits for its flush");
            }
            if let Step::Config(content) = &step {
                known.configs = vec![content.clone()];
                known.has_config = true;
            }
        });
    }
    if random.u8(..3) == 0 {
        driven.store.close().unwrap();
        disk.know(|known| known.promised = acknowledged);
    }
    disk.captures()
}

/// What a step may leave counts from its begin on.
pub(crate) fn try_step(known: &mut Known, step: &Step) {
    match step {
        Step::Put(puts) => known.tried.extend(puts.iter().map(|put: &Put| (put.name.clone(), put.clone()))),
        Step::Config(content) => known.configs.push(content.clone()),
        _ => {}
    }
}

/// Lives of one store, and what crashes leave of each. Gives how many images were looked at.
fn run(seed: u64, kind: Kind) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = scratch();
    // One path for all: names of folders are in no file, and errors name the same.
    let (root, copy) = (folder.path().join("store"), folder.path().join("image"));
    std::fs::create_dir(&root).unwrap();
    let mut known = Known::default();
    let mut count = 0;
    for life in 0..LIVES {
        let captures = live(&root, kind, life, known, &mut random);
        for capture in &captures {
            for _ in 0..IMAGES {
                image::make(capture, &copy, &mut random);
                check(&config(&copy, kind), &capture.known);
                std::fs::remove_dir_all(&copy).unwrap();
                count += 1;
            }
        }
        // The next life begins with one of them.
        let capture = &captures[random.usize(..captures.len())];
        std::fs::remove_dir_all(&root).unwrap();
        image::make(capture, &root, &mut random);
        known = capture.known.clone();
    }
    count
}

/// Runs something with one seed after the other, and says which where it fails.
pub(crate) fn repeatable(runs: u64, mut run: impl FnMut(u64)) {
    let base = setting("MQSTORE_SEED", fastrand::u64(..1 << 32));
    for seed in (base..).take(setting("MQSTORE_RUNS", runs) as usize) {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("repeat with MQSTORE_SEED={seed} MQSTORE_RUNS=1");
            resume_unwind(failure);
        }
    }
}

#[test]
fn what_was_flushed_is_there_after_a_power_cut() {
    let mut count = 0;
    repeatable(2, |seed| count += KINDS.iter().map(|&kind| run(seed, kind)).sum::<usize>());
    println!("{count} images");
    assert!(count > 0);
}
