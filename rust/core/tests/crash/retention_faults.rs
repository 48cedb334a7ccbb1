//! File operations that fail while retention deletes: each call of each kind, once or from then on.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::error::Result;
use mqstore_core::fs::{FileSystem, OsFileSystem};
use mqstore_core::retention::Expiry;
use mqstore_core::store::{Mode, Store};

use crate::check::{Known, check_store, open};
use crate::faulty::{FAULTS, Fault, FaultyFileSystem};
use crate::lives::try_step;
use crate::scratch;
use crate::script::Step;
use crate::stores::copy_folder;
use crate::workload::{Acknowledged, Driven, KINDS, Kind, Put, TOPICS, config};

const NOW_MS: i64 = 1_700_000_000_000;
const MESSAGES: usize = 90;

/// A closed store of some log, queue and index files, and what is in it.
fn fill(root: &Path, kind: Kind) -> (Known, Vec<Acknowledged>) {
    let fs: Arc<dyn FileSystem> = Arc::new(OsFileSystem);
    let driven = Driven::open(config(root, kind), Arc::clone(&fs), NOW_MS).unwrap();
    let (mut known, mut done) = (Known::default(), Vec::new());
    for number in 0..MESSAGES {
        let topic = TOPICS[number % TOPICS.len()];
        let step =
            Step::Put(vec![Put { name: format!("0.{number}"), topic, queue_id: 0, key_count: 1, level: 0 }]);
        try_step(&mut known, &step, Vec::new());
        done.extend(driven.make(&step, &*fs, NOW_MS + number as i64).unwrap().done);
    }
    driven.store.close().unwrap();
    (known, done)
}

/// Deletes the oldest log file, and what of queues and index goes with it.
fn delete(store: &Store) -> Result<()> {
    store.delete_expired_log_file(Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX })?;
    delete_behind_the_log(store)
}

fn delete_behind_the_log(store: &Store) -> Result<()> {
    for queue in store.queues().all() {
        store.delete_expired_queue_files(&queue)?;
    }
    store.delete_expired_index_files().map(|_| ())
}

/// What a store has is all that stands behind the begin of its log.
fn check_kept(store: &Arc<Store>, known: &Known, done: &[Acknowledged]) {
    let first = store.first_offset();
    let kept = done.iter().filter(|done| done.offset >= first).cloned();
    check_store(store, &Known { promised: kept.collect(), tried: known.tried.clone(), ..Known::default() });
}

/// Lets retention run while calls fail; gives whether one did.
fn survive(root: &Path, kind: Kind, fault: &Arc<Fault>, known: &Known, done: &[Acknowledged]) -> bool {
    let fs: Arc<dyn FileSystem> =
        Arc::new(FaultyFileSystem { fs: Arc::new(OsFileSystem), fault: Arc::clone(fault) });
    // What fails while it is opened is another test's.
    fault.pause(true);
    let driven = Driven::open(config(root, kind), fs, NOW_MS + 1000).unwrap();
    fault.pause(false);
    let mut failures = 0;
    for _ in 0..3 {
        if let Err(error) = delete(&driven.store) {
            failures += 1;
            assert!(error.to_string().contains(&*root.to_string_lossy()), "{error} names no file");
        }
    }
    let has_failed = fault.failed_count() > 0;
    assert!(failures == 0 || has_failed);
    fault.pause(true);
    // The store goes on as it is, and what could not be deleted goes with the next pass.
    delete_behind_the_log(&driven.store).unwrap();
    check_kept(&driven.store, known, done);
    drop(driven);
    let again = open(&config(root, kind), Mode::ReadWrite).unwrap();
    check_kept(&again, known, done);
    while again.min_phy_offset() >= 0 && again.log().files().files().len() > 1 {
        delete(&again).unwrap();
    }
    check_kept(&again, known, done);
    again.close().unwrap();
    has_failed
}

#[test]
fn what_fails_while_files_are_deleted_loses_nothing_that_stays() {
    let folder = scratch();
    let mut count = 0;
    for kind in KINDS {
        let (full, root) = (folder.path().join(format!("{kind:?}")), folder.path().join("store"));
        let (known, done) = fill(&full, kind);
        for (call, error) in FAULTS {
            for failing in [1, usize::MAX] {
                for let_through in 0.. {
                    copy_folder(&full, &root);
                    let fault = Fault::new(call, error, let_through, failing);
                    let has_failed = survive(&root, kind, &fault, &known, &done);
                    std::fs::remove_dir_all(&root).unwrap();
                    if !has_failed {
                        break;
                    }
                    count += 1;
                }
            }
        }
    }
    assert!(count > 50, "{count} calls failed");
    println!("{count} runs of retention with faults");
}
