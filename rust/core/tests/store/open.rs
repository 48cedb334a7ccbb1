//! Opening and closing: what is written by whom.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::scan;
use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::format::message::RecordFault;
use mqstore_core::published::has_flush_failed;
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{Mode, Store};
use mqstore_core::sync::Mutex;

use crate::hooked::{Call, Hook, HookedFileSystem, open_hooked};
use crate::stores::{
    LOG_FILE_SIZE, Opened, bodies, config, crash, fill, fill_two_files, forget_own_files, fs, log_file,
    numbers, open, open_with, patch, put, read, tree, try_open,
};

#[test]
fn reading_writes_nothing_whatever_the_state() {
    for (clean, pread) in [(true, false), (true, true), (false, false), (false, true)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..60);
        if clean {
            store.close().unwrap();
        } else {
            crash(store);
        }
        std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
        let before = tree(root.path());
        let mut config = config(root.path());
        config.pread = pread;
        let reader = try_open(config, Mode::Read).unwrap();
        assert_eq!(numbers(&reader), (0..60).collect::<Vec<_>>());
        assert!(matches!(reader.destroy(), Err(Error::ReadOnly { .. })));
        reader.refresh().unwrap();
        reader.close().unwrap();
        assert_eq!(tree(root.path()), before, "clean {clean}, pread {pread}");
    }
}

/// Flushes a store, puts more messages, whose units are in its files and not known to be on the disk, and kills it.
fn kill_behind(store: Opened, more: std::ops::Range<usize>) {
    store.flush_everything().unwrap();
    fill(&store, more);
    store.reput().unwrap();
    store.flush_consume_queues(u64::MAX).unwrap();
    crash(store);
}

#[test]
fn what_an_opening_dispatches_again_is_for_the_next_flush() {
    let root = tempfile::tempdir().unwrap();
    // All is dispatched again from the second file on.
    let store = fill_two_files(root.path(), 45);
    kill_behind(store, 45..50);
    let store = open(root.path());
    let end = store.max_phy_offset();
    let known = store.checkpoint().positions_on_disk();
    assert!(
        known.log == end && (1..end).contains(&known.queues) && (1..end).contains(&known.index),
        "{known:?}"
    );
    assert_eq!(read(root.path()).notes().dispatched_from, end, "a reader beside finds it in the files");
    crash(store);
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..50).collect::<Vec<_>>());
    assert_eq!(store.checkpoint().positions_on_disk(), known);
    store.flush_everything().unwrap();
    let all = store.checkpoint().positions_on_disk();
    assert_eq!((all.log, all.queues, all.index), (end, end, end));
    store.close().unwrap();
    let store = open(root.path());
    assert_eq!(store.checkpoint().positions_on_disk(), all, "nothing was dispatched again");
}

/// Of a store that 4.9.3 closed no position is known, and a crash behind the opening would have all made again.
#[test]
fn where_nothing_is_dispatched_again_an_opening_flushes_all() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..25);
    let end = store.max_phy_offset();
    store.close().unwrap();
    forget_own_files(root.path());
    let store = open(root.path());
    assert_eq!(store.notes().dispatched_from, end);
    let known = store.checkpoint().positions_on_disk();
    assert_eq!((known.log, known.queues, known.index), (end, end, end));
}

