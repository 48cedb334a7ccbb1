//! Logs that have lost, at their end, what was on the disk.

use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use mqstore_core::clock::SystemClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::format::positions::{LogMarks, POSITIONS_FILE_SIZE};
use mqstore_core::log_view::LogView;
use mqstore_core::store::{Mode, Part, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{
    LOG_FILE_SIZE, UNITS_IN_FILE, config, copy_folder, crash, cutting, fill, forget_own_files, fs, gaps,
    log_file, numbers, open, open_with, patch, read, tree, try_open,
};

const COUNT: usize = 60;

/// A store of three log files, all of which is on the disk. Gives where its log ends.
fn made(root: &Path, is_killed: bool) -> u64 {
    let store = open(root);
    fill(&store, 0..COUNT);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    let end = store.max_phy_offset();
    if is_killed {
        crash(store);
    } else {
        store.close().unwrap();
    }
    end
}

type Lose = fn(&Path, u64);

/// What loses something, and how many messages are left.
const LOSSES: [(&str, Lose, usize); 6] = [
    ("the last file", |root, _| std::fs::remove_file(log_file(root, 2 * LOG_FILE_SIZE)).unwrap(), 44),
    (
        "the last two files",
        |root, _| (1..3).for_each(|at| std::fs::remove_file(log_file(root, at * LOG_FILE_SIZE)).unwrap()),
        22,
    ),
    (
        "all files",
        |root, _| (0..3).for_each(|at| std::fs::remove_file(log_file(root, at * LOG_FILE_SIZE)).unwrap()),
        0,
    ),
    (
        "what was in the last file",
        |root, _| std::fs::write(log_file(root, 2 * LOG_FILE_SIZE), [0; 4096]).unwrap(),
        44,
    ),
    (
        "one bit of the last record",
        |root, end| patch(&log_file(root, 2 * LOG_FILE_SIZE), end % LOG_FILE_SIZE - 60, |at| at[0] ^= 1),
        COUNT - 1,
    ),
    (
        "the last record",
        |root, end| {
            patch(&log_file(root, 2 * LOG_FILE_SIZE), end % LOG_FILE_SIZE - 180, |at| at[..180].fill(0));
        },
        COUNT - 1,
    ),
];

/// What a look at the log alone says of its end.
fn lost_end(root: &Path, end: Option<u64>) -> Option<(u64, u64)> {
    let view = LogView::open(config(root), fs(), Arc::new(SystemClock), end).unwrap();
    view.lost_end().map(|lost| (lost.from, lost.to))
}

#[test]
fn a_writer_refuses_and_changes_nothing_and_a_reader_tells_it() {
    for is_killed in [false, true] {
        for (what, lose, left) in LOSSES {
            let root = tempfile::tempdir().unwrap();
            let end = made(root.path(), is_killed);
            lose(root.path(), end);
            let before = tree(root.path());
            let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
            let Err(Error::EndLost { offset, flushed_to, .. }) = refused else {
                panic!("{what}: {refused:?}")
            };
            assert_eq!(flushed_to, end, "{what}");
            assert!(tree(root.path()) == before, "{what}: nothing is changed");

            let reader = read(root.path());
            assert_eq!(numbers(&reader), (0..left).collect::<Vec<_>>(), "{what}");
            let told = gaps(&reader);
            assert_eq!(told, [(offset, end)], "{what}");
            assert_eq!(lost_end(root.path(), None), Some((offset, end)), "{what}");
            assert_eq!(
                lost_end(root.path(), Some(offset)),
                None,
                "{what}: who gives an end asks for no other"
            );
        }
    }
}

/// Its positions, which are written down now and then, say nothing of it yet.
#[test]
fn what_a_killed_writer_published_as_flushed_is_missed() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..COUNT);
    store.flush_commit_log(0).unwrap();
    let end = store.max_phy_offset();
    crash(store);
    std::fs::remove_file(log_file(root.path(), 2 * LOG_FILE_SIZE)).unwrap();
    for _ in 0..2 {
        let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
        let Err(Error::EndLost { offset, flushed_to, .. }) = refused else { panic!("{refused:?}") };
        assert!(offset > 2 * LOG_FILE_SIZE - 200 && flushed_to == end, "{offset}");
        assert_eq!(gaps(&read(root.path())), [(offset, end)]);
        assert_eq!(lost_end(root.path(), None), Some((offset, end)));
    }
    crash(open_with(cutting(root.path())));
    let store = open(root.path());
    assert_eq!(numbers(&store), (0..44).collect::<Vec<_>>());
}

