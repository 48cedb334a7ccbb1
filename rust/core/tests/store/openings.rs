//! A reader beside one writer after the other: what the next one cuts or makes anew.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::index::KeyQuery;
use mqstore_core::selection::Selection;
use mqstore_core::store::{Mode, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{
    LOG_FILE_SIZE, Opened, config, crash, cutting, fill, gaps, log_file, numbers, open, open_with, patch,
    put, read, try_open,
};

fn slave_config(root: &Path) -> StoreConfig {
    StoreConfig { is_slave: true, ..config(root) }
}

/// How many messages the index has for each of `fill`'s keys.
fn keys(store: &Store, count: usize) -> Vec<usize> {
    let found = |number: usize| {
        let key = format!("k{number}");
        let query =
            KeyQuery { topic: b"t", key: key.as_bytes(), max_num: 100, begin: i64::MIN, end: i64::MAX };
        store.query_message(&query).unwrap().len()
    };
    (0..count).map(found).collect()
}

/// Its newest file is not full: the next writer goes on in it.
#[test]
fn keys_are_found_once_a_writer_goes_on_in_their_index_file() {
    for pread in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        fill(&writer, 0..6);
        writer.close().unwrap();
        let reader = try_open(StoreConfig { pread, ..config(root.path()) }, Mode::Read).unwrap();
        assert_eq!(keys(&reader, 6), [1; 6]);
        let writer = open(root.path());
        fill(&writer, 0..6);
        writer.reput().unwrap();
        for _ in 0..2 {
            reader.refresh().unwrap();
            assert_eq!(keys(&reader, 6), [2; 6]);
        }
        writer.close().unwrap();
        reader.refresh().unwrap();
        assert_eq!(keys(&reader, 6), [2; 6]);
    }
}

pub fn assert_as_opened_now(reader: &Opened, root: &Path) {
    reader.refresh().unwrap();
    let fresh = read(root);
    let found = numbers(&fresh);
    assert_eq!(numbers(reader), found);
    assert_eq!(reader.max_phy_offset(), fresh.max_phy_offset());
    let count = found.iter().max().map_or(0, |last| last + 1);
    assert_eq!(keys(reader, count), keys(&fresh, count));
    assert_eq!(gaps(reader), gaps(&fresh));
}

/// A slave that goes inside a record has it zeroed when it is opened again, and gets it again.
#[test]
fn a_reader_of_a_slave_does_not_pass_over_what_was_cut() {
    let (master_root, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(master_root.path());
    fill(&master, 0..20);
    let mut log = std::fs::read(log_file(master_root.path(), 0)).unwrap();
    log.truncate(usize::try_from(master.max_phy_offset()).unwrap());
    let record_size = log.len() / 20;
    for cut in 1..20 {
        let root = root.path().join(cut.to_string());
        let slave = open_with(slave_config(&root));
        let to = (5 + cut % 7) * record_size + cut * 9;
        slave.append_to_commit_log(0, &log[..to]).unwrap();
        let reader = read(&root);
        assert_eq!(numbers(&reader).len(), to / record_size);
        crash(slave);
        reader.refresh().unwrap();
        let slave = open_with(slave_config(&root));
        let from = usize::try_from(slave.max_phy_offset()).unwrap();
        if cut % 2 == 0 {
            reader.refresh().unwrap();
        }
        slave.append_to_commit_log(from as u64, &log[from..]).unwrap();
        assert_as_opened_now(&reader, &root);
        assert_eq!((numbers(&reader), reader.gaps()), ((0..20).collect(), Vec::new()));
    }
}

/// Nothing of what is behind the cut was what it is now: other messages, and other keys.
#[test]
fn a_reader_follows_a_log_that_was_cut_and_goes_on_otherwise() {
    for is_seen_between in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        fill(&writer, 0..60);
        let reader = read(root.path());
        assert_eq!(numbers(&reader).len(), 60);
        crash(writer);
        let damaged = 30;
        let file = log_file(root.path(), LOG_FILE_SIZE);
        patch(&file, (damaged % 20) * 200 + 150, |bytes| bytes[0] ^= 0xff);
        assert!(Selection::default().count(Arc::clone(&reader.store)).unwrap() < 60);
        assert_ne!(reader.gaps(), [], "it has seen the damage that is cut now");
        let cutting = cutting(root.path());
        let writer = open_with(cutting);
        let kept = numbers(&writer).len();
        assert!((20..60).contains(&kept));
        if is_seen_between {
            assert_as_opened_now(&reader, root.path());
        }
        fill(&writer, 100..110);
        put(&writer, "other", 0, b"x", "");
        if is_seen_between {
            crash(writer);
            drop(open(root.path()));
        }
        assert_as_opened_now(&reader, root.path());
        assert_eq!(numbers(&reader), (0..kept).chain(100..110).collect::<Vec<_>>());
    }
}

