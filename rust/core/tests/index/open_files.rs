//! How many files of an index are open at once.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mqstore_core::clock::ManualClock;
use mqstore_core::fs::FileSystem;
use mqstore_core::index::{IndexService, KeyFinder, KeyQuery};
use mqstore_core::mmap::map_budget::MapBudget;
use mqstore_core::mmap::mapped_file::Access;

use crate::SHAPE;
use crate::hooked::{Call, HookedFileSystem};

const FILE_COUNT: u64 = 60;
/// Keys of one of its files.
const KEYS: u64 = 19;
const BUDGET: usize = 8;
/// Those of the budget and one that is just being opened.
const MOST_OPEN: usize = BUDGET + 1;

fn service(root: &Path, fs: Arc<dyn FileSystem>, access: Access) -> IndexService {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let index = IndexService::new(fs, clock, root.join("index"), SHAPE, access);
    index.within(MapBudget::new(BUDGET))
}

fn loaded(root: &Path, access: Access) -> IndexService {
    let index = service(root, crate::stores::fs(), access);
    assert!(index.load(false).unwrap().faults.is_empty());
    index
}

fn put(index: &IndexService, number: u64) {
    let hash = KeyFinder::new(index, b"t").hash(format!("k{number}").as_bytes());
    index.build_index([hash].into_iter(), number * 100, 1000).unwrap();
}

fn offsets(index: &IndexService, key: &str) -> Vec<u64> {
    let query = KeyQuery { topic: b"t", key: key.as_bytes(), max_num: usize::MAX, begin: 0, end: i64::MAX };
    index.query(&query, |_| Ok(Some(()))).unwrap().into_iter().map(|(offset, ())| offset).collect()
}

/// The names of files under a folder that this process has open, and of those that it has mapped.
fn open_names(root: &Path) -> (Vec<String>, Vec<String>) {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    // Other tests close theirs while these are looked at.
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fd.unwrap().path().read_link().ok());
    let mut open: Vec<_> = links.filter(|path| path.starts_with(root)).map(|path| name(&path)).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| Some(Path::new("/").join(line.split_once('/')?.1)));
    let mut mapped: Vec<_> = paths.filter(|path| path.starts_with(root)).map(|path| name(&path)).collect();
    open.sort();
    mapped.sort();
    (open, mapped)
}

fn assert_few_are_open(root: &Path) {
    let (open, mapped) = open_names(root);
    assert!(open.len() <= MOST_OPEN && mapped.len() <= MOST_OPEN, "{open:?} are open, {mapped:?} mapped");
}