#[test]
fn who_says_so_does_without_and_is_not_told_again() {
    for (what, lose, left) in LOSSES {
        let root = tempfile::tempdir().unwrap();
        let end = made(root.path(), false);
        lose(root.path(), end);
        crash(open_with(cutting(root.path())));
        let store = open(root.path());
        fill(&store, left..left + 3);
        assert_eq!(numbers(&store), (0..left + 3).collect::<Vec<_>>(), "{what}");
        assert_eq!(store.gaps(), [], "{what}");
    }
}

fn slave(root: &Path) -> StoreConfig {
    StoreConfig { is_slave: true, ..config(root) }
}

/// Sends a slave what its master has from the end of its log on, up to an offset.
fn send(slave: &Store, log: &[Vec<u8>], to: u64) {
    let mut from = slave.log().max_offset();
    while from < to {
        let (file, at) = ((from / LOG_FILE_SIZE) as usize, (from % LOG_FILE_SIZE) as usize);
        let rest = &log[file][at..];
        let part = &rest[..rest.len().min(usize::try_from(to - from).unwrap())];
        slave.append_to_commit_log(from, part).unwrap();
        from += part.len() as u64;
    }
    slave.reput().unwrap();
}

/// A slave without a log gets its master's newest file, however long that is.
#[test]
fn a_slave_whose_log_begins_anew_owes_what_was_before() {
    for is_killed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let end = made(root.path(), false);
        let newest = end / LOG_FILE_SIZE * LOG_FILE_SIZE;
        let file = std::fs::read(log_file(root.path(), newest)).unwrap();
        std::fs::remove_dir_all(root.path().join("commitlog")).unwrap();
        let store = open_with(slave(root.path()));
        assert_eq!(gaps(&store), [(0, end)]);
        store.append_to_commit_log(newest, &file[..usize::try_from(end - newest).unwrap()]).unwrap();
        store.reput().unwrap();
        assert_eq!(gaps(&store), [(0, newest)]);
        store.flush_everything().unwrap();
        if is_killed {
            crash(store);
        } else {
            store.close().unwrap();
        }
        assert_eq!(lost_end(root.path(), None), Some((0, newest)));
        let Err(Error::EndLost { offset, flushed_to, .. }) =
            try_open(config(root.path()), Mode::ReadWrite).map(drop)
        else {
            panic!("it gives the same offsets again")
        };
        assert_eq!((offset, flushed_to), (0, newest));
        let store = open_with(slave(root.path()));
        assert_eq!(gaps(&store), [(0, newest)]);
        drop(store);
        let store = open_with(cutting(root.path()));
        assert_eq!(gaps(&store), []);
        store.close().unwrap();
        assert_eq!(gaps(&open(root.path())), []);
    }
}

/// Its master may be gone for good, and the slave become one.
#[test]
fn a_slave_owes_what_its_log_has_lost_until_it_has_it_again() {
    for (what, lose, left) in LOSSES {
        for is_killed in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let end = made(root.path(), false);
            let log: Vec<_> =
                (0..3).map(|at| std::fs::read(log_file(root.path(), at * LOG_FILE_SIZE)).unwrap()).collect();
            lose(root.path(), end);
            let is_refused = |when: &str| {
                let before = tree(root.path());
                let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
                let Err(Error::EndLost { offset, flushed_to, .. }) = refused else {
                    panic!("{what}, {when}: {refused:?}")
                };
                assert_eq!(flushed_to, end, "{what}, {when}");
                assert!(tree(root.path()) == before, "{what}, {when}: nothing is changed");
                assert_eq!(lost_end(root.path(), None), Some((offset, end)), "{what}, {when}");
            };
            let leave = |store: crate::stores::Opened| {
                if is_killed { crash(store) } else { store.close().unwrap() }
            };
            for again in ["once", "twice"] {
                let store = open_with(slave(root.path()));
                assert_eq!(numbers(&store), (0..left).collect::<Vec<_>>(), "{what}");
                assert_eq!(gaps(&store), [(store.log().max_offset(), end)], "{what}");
                leave(store);
                is_refused(again);
            }
            let store = open_with(slave(root.path()));
            send(&store, &log, end - 100);
            assert_eq!(gaps(&store), [(end - 100, end)], "{what}");
            store.flush_everything().unwrap();
            leave(store);
            is_refused("without the last record's end");
            let store = open_with(slave(root.path()));
            send(&store, &log, end);
            assert_eq!(store.gaps(), [], "{what}");
            store.flush_everything().unwrap();
            leave(store);
            let store = open(root.path());
            assert_eq!(numbers(&store), (0..COUNT).collect::<Vec<_>>(), "{what}");
            assert_eq!(store.gaps(), [], "{what}");
        }
    }
}

