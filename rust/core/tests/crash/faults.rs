//! File operations that fail: each call of each kind, once or from then on.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::fs::{FileSystem, OsFileSystem, make_folder};
use mqstore_core::store::{Mode, Store};
use nix::errno::Errno;

use crate::check::{Known, check};
use crate::disk::{Moments, RecordedDisk};
use crate::faulty::{Call, FAULTS, Fault, FaultyFileSystem};
use crate::image;
use crate::lives::{make_step, repeatable};
use crate::script::{ALL, Mix, Step, steps};
use crate::workload::{Driven, KINDS, Kind, config};
use crate::{scratch, setting, stores};

const STEPS: usize = 45;
/// Of the calls of a kind so many fail, one a run, unless all do.
const CALLS: u64 = 6;

/// Says what was done when it failed.
struct Doing(String);

impl Drop for Doing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Lets a store live while calls fail, then looks at what it left: as it is, and as power cuts leave it.
fn survive(folder: &Path, kind: Kind, fault: &Arc<Fault>, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (root, copy) = (folder.join("store"), folder.join("image"));
    std::fs::create_dir_all(&root).unwrap();
    let known = begin(&root, kind, &mut random);
    let disk = RecordedDisk::new(&root, random.u64(..), Moments::one_in(40), known);
    let inner = disk.file_system();
    let fs: Arc<dyn FileSystem> = Arc::new(FaultyFileSystem { fs: inner, fault: Arc::clone(fault) });
    drive(&root, kind, &disk, &fs, &mut random);
    let mut all = disk.known();
    all.promised = std::mem::take(&mut all.appended);
    for capture in disk.captures() {
        image::make(&capture, &copy, &mut random);
        check(&config(&copy, kind), &capture.known);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    check(&config(&root, kind), &all);
    std::fs::remove_dir_all(&root).unwrap();
}

/// Half of the stores are new, the others were left by a crash.
pub(crate) fn begin(root: &Path, kind: Kind, random: &mut fastrand::Rng) -> Known {
    let disk = RecordedDisk::new(root, random.u64(..), Moments::one_in(0), Known::default());
    if random.bool() {
        drive(root, kind, &disk, &disk.file_system(), random);
        let capture = disk.captures().pop().unwrap();
        std::fs::remove_dir_all(root).unwrap();
        image::make(&capture, root, random);
    }
    let mut known = disk.known();
    known.appended.clone_from(&known.promised);
    known
}

/// Opens a store, makes steps whether or not they fail, and at times closes it.
pub(crate) fn drive(
    root: &Path,
    kind: Kind,
    disk: &RecordedDisk<Known>,
    fs: &Arc<dyn FileSystem>,
    random: &mut fastrand::Rng,
) {
    let life = disk.known().tried.len();
    let mut now_ms = 1_700_000_000_000 + life as i64;
    disk.know(|known| known.delayed.open());
    let driven = match Driven::open(config(root, kind), Arc::clone(fs), now_ms) {
        Ok(driven) => driven,
        Err(error) => {
            assert!(error.to_string().contains(&*root.to_string_lossy()), "{error} names no file");
            return;
        }
    };
    // Reading fails too, and says so; what is known is what is known.
    let mut acknowledged = disk.known().promised;
    let mix = Mix { remove: 4, delayed_percent: 20, deliver: 12, write_delays: 4, ..ALL };
    for step in steps(life, STEPS, &mix, random) {
        now_ms += random.i64(0..3);
        let was_poisoned = driven.store.log().is_poisoned();
        let is_put = matches!(step, Step::Put(_));
        let outcome = make_step(disk, &driven, &**fs, step, now_ms, &mut acknowledged);
        if let Ok(outcome) = outcome
            && is_put
            && was_poisoned
        {
            assert!(outcome.refusal.is_some() && outcome.done.is_empty(), "a failed flush is final");
        }
    }
    let is_closed = random.bool() && driven.store.close().is_ok();
    // What was not committed goes with the process.
    let end = if is_closed { u64::MAX } else { driven.store.log().max_offset() };
    drop(driven);
    let all = acknowledged.into_iter().filter(|done| done.end <= end).collect();
    disk.know(|known| known.appended = all);
}

#[test]
fn a_call_that_fails_loses_nothing() {
    let mut count = 0;
    repeatable(1, |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = scratch();
        for (at, &(call, error)) in FAULTS.iter().enumerate() {
            let kind = KINDS[(at + random.usize(..KINDS.len())) % KINDS.len()];
            let life = random.u64(..);
            let harmless = Fault::new(call, error, usize::MAX, 0);
            survive(folder.path(), kind, &harmless, life);
            let calls = harmless.seen_count();
            for _ in 0..setting("MQSTORE_CALLS", CALLS).min(calls as u64) {
                let let_through = random.usize(..calls);
                for failing in [1, usize::MAX] {
                    let fault = Fault::new(call, error, let_through, failing);
                    let _told = Doing(format!("{kind:?}: {call:?} {let_through}: {error}, {failing} times"));
                    survive(folder.path(), kind, &fault, life);
                    // How often data and holes are looked for goes by what the kernel has given blocks by then.
                    let goes_by_blocks = matches!(call, Call::NextData | Call::NextHole);
                    let came_to_it = !goes_by_blocks || fault.seen_count() > let_through;
                    assert!(fault.failed_count() > 0 || !came_to_it);
                    count += usize::from(came_to_it);
                }
            }
        }
    });
    println!("{count} lives with faults");
}

