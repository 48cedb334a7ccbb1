//! Lives of a store, each begun where a crash left the one before, and all that is looked at in between.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use mqstore_core::config::StoreConfig;
use mqstore_core::error::Result;
use mqstore_core::fs::FileSystem;
use mqstore_core::sync::Mutex;

use crate::check::{Known, check, check_store};
use crate::configs::Configs;
use crate::disk::{Capture, Moments, RecordedDisk};
use crate::image;
use crate::removals::Last;
use crate::sample::Sample;
use crate::script::Step;
use crate::workload::{Acknowledged, Driven, Outcome, Put, put};
use crate::{scratch, setting};

/// How deep a crash can be in the recovery from another.
const DEPTH: usize = 2;
/// Of one in so many of the images in a recovery that one's recovery is cut short as well.
const DEEPER_ONE_IN: usize = 8;

/// A way for a store to live.
pub(crate) trait Case {
    /// What it is called.
    fn name(&self) -> String;
    /// The options with which the store is opened next.
    fn config(&self, root: &Path, random: &mut fastrand::Rng) -> StoreConfig;
    /// Lets the store live, and gives what a crash could leave.
    fn live(
        &mut self,
        root: &Path,
        life: usize,
        known: Known,
        random: &mut fastrand::Rng,
    ) -> Vec<Capture<Known>>;
}

/// How much is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) lives: usize,
    /// Images made of each moment.
    pub(crate) images: usize,
    /// Of one in so many images the recovery is cut short as well.
    pub(crate) nested_one_in: usize,
}

/// How many images were looked at, by case and by how many recoveries had been cut short.
#[derive(Debug, Default)]
pub(crate) struct Totals(BTreeMap<(String, usize), usize>);

impl Totals {
    /// Prints them; there are some of each depth.
    pub(crate) fn print(&self) {
        for ((name, depth), count) in &self.0 {
            let of_recovery = if *depth == 0 { String::new() } else { format!(", in recovery {depth} deep") };
            println!("{count:7} images: {name}{of_recovery}");
        }
        let sum: usize = self.0.values().sum();
        println!("{sum:7} images in all");
        assert!((0..=DEPTH).all(|depth| self.0.keys().any(|key| key.1 == depth)), "{self:?}");
    }
}

/// Opens a store on a recorded disk. What is recovered is on the disk before the first put, and what is
/// not does not come back.
pub(crate) fn begin(disk: &RecordedDisk<Known>, config: StoreConfig, now_ms: i64) -> Driven {
    let root = config.store_path_root_dir.clone();
    disk.know(|known| known.configs = Configs::read(&root));
    disk.know(|known| known.delayed.open());
    let driven = Driven::open(config, disk.file_system(), now_ms).unwrap();
    let recovered = check_store(&driven.store, &disk.known());
    disk.know(|known| {
        known.tried.retain(|name, _| recovered.iter().any(|found| found.name == *name));
        known.promised = recovered.iter().map(|found| found.acknowledged(&known.tried)).collect();
        known.delayed.promise(&known.promised);
        known.removals.recovered(&recovered);
    });
    driven
}

/// What a step may leave counts from its begin on; queues that it removes have these last messages.
pub(crate) fn try_step(known: &mut Known, step: &Step, last: Vec<Option<Last>>) {
    let mut tried = |put: &Put| _ = known.tried.insert(put.name.clone(), put.clone());
    match step {
        Step::Remove(removal) => {
            removal.puts().for_each(tried);
            known.removals.begin(removal, last);
        }
        Step::Put(puts) => puts.iter().for_each(&mut tried),
        Step::Config(name, content) => known.configs.begin(name, content),
        _ => {}
    }
}

/// What a step was to leave is there once it is done.
pub(crate) fn end_step(known: &mut Known, step: &Step, outcome: &Outcome) {
    match step {
        Step::Config(name, content) => known.configs.end(name, content),
        Step::Remove(removal) => known.removals.end(removal, &outcome.removed),
        _ => {}
    }
}