/// What came while the log was flushed is not on the disk.
#[test]
fn what_is_owed_is_paid_once_it_is_on_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let end = made(root.path(), false);
    let log: Vec<_> =
        (0..3).map(|at| std::fs::read(log_file(root.path(), at * LOG_FILE_SIZE)).unwrap()).collect();
    (1..3).for_each(|at| std::fs::remove_file(log_file(root.path(), at * LOG_FILE_SIZE)).unwrap());
    let late: Arc<Mutex<Option<Weak<Store>>>> = Arc::default();
    let (known, rest) = (Arc::clone(&late), log.clone());
    let hook: Hook = Box::new(move |call, path| {
        let is_of_log = path.parent().is_some_and(|folder| folder.ends_with("commitlog"));
        if matches!(call, Call::FlushMapped | Call::Sync)
            && is_of_log
            && let Some(store) = known.lock().unwrap().take().and_then(|store| store.upgrade())
        {
            send(&store, &rest, end);
        }
        Ok(())
    });
    let (store, _) = open_hooked(slave(root.path()), Mode::ReadWrite, hook);
    send(&store, &log, end - 100);
    *late.lock().unwrap() = Some(Arc::downgrade(&store));
    store.flush_everything().unwrap();
    assert_eq!(store.log().max_offset(), end, "it came meanwhile");
    assert_eq!(owed(root.path()), Some((end - 100, end)));
    store.flush_everything().unwrap();
    assert_eq!(owed(root.path()), None);
}

fn owed(root: &Path) -> Option<(u64, u64)> {
    let file = std::fs::read(root.join("mqstore/positions")).unwrap();
    LogMarks::read(&file[POSITIONS_FILE_SIZE..]).owed.map(|owed| (owed.from, owed.to))
}

#[test]
fn a_slave_that_is_to_do_without_owes_nothing() {
    for (what, lose, left) in LOSSES {
        let root = tempfile::tempdir().unwrap();
        let end = made(root.path(), false);
        lose(root.path(), end);
        crash(open_with(slave(root.path())));
        crash(open_with(cutting(root.path())));
        let store = open(root.path());
        assert_eq!(numbers(&store), (0..left).collect::<Vec<_>>(), "{what}");
        assert_eq!(store.gaps(), [], "{what}");
    }
}