/// Holds a store of so many messages against what was put: each is in the queue, and its key found once.
fn has_all(store: &Store, count: usize) {
    assert_eq!(stores::numbers(store), (0..count).collect::<Vec<_>>());
    for number in 0..count {
        let key = format!("k{number}");
        assert_eq!(stores::found(store, &key), 1, "{key}");
    }
}

/// Units and keys of what is dispatched when the store is opened are put by a thread each: either can fail.
#[test]
fn an_opening_of_which_a_call_fails_loses_nothing() {
    const COUNT: usize = 60;
    for (call, error) in FAULTS {
        for let_through in 0.. {
            let folder = scratch();
            let root = folder.path().join("store");
            let store = stores::open(&root);
            stores::fill(&store, 0..COUNT);
            stores::crash(store);
            let fault = Fault::new(call, error, let_through, 1);
            let _told = Doing(format!("{call:?} {let_through}: {error}"));
            let fs = Arc::new(FaultyFileSystem { fs: Arc::new(OsFileSystem), fault: Arc::clone(&fault) });
            let clock = Arc::new(ManualClock::at(1_000_000));
            match Store::open(stores::config(&root), fs, clock, Mode::ReadWrite) {
                Ok(store) => {
                    fault.pause(true);
                    has_all(&store, COUNT);
                }
                Err(told) => {
                    assert!(told.to_string().contains(&*root.to_string_lossy()), "{told} names no file");
                }
            }
            has_all(&stores::open(&root).store, COUNT);
            if fault.failed_count() == 0 {
                break;
            }
        }
    }
}

#[test]
fn a_folder_of_which_the_disk_may_not_know_is_made_again() {
    let folder = scratch();
    let made = folder.path().join("a/b");
    for let_through in 0..2 {
        let fault = Fault::new(Call::SyncDir, Errno::EIO, let_through, 1);
        let fs = FaultyFileSystem { fs: Arc::new(OsFileSystem), fault: Arc::clone(&fault) };
        make_folder(&fs, &made).unwrap_err();
        assert!(!folder.path().join("a").exists());
        make_folder(&fs, &made).unwrap();
        // Those of the first attempt, and both folders' of the second.
        assert_eq!(fault.seen_count(), let_through + 1 + 2);
        std::fs::remove_dir_all(folder.path().join("a")).unwrap();
    }
}