/// Makes a step. What is acknowledged is kept up to date, and what is known of the store on each call of it.
pub(crate) fn make_step(
    disk: &RecordedDisk<Known>,
    driven: &Driven,
    fs: &dyn FileSystem,
    step: Step,
    now_ms: i64,
    acknowledged: &mut Vec<Acknowledged>,
) -> Result<Outcome> {
    let step = driven.made_up(step);
    let last = match &step {
        Step::Remove(removal) => removal.last(&driven.store),
        _ => Vec::new(),
    };
    let kept_from = driven.kept_from(&step);
    disk.know(|known| {
        try_step(known, &step, last);
        known.delayed.delete(acknowledged.iter().filter(|done| done.offset < kept_from));
        known.promised.retain(|done| done.offset >= kept_from);
    });
    acknowledged.retain(|done| done.offset >= kept_from);
    let beside = Arc::new(Mutex::new(Vec::new()));
    if let Step::Remove(removal) = &step
        && !removal.beside.is_empty()
    {
        let (store, puts, done) = (Arc::clone(&driven.store), removal.beside.clone(), Arc::clone(&beside));
        disk.when_a_queue_file_goes(Some(Box::new(move || {
            // One that fails was not acknowledged.
            done.lock().extend(put(&store, &puts).into_iter().flat_map(|outcome| outcome.done));
        })));
    }
    let outcome = driven.make(&step, fs, now_ms);
    disk.when_a_queue_file_goes(None);
    acknowledged.append(&mut beside.lock());
    acknowledged.extend(outcome.iter().flat_map(|outcome| outcome.done.iter().cloned()));
    acknowledged.extend(disk.know(|known| driven.delivered(&known.tried)));
    let flushed = driven.store.log().flushed_offset();
    disk.know(|known| {
        known.promised = acknowledged.iter().filter(|done| done.end <= flushed).cloned().collect();
        known.delayed.promise(&known.promised);
        if let Ok(outcome) = &outcome {
            end_step(known, &step, outcome);
        }
    });
    outcome
}

/// Runs a case; what was looked at is counted.
pub(crate) fn run(case: &mut dyn Case, extent: Extent, seed: u64, totals: &mut Totals) {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = scratch();
    // One path for all: names of folders are in no file, and errors name the same.
    let root = folder.path().join("store");
    std::fs::create_dir(&root).unwrap();
    let mut known = Known::default();
    let mut looking = Looking {
        totals,
        sample: Sample::new(seed, &case.name()),
        folder: folder.path(),
        nested_one_in: extent.nested_one_in,
    };
    for life in 0..extent.lives {
        let captures = case.live(&root, life, known, &mut random);
        for capture in &captures {
            for _ in 0..extent.images {
                looking.look(case, capture, &mut random, 0);
            }
        }
        // The next life begins with one of them.
        let capture = &captures[random.usize(..captures.len())];
        std::fs::remove_dir_all(&root).unwrap();
        image::make(capture, &root, &mut random);
        known = capture.known.clone();
    }
}

/// Where images are made and counted.
struct Looking<'a> {
    totals: &'a mut Totals,
    sample: Sample,
    folder: &'a Path,
    nested_one_in: usize,
}

impl Looking<'_> {
    /// Makes one of the stores that a crash can leave and looks at it; at times, crashes in its recovery first.
    fn look(&mut self, case: &dyn Case, capture: &Capture<Known>, random: &mut fastrand::Rng, depth: usize) {
        let copy = self.folder.join(format!("image {depth}"));
        let nested_one_in = if depth == 0 { self.nested_one_in } else { DEEPER_ONE_IN };
        if depth < DEPTH && random.usize(..nested_one_in) == 0 {
            image::make(capture, &copy, random);
            for inner in recover(case, &copy, capture.known.clone(), random) {
                self.look(case, &inner, random, depth + 1);
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
        image::make(capture, &copy, random);
        let config = case.config(&copy, random);
        self.sample.take(&copy, &config, &case.name());
        check(&config, &capture.known);
        std::fs::remove_dir_all(&copy).unwrap();
        *self.totals.0.entry((case.name(), depth)).or_default() += 1;
    }
}

/// Recovers a store, and gives what a crash in the middle could leave.
fn recover(case: &dyn Case, root: &Path, known: Known, random: &mut fastrand::Rng) -> Vec<Capture<Known>> {
    let disk = RecordedDisk::new(root, random.u64(..), Moments::one_in(12), known);
    let driven = begin(&disk, case.config(root, random), 1_750_000_000_000);
    if random.bool() {
        driven.store.close().unwrap();
    }
    disk.captures()
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
