//! Where the log ends, and what becomes of what stands behind.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::CommitLog;
use mqstore_core::config::{OnDamage, StoreConfig};
use mqstore_core::error::Error;
use mqstore_core::format::message::RecordFault;
use mqstore_core::mmap::file_queue::{FileQueue, FileQueueOptions};
use mqstore_core::mmap::mapped_file::Access;
use mqstore_core::recovery::layout::Layout;
use mqstore_core::recovery::log_end;
use mqstore_core::store::Mode;
use mqstore_core::sync::Mutex;
use proptest::prelude::*;

use crate::hooked::{Call, Hook, HookedFileSystem};
use crate::stores::{
    LOG_FILE_SIZE, bodies, config, crash, cutting, fields, fill, fs, gaps, log_file, numbers, open,
    open_with, patch, put, read, record_bytes, tree, try_open,
};

/// A store of sixty messages, closed or left as a crash leaves it. Gives where each record stands.
fn left(root: &Path, clean: bool) -> Vec<u64> {
    let store = open(root);
    fill(&store, 0..60);
    store.reput().unwrap();
    let queue = store.find_consume_queue("t", 0).unwrap();
    let offsets =
        (0..60).map(|at| queue.unit(at).unwrap().unwrap().physical_offset.cast_unsigned()).collect();
    if clean {
        store.close().unwrap();
    } else {
        crash(store);
    }
    offsets
}

fn flip(root: &Path, offset: u64) {
    patch(&log_file(root, offset / 4096 * 4096), offset % 4096, |at| at[0] ^= 0x10);
}

fn zero_behind(root: &Path, offset: u64) {
    patch(&log_file(root, offset / 4096 * 4096), offset % 4096, |at| at.fill(0));
}

#[test]
fn a_store_ends_where_it_ended() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        left(root.path(), clean);
        let store = open(root.path());
        assert_eq!(store.notes().closed_cleanly, clean);
        assert_eq!(numbers(&store), (0..60).collect::<Vec<_>>());
        fill(&store, 60..65);
        assert_eq!(numbers(&store), (0..65).collect::<Vec<_>>());
        assert_eq!(store.log().last_store_timestamp(), 1_000_000);
    }
}

#[test]
fn a_torn_tail_is_cut_zeroed_and_never_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let offsets = left(root.path(), false);
    let last = offsets[59];
    flip(root.path(), last + 100);
    assert_eq!(numbers(&read(root.path())), (0..59).collect::<Vec<_>>());
    let store = open(root.path());
    assert_eq!(store.max_phy_offset(), last);
    assert_eq!(numbers(&store), (0..59).collect::<Vec<_>>());
    let file = std::fs::read(log_file(root.path(), last / 4096 * 4096)).unwrap();
    assert!(file[usize::try_from(last % 4096).unwrap()..].iter().all(|&byte| byte == 0));
    fill(&store, 100..101);
    crash(store);
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..59).chain([100]).collect::<Vec<_>>());
}

#[test]
fn what_was_cut_does_not_come_back_behind_a_put_of_the_same_size() {
    let root = tempfile::tempdir().unwrap();
    let offsets = left(root.path(), false);
    let mut config = config(root.path());
    config.on_damage = OnDamage::Truncate;
    flip(root.path(), offsets[20] + 100);
    let store = open_with(config);
    assert_eq!(numbers(&store), (0..20).collect::<Vec<_>>());
    fill(&store, 77..78);
    crash(store);
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..20).chain([77]).collect::<Vec<_>>());
    assert!(store.log().files().last().unwrap().file_from_offset() <= offsets[20], "later files went");
}

/// Behind what was put where a record was, the next old one would begin.
#[test]
fn what_was_cut_as_damage_or_as_another_queues_does_not_come_back() {
    const QUEUE_OFFSET_AT: u64 = 20;
    for (clean, at, number) in [(true, 100, 50), (true, 100, 20), (false, QUEUE_OFFSET_AT + 6, 50)] {
        let root = tempfile::tempdir().unwrap();
        let offsets = left(root.path(), clean);
        flip(root.path(), offsets[number] + at);
        let config = cutting(root.path());
        let store = open_with(config);
        assert_eq!(store.max_phy_offset(), offsets[number], "{number}, {clean}");
        fill(&store, 77..78);
        crash(store);
        let expected: Vec<_> = (0..number).chain([77]).collect();
        assert_eq!(numbers(&open(root.path())), expected, "{number}, {clean}");
    }
}

