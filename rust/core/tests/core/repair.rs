//! A repair that is broken off at each place where it asks: nothing is lost.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use mqstore_core::clock::ManualClock;
use mqstore_core::error::Error;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::interrupt;
use mqstore_core::log_view::LogView;
use mqstore_core::repair::{copy_log, fill_in_place, holes, save_holes};
use mqstore_core::store::{Mode, Store};

use crate::hooked::{Call, HookedFileSystem};
use crate::stores::{
    LOG_FILE_SIZE, config, fields, fill, log_file, numbers, open, patch, put, read, record_bytes, tree,
    try_open,
};

/// Where a record's body begins.
const BODY_AT: usize = 88;

/// A closed store of four log files with a hole in each of the first three, and a torn end.
fn damaged() -> BTreeMap<PathBuf, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = open(root);
    fill(&store, 0..70);
    let end = store.max_phy_offset();
    assert!(end > 3 * LOG_FILE_SIZE);
    store.close().unwrap();
    for file in 0..3 {
        patch(&log_file(root, file * LOG_FILE_SIZE), 300, |at| at[0] ^= 1);
    }
    patch(&log_file(root, 3 * LOG_FILE_SIZE), end - 3 * LOG_FILE_SIZE - 50, |at| at[..10].fill(b'!'));
    let files = tree(root).into_iter().filter_map(|(path, content)| Some((path, content?)));
    files.map(|(path, content)| (path.strip_prefix(root).unwrap().into(), content)).collect()
}

fn copy_of(files: &BTreeMap<PathBuf, Vec<u8>>) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

fn log(root: &Path) -> Vec<Vec<u8>> {
    (0..4).map(|file| std::fs::read(log_file(root, file * LOG_FILE_SIZE)).unwrap()).collect()
}

fn view(root: &Path) -> Result<LogView, Error> {
    LogView::open(config(root), Arc::new(OsFileSystem), Arc::new(ManualClock::at(1_000_000)), None)
}

/// Runs something that is told to break off when it asks for the nth time; whether it did.
fn broken_off(at: usize, run: impl FnOnce() -> Result<(), Error>) -> bool {
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    let is_asked = move || {
        count.set(count.get() + 1);
        count.get() == at
    };
    let outcome = interrupt::until(is_asked, run);
    assert!(matches!(outcome, Ok(()) | Err(Error::Interrupted)), "{outcome:?}");
    assert_eq!(outcome.is_err(), asked.get() >= at);
    outcome.is_err()
}

/// What a repair in place kept of the log in its folders, put back over the log.
fn put_back(root: &Path, saved: &[PathBuf]) -> Vec<Vec<u8>> {
    let mut files = log(root);
    // The folder that was made first has what was there first.
    for folder in saved.iter().rev().filter(|folder| folder.exists()) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let at: u64 = entry.file_name().to_str().unwrap().parse().unwrap();
            let position = usize::try_from(at % LOG_FILE_SIZE).unwrap();
            let content = std::fs::read(entry.path()).unwrap();
            let file = &mut files[usize::try_from(at / LOG_FILE_SIZE).unwrap()];
            file[position..position + content.len()].copy_from_slice(&content);
        }
    }
    files
}

#[test]
fn a_repair_in_place_that_is_broken_off_has_saved_what_it_changed() {
    let files = damaged();
    for at in 1.. {
        let root = copy_of(&files);
        let before = log(root.path());
        let saved = [root.path().join("mqstore/first"), root.path().join("mqstore/second")];
        let repaired = |to: &Path| {
            let (fs, clock) = (Arc::new(OsFileSystem), Arc::new(ManualClock::at(1_000_000)));
            let view = LogView::open_locked(config(root.path()), fs, clock)?;
            let holes = holes(&view)?;
            save_holes(&view, &holes, &OsFileSystem, to)?;
            fill_in_place(&view, &holes, &OsFileSystem)
        };
        let is_broken_off = broken_off(at, || repaired(&saved[0]));
        assert_eq!(put_back(root.path(), &saved), before, "asked for the {at}th time");
        repaired(&saved[1]).unwrap();
        assert_eq!(put_back(root.path(), &saved), before, "asked for the {at}th time");
        let reader = read(root.path());
        assert_eq!(reader.gaps(), [], "asked for the {at}th time");
        assert_eq!(numbers(&reader).len(), 70 - 4, "asked for the {at}th time");
        if !is_broken_off {
            assert!(at > 20, "it asks at each hole");
            return;
        }
    }
}