/// Where a record stood that said another place than it had, another one stands now.
#[test]
fn a_record_that_was_cut_keeps_no_other_one_from_its_queue() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..10);
    let size = writer.max_phy_offset() / 10;
    crash(writer);
    patch(&log_file(root.path(), 0), 5 * size + 20, |queue_offset| queue_offset[6] ^= 1);
    let reader = read(root.path());
    assert_eq!((numbers(&reader).len(), gaps(&reader)), (9, vec![(5 * size, 6 * size)]));
    let writer = open_with(cutting(root.path()));
    let kept = numbers(&writer).len();
    assert_eq!(writer.max_phy_offset(), 5 * size, "it is cut");
    fill(&writer, kept..10);
    assert_as_opened_now(&reader, root.path());
    assert_eq!(numbers(&reader), (0..10).collect::<Vec<_>>());
}

/// A process that is killed while it copies a record leaves one whose body is there and whose properties are not.
#[test]
fn a_torn_record_is_not_there_for_a_reader_either() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..5);
    writer.flush_everything().unwrap();
    let reader = read(root.path());
    fill(&writer, 5..6);
    let end = writer.max_phy_offset();
    crash(writer);
    patch(&log_file(root.path(), 0), end - 4, |bytes| bytes[..4].fill(0));
    reader.refresh().unwrap();
    assert_eq!(numbers(&reader), [0, 1, 2, 3, 4]);
    let writer = open(root.path());
    assert_eq!(numbers(&writer), [0, 1, 2, 3, 4]);
    fill(&writer, 7..9);
    assert_as_opened_now(&reader, root.path());
}

/// A reader that cannot read a queue when it goes back cuts it the next time.
#[test]
fn a_queue_that_could_not_be_cut_is_cut_later() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..60);
    writer.reput().unwrap();
    writer.flush_consume_queues(0).unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let is_refused = Arc::clone(&refuses);
    let hook: Hook = Box::new(move |call, path| {
        let is_queue = path.components().any(|part| part.as_os_str() == "consumequeue");
        if is_queue && matches!(call, Call::Open) && is_refused.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(())
    });
    let (store, clock) = open_hooked(config(root.path()), Mode::Read, hook);
    let reader = Opened { store, clock };
    crash(writer);
    patch(&log_file(root.path(), LOG_FILE_SIZE), 10 * 200 + 150, |bytes| bytes[0] ^= 0xff);
    let writer = open_with(cutting(root.path()));
    fill(&writer, 100..110);
    refuses.store(true, Ordering::Relaxed);
    assert!(matches!(reader.refresh(), Err(Error::Io { .. })));
    refuses.store(false, Ordering::Relaxed);
    assert_as_opened_now(&reader, root.path());
}

/// What a reader's dispatch had to pass over it says once, whether it goes back before that or not.
#[test]
fn gaps_are_told_once_where_a_reader_goes_back() {
    for is_known in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        fill(&writer, 0..1);
        let sixth = writer.max_phy_offset() * 5;
        let reader = read(root.path());
        fill(&writer, 1..100);
        writer.clock.set(2_000_000);
        fill(&writer, 100..200);
        patch(&log_file(root.path(), 0), sixth + 4, |bytes| bytes[0] ^= 0xff);
        reader.refresh().unwrap();
        let told = gaps(&reader);
        assert_eq!(told.len(), 1);
        if is_known {
            writer.reput().unwrap();
            writer.flush_everything().unwrap();
        }
        fill(&writer, 200..210);
        reader.refresh().unwrap();
        crash(writer);
        let writer = open_with(cutting(root.path()));
        fill(&writer, 300..305);
        reader.refresh().unwrap();
        assert_eq!(gaps(&reader), if is_known { told } else { Vec::new() });
    }
}

#[test]
fn a_refused_opening_leaves_what_is_published() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..60);
    crash(writer);
    patch(&log_file(root.path(), LOG_FILE_SIZE), 350, |bytes| bytes[0] ^= 0xff);
    let published = root.path().join("mqstore/published");
    let before = std::fs::read(&published).unwrap();
    assert!(try_open(config(root.path()), Mode::ReadWrite).is_err());
    assert_eq!(std::fs::read(&published).unwrap(), before);
}

/// Writers come and go in any way; a reader that looks now and then is where one is that was opened then.
#[test]
fn a_reader_is_where_a_new_one_is_whatever_writers_do() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let root = tempfile::tempdir().unwrap();
        let options = || cutting(root.path());
        let mut writer = open_with(options());
        let reader = read(root.path());
        let mut next = 0;
        for _ in 0..40 {
            match random.u32(0..9) {
                0..3 => {
                    let count = random.usize(1..30);
                    fill(&writer, next..next + count);
                    next += count;
                }
                3 => drop(writer.reput().unwrap()),
                4 => writer.flush_everything().unwrap(),
                5 => {
                    writer.reput().unwrap();
                    writer.flush_consume_queues(0).unwrap();
                }
                6 => {
                    let end = writer.max_phy_offset();
                    crash(writer);
                    let behind = random.u64(1..2000);
                    if let Some(at) = end.checked_sub(behind).filter(|_| random.bool()) {
                        let file = log_file(root.path(), at - at % LOG_FILE_SIZE);
                        patch(&file, at % LOG_FILE_SIZE, |bytes| bytes[0] ^= 0x55);
                    }
                    writer = open_with(options());
                }
                7 => {
                    writer.close().unwrap();
                    writer = open_with(options());
                }
                _ => assert_as_opened_now(&reader, root.path()),
            }
        }
        assert_as_opened_now(&reader, root.path());
    }
}