#[test]
fn damage_in_the_middle_is_refused_by_a_writer_and_read_around() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let offsets = left(root.path(), clean);
        let (bad, next) = (offsets[50], offsets[51]);
        flip(root.path(), bad + 100);
        let before = tree(root.path());
        match try_open(config(root.path()), Mode::ReadWrite).map(|_| ()).unwrap_err() {
            Error::Damaged { offset, next_valid, fault: RecordFault::BodyCrc { .. }, path } => {
                assert_eq!((offset, next_valid), (bad, next));
                assert_eq!(path, log_file(root.path(), bad / 4096 * 4096));
            }
            other => panic!("{other}"),
        }
        assert_eq!(tree(root.path()), before);
        let store = read(root.path());
        let expected: Vec<_> = (0..60).filter(|number| *number != 50).collect();
        assert_eq!(numbers(&store), expected);
        let gaps = gaps(&store);
        assert_eq!(gaps, [(bad, next)]);
        assert_eq!(tree(root.path()), before);
    }
}

#[test]
fn a_forged_record_in_a_damaged_body_is_neither_served_nor_a_reason_to_refuse() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..2);
    let inside_at = store.max_phy_offset() + 88 + 20;
    let forged = record_bytes(&fields("t", 0, b"forged", ""), 3, inside_at);
    let outer = put(&store, "t", 0, &[&[b'x'; 20][..], &forged].concat(), "");
    crash(store);
    flip(root.path(), outer.wrote_offset + 88 + 2);
    let selection = mqstore_core::selection::Selection::default();
    let reader = read(root.path());
    let mut cursor = selection.cursor(Arc::clone(&reader)).unwrap();
    assert_eq!(cursor.next_messages(100, u64::MAX).unwrap().len(), 2);
    assert_eq!(numbers(&reader), [0, 1]);
    let store = open(root.path());
    assert_eq!(store.max_phy_offset(), outer.wrote_offset, "the last record is a torn tail");
}