/// A power cut could bring back what they took the place of, to be believed once the positions have moved on.
#[test]
fn zeros_of_a_queue_that_nothing_is_written_over_are_flushed() {
    for is_overwritten in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        fill(&store, 0..3);
        kill_behind(store, 3..7);
        let file = root.path().join("consumequeue/t/0/00000000000000000000");
        if !is_overwritten {
            patch(&file, 7 * 20, |at| at[..20].fill(1));
        }
        let flushed_count = Arc::new(AtomicUsize::new(0));
        let flushed = Arc::clone(&flushed_count);
        let path = file.clone();
        let hook: Hook = Box::new(move |call, of| {
            if matches!(call, Call::Sync) && of == path {
                flushed.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
        assert_eq!(flushed_count.load(Ordering::Relaxed), usize::from(!is_overwritten));
        let content = std::fs::read(&file).unwrap();
        assert!(content[7 * 20..].iter().all(|&byte| byte == 0) && content[6 * 20..7 * 20] != [0; 20]);
        store.close().unwrap();
    }
}

/// Tells whether a file's folder was flushed while the file was not there.
fn notices_flush_without(file: &Path) -> (Hook, Arc<AtomicBool>) {
    let is_noticed = Arc::new(AtomicBool::new(false));
    let (notice, file) = (Arc::clone(&is_noticed), file.to_path_buf());
    let hook: Hook = Box::new(move |call, of| {
        if matches!(call, Call::SyncDir) && file.parent() == Some(of) && !file.exists() {
            notice.store(true, Ordering::Relaxed);
        }
        Ok(())
    });
    (hook, is_noticed)
}

/// Back after a power cut, a file would be believed where the positions have moved on.
#[test]
fn that_queue_files_were_removed_is_flushed_before_they_are_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..15);
    store.close().unwrap();
    forget_own_files(root.path());
    std::fs::write(root.path().join("abort"), "").unwrap();
    let second = root.path().join("consumequeue/t/0/00000000000000000200");
    assert!(second.exists());
    let (hook, is_flushed_without) = notices_flush_without(&second);
    let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    assert!(second.exists() && is_flushed_without.load(Ordering::Relaxed));
    assert_eq!(numbers(&store), (0..15).collect::<Vec<_>>());
    store.close().unwrap();
}

/// Back after a power cut, its units would be believed once the log has grown over their places.
#[test]
fn the_folder_of_a_queue_file_in_which_nothing_is_left_is_flushed() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..5);
    let lost = put(&store, "lost", 0, b"lost", "").wrote_offset;
    store.close().unwrap();
    forget_own_files(root.path());
    std::fs::write(root.path().join("abort"), "").unwrap();
    patch(&log_file(root.path(), 0), lost, |at| at.fill(0));
    let file = root.path().join("consumequeue/lost/0/00000000000000000000");
    let (hook, is_flushed_without) = notices_flush_without(&file);
    assert!(file.exists());
    let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    assert!(!file.exists() && is_flushed_without.load(Ordering::Relaxed));
    store.close().unwrap();
}

/// The first log file is gone, and of the messages behind it the units were in memory alone.
#[test]
fn what_goes_of_an_extension_goes_at_once_and_never_by_reading() {
    let root = tempfile::tempdir().unwrap();
    let ext = || StoreConfig {
        enable_consume_queue_ext: true,
        mapped_file_size_consume_queue_ext: 400,
        ..config(root.path())
    };
    let store = open_with(ext());
    fill(&store, 0..20);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    fill(&store, 20..35);
    crash(store);
    std::fs::remove_file(log_file(root.path(), 0)).unwrap();
    let before = tree(root.path());
    let left = numbers(&try_open(ext(), Mode::Read).unwrap());
    assert_eq!(left, (left[0]..35).collect::<Vec<_>>());
    assert!(left[0] >= 20);
    assert!(tree(root.path()) == before, "a reader has changed something");
    let folder = root.path().join("consumequeue_ext");
    assert!(folder.join("t/0/00000000000000000000").exists());
    for _ in 0..2 {
        open_with(ext()).close().unwrap();
        let files = tree(&folder).into_values().filter(Option::is_some).count();
        assert_eq!((files, folder.join("t/0/00000000000000000400").exists()), (1, true));
    }
    assert_eq!(numbers(&try_open(ext(), Mode::Read).unwrap()), left);
}