/// RocketMQ leaves no more than times. What it has closed has no unit without its record; after a crash that may be.
#[test]
fn of_a_store_that_mqstore_never_wrote_units_tell_once_it_was_closed() {
    for (what, lose, left) in LOSSES {
        for is_killed in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let end = made(root.path(), is_killed);
            forget_own_files(root.path());
            lose(root.path(), end);
            let before = tree(root.path());
            match try_open(config(root.path()), Mode::ReadWrite) {
                Err(Error::EndLost { flushed_to, .. }) => {
                    assert!(left < COUNT - 1 && (!is_killed || left == 0), "{what}");
                    assert_eq!(flushed_to, end, "{what}");
                    assert!(tree(root.path()) == before, "nothing is changed");
                }
                Ok(store) => {
                    assert!(is_killed || left == COUNT - 1, "{what}");
                    assert_eq!(numbers(&store), (0..left).collect::<Vec<_>>(), "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

/// As where of a backup the log and what is known of it came back, and the queues stayed.
#[test]
fn an_older_log_with_its_positions_under_later_queues_has_lost_its_end() {
    for number in [COUNT - 2, COUNT - 30] {
        let (root, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open(root.path());
        fill(&store, 0..number);
        store.close().unwrap();
        let from = read(root.path()).max_phy_offset();
        copy(root.path(), backup.path(), &["commitlog", "mqstore"]);
        let store = open(root.path());
        fill(&store, number..COUNT);
        store.close().unwrap();
        let end = read(root.path()).max_phy_offset();
        copy(backup.path(), root.path(), &["commitlog", "mqstore"]);

        let before = tree(root.path());
        let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
        let Err(Error::EndLost { offset, flushed_to, .. }) = refused else { panic!("{number}: {refused:?}") };
        assert_eq!((offset, flushed_to), (from, end));
        assert!(tree(root.path()) == before, "nothing is changed");
        let reader = read(root.path());
        assert_eq!(numbers(&reader), (0..number).collect::<Vec<_>>());
        assert_eq!(gaps(&reader), [(from, end)]);
        assert_eq!(lost_end(root.path(), None), Some((from, end)));
        let part = Part { log_end: None, topics: None, openings: None };
        let part = Store::open_part(config(root.path()), fs(), Arc::new(SystemClock), &part).unwrap();
        assert_eq!(part.lost_end().map(|lost| (lost.from, lost.to)), Some((from, end)));

        crash(open_with(cutting(root.path())));
        let store = open(root.path());
        fill(&store, number..COUNT);
        assert_eq!(numbers(&store), (0..COUNT).collect::<Vec<_>>());
    }
}

/// Replaces folders of a store.
fn copy(from: &Path, to: &Path, folders: &[&str]) {
    for folder in folders {
        _ = std::fs::remove_dir_all(to.join(folder));
        copy_folder(&from.join(folder), &to.join(folder));
    }
}

/// A flipped bit, or garbage, which leads anywhere.
#[test]
fn a_unit_that_changed_makes_no_lost_end() {
    for (number, bytes) in
        [(59u64, [0, 0, 0, 0, 0, 0, 0x31, 0]), (59, [0, 0, 0, 0x70, 0, 0, 0, 0]), (59, [9; 8])]
    {
        let root = tempfile::tempdir().unwrap();
        made(root.path(), false);
        forget_own_files(root.path());
        let (file, at) = (number / UNITS_IN_FILE * UNITS_IN_FILE * 20, number % UNITS_IN_FILE * 20);
        let file = root.path().join(format!("consumequeue/t/0/{file:020}"));
        patch(&file, at, |unit| unit[..8].copy_from_slice(&bytes));
        assert_eq!(numbers(&open(root.path())).len(), COUNT, "unit {number}: {bytes:?}");
    }
}

/// As of a broker whose log lies elsewhere, which the options do not say.
#[test]
fn a_log_of_which_nothing_is_there_is_lost_where_queues_are() {
    for is_killed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let end = made(root.path(), is_killed);
        forget_own_files(root.path());
        LOSSES[2].1(root.path(), end);
        let before = tree(root.path());
        let refused = try_open(config(root.path()), Mode::ReadWrite).map(drop);
        let Err(Error::EndLost { offset: 0, flushed_to, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(flushed_to, end);
        assert!(tree(root.path()) == before, "nothing is changed");
        assert_eq!(lost_end(root.path(), None), Some((0, flushed_to)));
        crash(open_with(cutting(root.path())));
        let store = open(root.path());
        fill(&store, 0..3);
        assert_eq!(numbers(&store), (0..3).collect::<Vec<_>>());
    }
}

/// The blank that ends a file is on the disk too, and is no message.
#[test]
fn a_blank_at_the_logs_end_is_nothing_that_was_lost() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..23);
    store.close().unwrap();
    // Nor does what its writer published say more.
    std::fs::remove_file(root.path().join("mqstore/published")).unwrap();
    crate::parts::set_positions(root.path(), LOG_FILE_SIZE, 0, 0);
    std::fs::remove_file(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    assert_eq!(read(root.path()).gaps(), []);
    assert_eq!(numbers(&open(root.path())), (0..22).collect::<Vec<_>>());
}