#[test]
fn nothing_is_filled_without_the_stores_lock() {
    let root = copy_of(&damaged());
    let before = tree(root.path());
    let view = view(root.path()).unwrap();
    let holes = holes(&view).unwrap();
    let outcome = fill_in_place(&view, &holes, &OsFileSystem);
    assert!(matches!(outcome, Err(Error::ReadOnly { .. })), "{outcome:?}");
    assert_eq!(tree(root.path()), before);
}

/// A power cut takes names that no sync of their folder brought to the disk.
#[test]
fn what_is_saved_is_on_the_disk_before_the_log_is_changed() {
    let root = copy_of(&damaged());
    let saved = root.path().join("mqstore/saved");
    let synced = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (synced, log) = (Arc::clone(&synced), root.path().join("commitlog"));
        let expected = [saved.clone(), root.path().join("mqstore")];
        move |call: Call, path: &Path| {
            match call {
                Call::SyncDir => synced.lock().unwrap().push(path.to_owned()),
                Call::Write { .. } if path.starts_with(&log) => {
                    let synced = synced.lock().unwrap();
                    assert!(expected.iter().all(|folder| synced.contains(folder)), "{synced:?}");
                }
                _ => {}
            }
            Ok(())
        }
    };
    let fs = HookedFileSystem::new(Box::new(hook));
    let clock = Arc::new(ManualClock::at(1_000_000));
    let view = LogView::open_locked(config(root.path()), Arc::new(OsFileSystem), clock).unwrap();
    let holes = holes(&view).unwrap();
    save_holes(&view, &holes, &fs, &saved).unwrap();
    fill_in_place(&view, &holes, &fs).unwrap();
    assert!(!synced.lock().unwrap().is_empty());
}

/// Whoever looks for the end again may put it elsewhere, or come by when more was put.
#[test]
fn what_stands_behind_the_logs_end_is_saved_and_goes() {
    let root = copy_of(&damaged());
    let later = log_file(root.path(), 4 * LOG_FILE_SIZE);
    std::fs::write(&later, vec![7; usize::try_from(LOG_FILE_SIZE).unwrap()]).unwrap();
    let before = log(root.path());
    let saved = root.path().join("mqstore/saved");
    let clock = Arc::new(ManualClock::at(1_000_000));
    let view = LogView::open_locked(config(root.path()), Arc::new(OsFileSystem), clock).unwrap();
    let end = view.end();
    assert!((3 * LOG_FILE_SIZE..4 * LOG_FILE_SIZE).contains(&end));
    let holes = holes(&view).unwrap();
    save_holes(&view, &holes, &OsFileSystem, &saved).unwrap();
    assert_eq!(log(root.path()), before);
    assert!(later.exists());
    fill_in_place(&view, &holes, &OsFileSystem).unwrap();
    let position = usize::try_from(end - 3 * LOG_FILE_SIZE).unwrap();
    assert!(log(root.path())[3][position..].iter().all(|&byte| byte == 0));
    assert_eq!(log(root.path())[3][..position], before[3][..position]);
    assert!(!later.exists());
    let kept = |at: u64| std::fs::read(saved.join(format!("{at:020}"))).unwrap();
    assert_eq!(kept(end), before[3][position..]);
    assert_eq!(kept(4 * LOG_FILE_SIZE), vec![7; usize::try_from(LOG_FILE_SIZE).unwrap()]);
}