#[test]
fn closing_leaves_what_opening_finds() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    assert!(root.path().join("abort").exists());
    fill(&store, 0..30);
    store.close().unwrap();
    store.close().unwrap();
    assert!(!root.path().join("abort").exists());
    let before = tree(root.path());
    open(root.path()).close().unwrap();
    let volatile = |tree: &mut std::collections::BTreeMap<std::path::PathBuf, _>| {
        tree.retain(|path: &std::path::PathBuf, _: &mut Option<Vec<u8>>| {
            !path.ends_with("mqstore/published") && !path.ends_with("mqstore/closed")
        });
    };
    let (mut before, mut after) = (before, tree(root.path()));
    volatile(&mut before);
    volatile(&mut after);
    assert_eq!(after, before);
}

#[test]
fn a_log_of_several_folders_is_one() {
    let root = tempfile::tempdir().unwrap();
    let several = |read_only: bool| {
        let mut config = config(&root.path().join("store"));
        config.store_path_commit_log = ["a", "b"].map(|name| root.path().join(name)).to_vec();
        if read_only {
            config.read_only_commit_log_store_paths = vec![root.path().join("a")];
        }
        config
    };
    let store = open_with(several(false));
    fill(&store, 0..60);
    let in_a = tree(&root.path().join("a")).len();
    assert!(in_a > 0 && !tree(&root.path().join("b")).is_empty());
    store.close().unwrap();
    let before = tree(&root.path().join("a"));
    let store = open_with(several(true));
    fill(&store, 60..120);
    assert_eq!(numbers(&store), (0..120).collect::<Vec<_>>());
    let names =
        |tree: std::collections::BTreeMap<std::path::PathBuf, _>| -> Vec<_> { tree.into_keys().collect() };
    assert_eq!(names(tree(&root.path().join("a"))), names(before), "no file is made in a folder to read");
    store.close().unwrap();
    let reader = try_open(several(true), Mode::Read).unwrap();
    assert_eq!(numbers(&reader), (0..120).collect::<Vec<_>>());
}

#[test]
fn a_destroyed_store_is_an_empty_folder_but_for_its_configuration() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..60);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    store.destroy().unwrap();
    assert!(store.is_closed() && !log_file(root.path(), 0).exists());
    assert!(!root.path().join("checkpoint").exists() && !root.path().join("mqstore/positions").exists());
    assert_eq!(tree(&root.path().join("commitlog")).len() + tree(&root.path().join("consumequeue")).len(), 0);
    let store = open(root.path());
    put(&store, "t", 0, b"anew", "");
    assert_eq!(bodies(&store, "t", 0), ["anew"]);
}

#[test]
fn a_store_made_with_other_options_keeps_its_sizes() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..40);
    store.close().unwrap();
    let mut other = StoreConfig::new(root.path());
    other.index_shape = mqstore_core::format::index::IndexShape { hash_slot_num: 11, index_num: 50 };
    let store = open_with(other);
    fill(&store, 40..80);
    assert_eq!(numbers(&store), (0..80).collect::<Vec<_>>());
    assert!(tree(&root.path().join("commitlog")).values().flatten().all(|content| content.len() == 4096));
    for number in [0, 39, 40, 79] {
        let key = format!("k{number}");
        let query = mqstore_core::index::KeyQuery {
            topic: b"t",
            key: key.as_bytes(),
            max_num: 9,
            begin: 0,
            end: i64::MAX,
        };
        assert_eq!(store.query_message(&query).unwrap().len(), 1, "{key}");
    }
}

#[test]
fn messages_through_locked_memory_are_there_after_closing() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.transient_store_pool_enable = true;
    config.transient_store_pool_size = 2;
    let store = open_with(config);
    fill(&store, 0..60);
    assert!(store.max_phy_offset() < store.log().wrote_offset());
    store.log().commit(0).unwrap();
    assert_eq!(numbers(&store), (0..60).collect::<Vec<_>>());
    fill(&store, 60..70);
    store.close().unwrap();
    assert_eq!(numbers(&open(root.path())), (0..70).collect::<Vec<_>>());
}