fn names(index: &IndexService) -> Vec<String> {
    let files = index.files();
    files.iter().map(|file| file.path().file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn of_many_files_few_are_open_and_all_keys_found() {
    let root = tempfile::tempdir().unwrap();
    let all = 0..FILE_COUNT * KEYS;
    {
        let writer = loaded(root.path(), Access::MapWrite);
        for number in all.clone() {
            put(&writer, number);
            if number % KEYS == 0 {
                assert_few_are_open(root.path());
                assert_eq!(offsets(&writer, &format!("k{}", number / 2)), [number / 2 * 100]);
                assert_few_are_open(root.path());
            }
        }
        writer.flush().unwrap();
        writer.take_filled().iter().for_each(|file| file.flush().unwrap());
    }
    assert_eq!(open_names(root.path()), (Vec::new(), Vec::new()));
    for access in [Access::MapWrite, Access::MapRead, Access::Read] {
        let index = loaded(root.path(), access);
        assert_eq!(index.files().len() as u64, FILE_COUNT);
        assert_few_are_open(root.path());
        for number in all.clone() {
            assert_eq!(offsets(&index, &format!("k{number}")), [number * 100], "{access:?}");
        }
        assert_eq!(index.files().iter().filter(|file| file.entry(1).unwrap().is_some()).count(), 60);
        assert_few_are_open(root.path());
    }
}

/// The system forgets a write that failed once nobody has the file.
#[test]
fn what_is_not_on_the_disk_stays_open() {
    let root = tempfile::tempdir().unwrap();
    let (may_flush, flushes) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (asked, counted) = (Arc::clone(&may_flush), Arc::clone(&flushes));
    let fs = HookedFileSystem::new(Box::new(move |call, _| {
        let is_flush = matches!(call, Call::FlushMapped);
        counted.fetch_add(usize::from(is_flush), Ordering::Relaxed);
        if is_flush && !asked.load(Ordering::Relaxed) { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }));
    let index = service(root.path(), Arc::new(fs), Access::MapWrite);
    let (flushed, waiting) = (20, BUDGET / 4);
    (0..flushed * KEYS + 1).for_each(|number| put(&index, number));
    index.take_filled().iter().for_each(|file| file.flush().unwrap());
    // No flush takes place twice, whoever did it.
    assert_eq!(flushes.load(Ordering::Relaxed) as u64, flushed);
    let before = names(&index).len() - 1;
    (flushed * KEYS + 1..(flushed + waiting as u64) * KEYS + 1).for_each(|number| put(&index, number));
    assert_eq!(flushes.load(Ordering::Relaxed) as u64, flushed, "there is room for them to wait");
    // Look-ups in all files close what may be closed.
    (0..flushed * KEYS).for_each(|number| _ = offsets(&index, &format!("k{number}")));
    let unflushed = names(&index).split_off(before);
    assert_eq!(unflushed.len(), waiting + 1);
    let (open, mapped) = open_names(root.path());
    assert!(unflushed.iter().all(|name| open.contains(name) && mapped.contains(name)), "{unflushed:?}");
    assert_few_are_open(root.path());
    // One more, and the oldest is flushed before its time.
    may_flush.store(false, Ordering::Relaxed);
    let end = (flushed + waiting as u64 + 1) * KEYS + 1;
    ((flushed + waiting as u64) * KEYS + 1..end).for_each(|number| put(&index, number));
    assert_eq!(flushes.load(Ordering::Relaxed) as u64, flushed + 1);
    may_flush.store(true, Ordering::Relaxed);
    (0..flushed * KEYS).for_each(|number| _ = offsets(&index, &format!("k{number}")));
    assert!(open_names(root.path()).0.contains(&unflushed[0]), "who is to hear of it has not heard yet");
    let outcomes: Vec<bool> = index.take_filled().iter().map(|file| file.flush().is_ok()).collect();
    assert_eq!(outcomes, [false, true, true], "the flush that was to come tells of it");
}

/// Who removes a file has its messages no more; who has it open reads on.
#[test]
fn a_closed_file_that_is_removed_has_nothing() {
    let root = tempfile::tempdir().unwrap();
    let index = loaded(root.path(), Access::MapWrite);
    for number in 0..FILE_COUNT * KEYS {
        put(&index, number);
    }
    let readers = [Access::MapRead, Access::Read].map(|access| loaded(root.path(), access));
    let files = index.files();
    let finder = KeyFinder::new(&index, b"t");
    let read = files[0].read().unwrap().unwrap();
    assert_eq!(index.delete_expired_file(files[9].header().end_phy_offset.cast_unsigned() + 1).unwrap(), 10);
    assert_eq!(files[0].entry(1).unwrap(), None);
    assert_eq!(read.entry(1).unwrap().unwrap().phy_offset, 0);
    files.iter().for_each(|file| file.flush().unwrap());
    let is_found = |finder: &KeyFinder<'_>, number: u64| {
        let (key, mut found) = (format!("k{number}"), Vec::new());
        let query = KeyQuery { topic: b"t", key: key.as_bytes(), max_num: 9, begin: 0, end: i64::MAX };
        finder.find(None, &query, finder.hash(key.as_bytes()), &mut found, |_| Ok(Some(()))).unwrap();
        !found.is_empty()
    };
    assert_eq!([10 * KEYS - 1, 10 * KEYS].map(|number| is_found(&finder, number)), [false, true]);
    for reader in &readers {
        assert_eq!(offsets(reader, "k0"), [] as [u64; 0]);
        assert_eq!(offsets(reader, &format!("k{}", 10 * KEYS)), [1000 * KEYS]);
        assert_eq!(reader.files()[0].header().index_count, 20, "as it was");
    }
    // Nobody but its writer may take files of an index away.
    std::fs::remove_file(files[10].path()).unwrap();
    let query = KeyQuery { topic: b"t", key: b"none", max_num: 9, begin: 0, end: i64::MAX };
    assert!(index.query(&query, |_| Ok(Some(()))).is_err());
}

/// Those that the next writer may remove, since it can't trust them.
#[test]
fn a_reader_keeps_the_newest_files_open() {
    let root = tempfile::tempdir().unwrap();
    {
        let writer = loaded(root.path(), Access::MapWrite);
        (0..FILE_COUNT * KEYS).for_each(|number| put(&writer, number));
        writer.flush().unwrap();
    }
    for access in [Access::MapRead, Access::Read] {
        let reader = loaded(root.path(), access);
        reader.follow();
        (0..FILE_COUNT * KEYS).for_each(|number| _ = offsets(&reader, &format!("k{number}")));
        let newest = names(&reader).split_off(usize::try_from(FILE_COUNT).unwrap() - 2 * (BUDGET / 4) - 1);
        let (open, _) = open_names(root.path());
        assert!(newest.iter().all(|name| open.contains(name)), "{newest:?} of {open:?}");
        assert_few_are_open(root.path());
    }
}

/// The next writer has removed it, and makes its keys anew somewhere.
#[test]
fn a_reader_puts_again_what_a_removed_file_had_unless_it_is_expired() {
    let root = tempfile::tempdir().unwrap();
    {
        let writer = loaded(root.path(), Access::MapWrite);
        (0..FILE_COUNT * KEYS).for_each(|number| put(&writer, number));
        writer.flush().unwrap();
    }
    let end = FILE_COUNT * KEYS * 100;
    for access in [Access::MapRead, Access::Read] {
        let reader = loaded(root.path(), access);
        assert_eq!(reader.forget_behind(end, 0), end, "nothing is missing");
        let newest = reader.files()[59].path().to_owned();
        std::fs::rename(&newest, root.path().join("removed")).unwrap();
        assert_eq!(reader.forget_behind(end, 0), end, "it is open");
        std::fs::rename(root.path().join("removed"), newest).unwrap();
    }
    let readers = [Access::MapRead, Access::Read].map(|access| loaded(root.path(), access));
    let last_of = |number: u64| ((number + 1) * KEYS - 1) * 100;
    for number in [0, 40] {
        std::fs::remove_file(readers[0].files()[number].path()).unwrap();
    }
    for reader in readers {
        assert_eq!(reader.forget_behind(end, last_of(0) + 1), last_of(39));
        assert_eq!((reader.files().len(), reader.end_phy_offset()), (40, Some(last_of(39))));
        assert_eq!(reader.forget_behind(end, last_of(0)), 0);
        assert_eq!(reader.files().len(), 0);
    }
}