#[test]
fn a_walk_over_the_log_does_not_serve_what_a_damaged_body_holds() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let inside_at = store.max_phy_offset() + 88 + 20;
    let forged = record_bytes(&fields("t", 0, b"forged", ""), 3, inside_at);
    let outer = put(&store, "t", 0, &[&[b'x'; 20][..], &forged].concat(), "");
    fill(&store, 1..3);
    store.close().unwrap();
    // Far enough back that opening does not walk over it again.
    let mut first = config(root.path());
    first.check_crc_on_recover = false;
    flip(root.path(), outer.wrote_offset + 88 + 2);
    let reader = try_open(first, Mode::Read).unwrap();
    let selection = mqstore_core::selection::Selection::default();
    let mut cursor = selection.cursor(Arc::clone(&reader)).unwrap();
    let found = cursor.next_messages(100, u64::MAX).unwrap();
    assert_eq!(found.iter().map(|message| message.queue_offset()).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn zeros_in_the_middle_are_damage_and_at_the_end_the_end() {
    let root = tempfile::tempdir().unwrap();
    let offsets = left(root.path(), false);
    zero_behind(root.path(), offsets[59]);
    let store = open(root.path());
    assert_eq!((store.max_phy_offset(), numbers(&store).len()), (offsets[59], 59));
    crash(store);
    zero_behind(root.path(), offsets[30]);
    assert!(matches!(try_open(config(root.path()), Mode::ReadWrite), Err(Error::Damaged { .. })));
}

#[test]
fn the_checkpoint_and_the_positions_say_where_to_begin_and_lie_without_harm() {
    for (checkpoint, positions) in [(true, true), (true, false), (false, true), (false, false)] {
        let root = tempfile::tempdir().unwrap();
        left(root.path(), false);
        let far = i64::MAX.to_be_bytes().repeat(3);
        if checkpoint {
            patch(&root.path().join("checkpoint"), 0, |at| at[..24].copy_from_slice(&far));
        } else {
            std::fs::write(root.path().join("checkpoint"), "x").unwrap();
        }
        if positions {
            patch(&root.path().join("mqstore/positions"), 20, |at| at[0] ^= 1);
        } else {
            std::fs::remove_file(root.path().join("mqstore/positions")).unwrap();
        }
        let store = open(root.path());
        assert_eq!(numbers(&store), (0..60).collect::<Vec<_>>(), "{checkpoint} {positions}");
    }
}

#[test]
fn an_empty_log_is_one() {
    let root = tempfile::tempdir().unwrap();
    open(root.path()).close().unwrap();
    let store = open(root.path());
    assert_eq!((store.max_phy_offset(), store.min_phy_offset()), (0, -1));
    crash(store);
    assert_eq!(bodies(&read(root.path()), "t", 0), Vec::<String>::new());
    let store = open(root.path());
    fill(&store, 0..1);
    assert_eq!(numbers(&store), [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever bytes are damaged: a writer refuses and changes nothing, or keeps everything before
    /// the damage; a reader serves only messages as they were put. Opening again changes nothing.
    #[test]
    fn damage_loses_nothing_in_silence(
        clean in any::<bool>(), damage in proptest::collection::vec((0..12_000_u64, 1..=255_u8), 1..3)
    ) {
        let root = tempfile::tempdir().unwrap();
        let offsets = left(root.path(), clean);
        for (at, with) in &damage {
            let path = log_file(root.path(), at / 4096 * 4096);
            if path.exists() {
                patch(&path, at % 4096, |at| at[0] ^= with);
            }
        }
        let first_bad = damage.iter().map(|(at, _)| *at).min().unwrap();
        let untouched = offsets.iter().filter(|offset| **offset + 190 <= first_bad).count();
        let before = tree(root.path());
        let reader = read(root.path());
        for body in bodies(&reader, "t", 0) {
            prop_assert!(body.len() == 80 && body.parse::<usize>().unwrap() < 60, "{}", body);
        }
        drop(reader);
        prop_assert_eq!(tree(root.path()), before.clone());
        match try_open(config(root.path()), Mode::ReadWrite) {
            Err(error) => {
                prop_assert!(matches!(error, Error::Damaged { .. } | Error::EndLost { .. }), "{}", error);
                prop_assert_eq!(tree(root.path()), before);
            }
            Ok(store) => {
                let found = numbers(&store);
                prop_assert!(found.len() >= untouched.min(59), "{:?}", found);
                store.close().unwrap();
                let log = tree(&root.path().join("commitlog"));
                let again = open(root.path());
                prop_assert_eq!(numbers(&again), found);
                again.close().unwrap();
                prop_assert_eq!(tree(&root.path().join("commitlog")), log);
            }
        }
    }
}

/// A slave that got a part of a record, flushed that, and got the rest and more. Gives the numbers that its log
/// has when of the rest a power cut left what is in later sectors.
fn slave_whose_record_is_cut(root: &Path, is_slave: bool, damaged: Option<u64>) -> Result<Vec<usize>, Error> {
    let (master_root, of_slave) =
        (tempfile::tempdir().unwrap(), || StoreConfig { is_slave: true, ..config(root) });
    let master = open(master_root.path());
    fill(&master, 0..20);
    let log = std::fs::read(log_file(master_root.path(), 0)).unwrap();
    let slave = open_with(of_slave());
    // The fifth record, in the second sector.
    let (size, cut) = (master.max_phy_offset() / 20, 800);
    assert!(4 * size < cut && cut < 5 * size && 5 * size < 1024);
    let cut = usize::try_from(cut).unwrap();
    slave.append_to_commit_log(0, &log[..cut]).unwrap();
    slave.flush_everything().unwrap();
    slave.append_to_commit_log(cut as u64, &log[cut..3000]).unwrap();
    crash(slave);
    patch(&log_file(root, 0), cut as u64, |at| at[..1024 - cut].fill(0));
    if let Some(at) = damaged {
        patch(&log_file(root, 0), at, |at| at[0] ^= 1);
    }
    let opened = try_open(StoreConfig { is_slave, ..config(root) }, Mode::ReadWrite)?;
    Ok(numbers(&opened))
}

#[test]
fn a_record_whose_begin_a_slave_had_flushed_ends_the_log_after_a_power_cut() {
    for is_slave in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let left = slave_whose_record_is_cut(root.path(), is_slave, None).unwrap();
        assert_eq!(left, [0, 1, 2, 3]);
        // What stands before what was flushed is damage, whatever its size says.
        for at in [1, 2, 3, 100] {
            let root = tempfile::tempdir().unwrap();
            let refused = slave_whose_record_is_cut(root.path(), is_slave, Some(at));
            assert!(matches!(refused, Err(Error::Damaged { offset: 0, .. })), "{at}: {refused:?}");
        }
    }
}

/// Who mended a log knows where it ends: what is behind goes, and nothing before it.
#[test]
fn a_mended_log_ends_where_it_is_told_and_is_never_cut_before() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let offsets = left(root.path(), clean);
        let mended_to = |end| StoreConfig { mended_to: Some(end), ..config(root.path()) };
        std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
        std::fs::remove_dir_all(root.path().join("mqstore")).unwrap();
        let log = || tree(&root.path().join("commitlog"));
        let before = log();
        let refused = try_open(mended_to(offsets[59] + 1000), Mode::ReadWrite).err();
        assert!(matches!(refused, Some(Error::Damaged { .. })), "{refused:?}");
        flip(root.path(), offsets[20] + 100);
        let refused = try_open(mended_to(offsets[50]), Mode::ReadWrite).err();
        assert!(
            matches!(refused, Some(Error::Damaged { offset, .. }) if offset == offsets[20]),
            "{refused:?}"
        );
        flip(root.path(), offsets[20] + 100);
        assert_eq!(log(), before, "clean: {clean}");
        let store = open_with(mended_to(offsets[50]));
        store.reput().unwrap();
        assert_eq!(store.max_phy_offset(), offsets[50]);
        assert_eq!(numbers(&store), (0..50).collect::<Vec<_>>());
        store.close().unwrap();
    }
}