#[test]
fn a_store_that_is_opened_under_a_views_lock_lets_nobody_in_when_it_is_closed() {
    let root = copy_of(&damaged());
    let clock = Arc::new(ManualClock::at(1_000_000));
    let view = LogView::open_locked(config(root.path()), Arc::new(OsFileSystem), clock.clone()).unwrap();
    let lock = view.held_lock().unwrap();
    let refused = || matches!(try_open(config(root.path()), Mode::ReadWrite), Err(Error::Locked { .. }));
    let under = |lock| Store::open_under(config(root.path()), Arc::new(OsFileSystem), clock.clone(), lock);
    // One that fails leaves it locked too.
    assert!(matches!(under(Arc::clone(&lock)), Err(Error::Damaged { .. })));
    assert!(refused());
    let holes = holes(&view).unwrap();
    save_holes(&view, &holes, &OsFileSystem, &root.path().join("mqstore/saved")).unwrap();
    fill_in_place(&view, &holes, &OsFileSystem).unwrap();
    let store = under(lock).unwrap();
    assert!(refused());
    store.close().unwrap();
    assert!(refused());
    view.unlock();
    assert!(view.held_lock().is_none());
    open(root.path());
}

#[test]
fn a_copy_that_is_broken_off_leaves_the_log_as_it_was() {
    let files = damaged();
    for at in 1.. {
        let root = copy_of(&files);
        let before = tree(root.path());
        let copied = tempfile::tempdir().unwrap();
        let folder = copied.path().join("commitlog");
        let is_broken_off = broken_off(at, || {
            let view = view(root.path())?;
            copy_log(&view, &holes(&view)?, &OsFileSystem, &folder).map(drop)
        });
        assert_eq!(tree(root.path()), before, "asked for the {at}th time");
        if !is_broken_off {
            assert!(at > 12, "it asks at each file");
            let reader = read(copied.path());
            assert_eq!((reader.gaps(), numbers(&reader).len()), (vec![], 70 - 4));
            return;
        }
    }
}

/// A log file can be a gigabyte.
#[test]
fn a_missing_file_is_filled_with_next_to_nothing() {
    let root = copy_of(&damaged());
    std::fs::remove_file(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    let view = view(root.path()).unwrap();
    let holes = holes(&view).unwrap();
    let whole = holes.iter().find(|hole| hole.size() == LOG_FILE_SIZE).unwrap();
    let filling: Vec<_> = whole.filling(LOG_FILE_SIZE).collect();
    assert_eq!(filling.len(), 2, "a record and a blank");
    assert!(filling.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 200);
    let copied = tempfile::tempdir().unwrap();
    copy_log(&view, &holes, &OsFileSystem, &copied.path().join("commitlog")).unwrap();
    assert_eq!(read(copied.path()).gaps(), []);
}

/// Where a look finds holes in a log with a message whose body holds a record behind `gap` bytes and whose head is damaged;
/// and where that message, the record and the next message begin.
fn holes_around_forged(gap: usize) -> (Vec<(u64, u64)>, [u64; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let store = open(root);
    let from = put(&store, "t", 0, b"before", "").end_offset();
    let inner = from + u64::try_from(BODY_AT + gap).unwrap();
    let forged = record_bytes(&fields("forged", 0, &[b'f'; 300], ""), 0, inner);
    let to = put(&store, "t", 0, &[vec![b'.'; gap], forged].concat(), "").end_offset();
    put(&store, "t", 0, b"behind", "");
    store.close().unwrap();
    patch(&log_file(root, 0), from, |at| at[..BODY_AT].fill(0xee));
    let found = holes(&view(root).unwrap()).unwrap();
    (found.iter().map(|hole| (hole.from, hole.to)).collect(), [from, inner, to])
}

/// Behind the record is what its message says of topic and properties: a few bytes, in front of it a head without the rest.
#[test]
fn what_is_too_small_to_be_filled_takes_the_record_without_a_unit() {
    let (found, [from, _, to]) = holes_around_forged(0);
    assert_eq!(found, [(from, to)], "behind it");
    let (found, [from, inner, to]) = holes_around_forged(200);
    assert_eq!(found, [(from, inner), (inner, to)], "before it");
}