/// What is in a record is told from what a power cut left of one by its checksum.
#[test]
fn a_kill_keeps_what_has_properties_with_zeros() {
    for properties in ["K\x01v\0".to_owned(), format!("K\x01{}", "\0".repeat(600))] {
        for (crc, sync_flush, checked) in
            [(false, false, true), (true, false, true), (false, true, true), (false, true, false)]
        {
            let root = tempfile::tempdir().unwrap();
            let with = StoreConfig {
                enabled_append_prop_crc: crc,
                sync_flush,
                check_crc_on_recover: checked,
                ..config(root.path())
            };
            let store = open_with(with.clone());
            for (body, properties) in [("a", ""), ("b", &properties), ("c", "")] {
                let appended = put(&store, "t", 0, body.as_bytes(), properties);
                if sync_flush {
                    let end = appended.end_offset();
                    let status = store.wait_flushed(end, Duration::from_secs(60)).unwrap();
                    assert_eq!(status, PutMessageStatus::PutOk);
                }
            }
            crash(store);
            assert_eq!(bodies(&open_with(with), "t", 0), ["a", "b", "c"], "{crc} {sync_flush} {checked}");
        }
    }
}

/// A page that the disk has refused is clean in memory: a flush of the next opening would leave it out.
#[test]
fn what_the_disk_has_refused_is_written_again_before_it_counts_as_flushed() {
    let is_of_log = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("commitlog"));
    for has_failed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let refuses = Arc::new(AtomicBool::new(false));
        let is_refused = Arc::clone(&refuses);
        let hook: Hook = Box::new(move |call, path| {
            let is_flush = matches!(call, Call::FlushMapped) && is_of_log(path);
            if is_flush && is_refused.load(Ordering::Relaxed) {
                Err(io::Error::from_raw_os_error(5))
            } else {
                Ok(())
            }
        });
        let (store, clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
        let store = Opened { store, clock };
        fill(&store, 0..5);
        store.flush_everything().unwrap();
        let flushed = store.log().flushed_offset();
        fill(&store, 5..60);
        let end = store.max_phy_offset();
        refuses.store(has_failed, Ordering::Relaxed);
        assert_eq!(store.flush_everything().is_err(), has_failed);
        assert_eq!(store.takes_no_messages().is_some_and(|why| why.contains("flush")), has_failed);
        crash(store);
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        let hook: Hook = Box::new(move |call, path| {
            if matches!(call, Call::Write { .. }) && is_of_log(path) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
        let parts = if has_failed { end / LOG_FILE_SIZE - flushed / LOG_FILE_SIZE + 1 } else { 0 };
        assert_eq!(written.load(Ordering::Relaxed) as u64, parts);
        assert_eq!((numbers(&store), store.log().flushed_offset()), ((0..60).collect(), end));
        drop(store);
        // It is over with that: nothing has failed since.
        assert!(!has_flush_failed(&*fs(), &root.path().join("mqstore")).unwrap());
    }
}

#[test]
fn queues_that_the_disk_has_refused_are_told_and_messages_taken() {
    let root = tempfile::tempdir().unwrap();
    let hook: Hook = Box::new(|call, path| {
        let is_of_queue = path.components().any(|part| part.as_os_str() == "consumequeue");
        if matches!(call, Call::Sync | Call::FlushMapped) && is_of_queue {
            Err(io::Error::from_raw_os_error(5))
        } else {
            Ok(())
        }
    });
    let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    fill(&store, 0..5);
    store.reput().unwrap();
    assert_eq!(store.derived_failure(), None);
    assert!(store.flush_everything().is_err());
    assert!(store.derived_failure().unwrap().contains("consumequeue/t/0"));
    assert_eq!(store.takes_no_messages(), None);
    fill(&store, 5..10);
    assert_eq!(numbers(&store).len(), 10);
}

/// What was cut is zeros in memory from then on, and can still be whole records on a disk that did not take them.
#[test]
fn zeros_that_the_disk_has_refused_are_written_again() {
    let is_of_log = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("commitlog"));
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..5);
    store.flush_everything().unwrap();
    let torn = store.max_phy_offset();
    fill(&store, 5..6);
    crash(store);
    // A power cut left the record's end and nothing of its begin.
    patch(&log_file(root.path(), 0), torn, |bytes| bytes[..100].fill(0));
    let hook: Hook = Box::new(move |call, path| {
        let is_refused = matches!(call, Call::Sync) && is_of_log(path);
        if is_refused { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    });
    let clock = Arc::new(ManualClock::at(1_000_000));
    let fs_that_refuses = Arc::new(HookedFileSystem::new(hook));
    Store::open(config(root.path()), fs_that_refuses, clock, Mode::ReadWrite).unwrap_err();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let hook: Hook = Box::new(move |call, path| {
        if matches!(call, Call::Write { .. } | Call::Sync) && is_of_log(path) {
            seen.lock().push(if matches!(call, Call::Sync) { "Sync" } else { "Write" });
        }
        Ok(())
    });
    let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    assert_eq!(*calls.lock(), ["Write", "Sync"]);
    assert_eq!(store.max_phy_offset(), torn);
    drop(store);
    assert!(!has_flush_failed(&*fs(), &root.path().join("mqstore")).unwrap());
}