/// What is left ends with a file, as a whole log can: what tells is where it was to end.
#[test]
fn a_mended_log_whose_last_file_is_gone_is_refused() {
    for clean in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let offsets = left(root.path(), clean);
        let last_file = offsets[59] / LOG_FILE_SIZE * LOG_FILE_SIZE;
        std::fs::remove_file(log_file(root.path(), last_file)).unwrap();
        std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
        std::fs::remove_dir_all(root.path().join("mqstore")).unwrap();
        let mended = StoreConfig { mended_to: Some(offsets[59]), ..config(root.path()) };
        let refused = try_open(mended, Mode::ReadWrite).err();
        assert!(
            matches!(refused, Some(Error::Damaged { offset, .. }) if offset == last_file),
            "clean: {clean}: {refused:?}"
        );
    }
}

/// All from where it was flushed to the log's end is written again, a part at a time, and what lies on the disk behind that
/// end; what is a hole there is not read.
#[test]
fn what_is_written_again_is_what_was_not_flushed_and_what_lies_behind_the_end() {
    const MIB: u64 = 1 << 20;
    const FILE_SIZE: u64 = 3 * MIB + 4096;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("commitlog");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..4 {
        let file = std::fs::File::create(log_file(root.path(), number * FILE_SIZE)).unwrap();
        file.set_len(FILE_SIZE).unwrap();
        match number {
            0 | 1 => file.write_all_at(&vec![b'x'; usize::try_from(FILE_SIZE).unwrap()], 0).unwrap(),
            2 => {
                file.write_all_at(&vec![b'x'; usize::try_from(MIB).unwrap() + 100], 0).unwrap();
                file.write_all_at(b"cut off", 3 * MIB).unwrap();
            }
            _ => {}
        }
    }
    let before = tree(&folder);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let hook: Hook = Box::new(move |call, path| {
        let number = path.file_name().unwrap().to_str().unwrap().parse::<u64>().unwrap() / FILE_SIZE;
        match call {
            Call::Write { offset, len } => seen.lock().push((number, Some((offset, len as u64)))),
            Call::Sync => seen.lock().push((number, None)),
            _ => {}
        }
        Ok(())
    });
    let config = Arc::new(StoreConfig { mapped_file_size_commit_log: FILE_SIZE, ..config(root.path()) });
    let options = FileQueueOptions {
        paths: config.store_path_commit_log.clone(),
        read_only_paths: Vec::new(),
        file_size: FILE_SIZE,
        access: Access::MapWrite,
        budget: None,
    };
    let layout = Layout::read(&*fs(), &config).unwrap();
    let files = FileQueue::new(Arc::new(HookedFileSystem::new(hook)), options, &layout.log);
    let log = CommitLog::new(config, Arc::new(ManualClock::at(1_000_000)), files).unwrap();

    log_end::write_again(&log, FILE_SIZE + MIB + 100, 2 * FILE_SIZE + MIB + 100).unwrap();
    let of_last_two = [
        (2, Some((0, MIB))),
        // What is behind the end in a part goes with it, and what follows is looked for.
        (2, Some((MIB, MIB))),
        (2, Some((3 * MIB, 4096))),
        (2, None),
        (3, None),
    ];
    let of_second = [
        (1, Some((MIB + 100, MIB))),
        (1, Some((2 * MIB + 100, MIB))),
        (1, Some((3 * MIB + 100, 4096 - 100))),
        (1, None),
    ];
    assert_eq!(*calls.lock(), [&of_second[..], &of_last_two].concat());
    // A file that was flushed to its end is left alone.
    calls.lock().clear();
    log_end::write_again(&log, 2 * FILE_SIZE, 2 * FILE_SIZE + MIB + 100).unwrap();
    assert_eq!(*calls.lock(), of_last_two);
    assert_eq!(tree(&folder), before);
}