/// On tmpfs a hole that is read through a mapping takes memory, up to all of the file.
#[test]
fn an_opening_reads_no_holes() {
    const FILE_SIZE: u64 = 32 << 20;
    let in_memory = Path::new("/dev/shm");
    let root =
        if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() }.unwrap();
    let config = StoreConfig { mapped_file_size_commit_log: FILE_SIZE, ..config(root.path()) };
    let store = try_open(config.clone(), Mode::ReadWrite).unwrap();
    fill(&store, 0..5);
    let end = usize::try_from(store.max_phy_offset()).unwrap();
    crash(store);
    // What was reserved ahead is no hole.
    let written = std::fs::read(log_file(root.path(), 0)).unwrap();
    let file = std::fs::File::create(log_file(root.path(), 0)).unwrap();
    file.set_len(FILE_SIZE).unwrap();
    file.write_all_at(&written[..end], 0).unwrap();
    let bad = (end / 5 * 4) as u64;
    let read_as = |mode: Mode, count: usize| {
        let store = try_open(config.clone(), mode).unwrap();
        assert_eq!(numbers(&store), (0..count).collect::<Vec<_>>());
        let nothing = Some(RecordFault::MagicCode { found: 0 });
        assert_eq!(scan::next_valid(store.log().files(), bad, nothing, FILE_SIZE).unwrap(), None);
        let used_size = file.metadata().unwrap().blocks() * 512;
        assert!(used_size < FILE_SIZE / 8, "{used_size} bytes");
    };
    read_as(Mode::Read, 5);
    // What comes behind a record that is none is looked for in the rest of the file.
    file.write_all_at(&[0; 8], bad).unwrap();
    read_as(Mode::Read, 4);
    read_as(Mode::ReadWrite, 4);
}

/// What goes through a mapping moves a file's time late or never, and who copies by size and time would leave it out.
#[test]
fn a_close_sets_the_times_of_what_was_written_through_mappings() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..3);
    store.reput().unwrap();
    let index = std::fs::read_dir(root.path().join("index")).unwrap().next().unwrap().unwrap().path();
    let files = [log_file(root.path(), 0), index];
    let time = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let set_back = || {
        for path in &files {
            std::fs::File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
    };
    set_back();
    store.close().unwrap();
    for path in &files {
        assert!(time(path) > UNIX_EPOCH, "{}", path.display());
    }
    // Nothing was written to the log; the index has its header written each time.
    set_back();
    open(root.path()).close().unwrap();
    assert_eq!(time(&files[0]), UNIX_EPOCH);
}
