//! Opening beside a writer that goes on between any two steps of that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mqstore_core::clock::ManualClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::format::message::decode_record;
use mqstore_core::fs::{
    DirEntry, FileHandle, FileSystem, LockOutcome, Metadata, OpenMode, OsFileSystem, Space,
};
use mqstore_core::index::KeyQuery;
use mqstore_core::mmap::region::Region;
use mqstore_core::selection::Selection;
use mqstore_core::store::{Mode, Store};

use crate::stores::{LOG_FILE_SIZE, bodies, config, crash, fill, log_file, numbers, open, put, try_open};

/// Files that a writer goes on with whenever a folder was listed, or one in it, or before a file of it is opened.
struct BusyFileSystem {
    watched: PathBuf,
    at_open: bool,
    /// A process that holds the lock as Java does, where it is not an mqstore writer.
    java: Option<i32>,
    go_on: Mutex<Box<dyn FnMut() + Send>>,
}

impl std::fmt::Debug for BusyFileSystem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BusyFileSystem").finish_non_exhaustive()
    }
}

impl FileSystem for BusyFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        if self.at_open && path.starts_with(&self.watched) {
            self.go_on.lock().unwrap()();
        }
        match self.java {
            Some(process) if path.ends_with("lock") => Ok(Arc::new(LockOfJava(process))),
            _ => OsFileSystem.open(path, mode),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let listed = OsFileSystem.read_dir(path);
        if !self.at_open && path.starts_with(&self.watched) {
            self.go_on.lock().unwrap()();
        }
        listed
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        OsFileSystem.metadata(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsFileSystem.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.sync_dir(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.sync_all(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        OsFileSystem.space(path)
    }
}

/// The file `lock` beside a Java writer: a reader asks who holds it, and nothing else.
#[derive(Debug)]
struct LockOfJava(i32);

#[rustfmt::skip] // what a reader never calls
impl FileHandle for LockOfJava {
    fn lock_holder(&self) -> io::Result<Option<LockOutcome>> { Ok(Some(LockOutcome::Held(Some(self.0)))) }
    fn metadata(&self) -> io::Result<Metadata> { unreachable!() }
    fn set_len(&self, _: u64) -> io::Result<()> { unreachable!() }
    fn allocate(&self, _: u64, _: u64) -> io::Result<()> { unreachable!() }
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> { unreachable!() }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> { unreachable!() }
    fn sync_data(&self) -> io::Result<()> { unreachable!() }
    fn next_data(&self, _: u64) -> io::Result<Option<u64>> { unreachable!() }
    fn next_hole(&self, _: u64) -> io::Result<u64> { unreachable!() }
    fn map(&self, _: usize, _: bool) -> io::Result<Region> { unreachable!() }
    fn flush_mapped(&self, _: &Region, _: usize, _: usize) -> io::Result<()> { unreachable!() }
    fn populate(&self, _: &Region, _: usize, _: usize) -> io::Result<()> { unreachable!() }
    fn try_lock(&self) -> io::Result<LockOutcome> { unreachable!() }
    fn unlock(&self) -> io::Result<()> { unreachable!() }
}

/// What a reader finds that is opened while a writer puts message after message, each into one more queue, and
/// writes all of them to the files: what is there in each queue, and what has to be.
fn read_beside(java: Option<i32>, is_quiet_at: usize) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    let mut count = 0;
    let mut step = move |writer: &Store| {
        for queue_id in 0..=count {
            // More than a queue's file holds in the end.
            (0..4).for_each(|_| {
                put(writer, "t", queue_id, format!("{count}").as_bytes(), "");
            });
        }
        writer.reput().unwrap();
        writer.flush_everything().unwrap();
        count += 1;
    };
    step(&writer);
    let shared = Arc::clone(&writer.store);
    let mut steps = 0;
    let fs = BusyFileSystem {
        watched: root.path().join("consumequeue"),
        at_open: false,
        java,
        go_on: Mutex::new(Box::new(move || {
            steps += 1;
            if steps <= is_quiet_at {
                step(&shared);
            }
        })),
    };
    let clock = Arc::new(ManualClock::at(1_000_000));
    // Once it goes by the files it lists them, beside which the writer goes on.
    let config = StoreConfig { adopt_above: usize::MAX, ..config(root.path()) };
    let reader = Store::open(config, Arc::new(fs), clock, Mode::Read).unwrap();
    reader.refresh().unwrap();
    let all = |store: &Store| (0..=20).map(|queue_id| bodies(store, "t", queue_id)).collect();
    (all(&reader), all(&writer))
}

#[test]
fn what_is_dispatched_while_files_are_listed_is_found() {
    for java in [None, Some(1)] {
        for is_quiet_at in 0..8 {
            let (found, there) = read_beside(java, is_quiet_at);
            assert_eq!(found, there, "{java:?}, {is_quiet_at}");
        }
    }
}

#[test]
fn what_is_removed_once_it_is_listed_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..200);
    let (shared, is_asked) = (Arc::clone(&writer.store), Arc::new(AtomicBool::new(true)));
    let fs = BusyFileSystem {
        watched: root.path().join("commitlog"),
        at_open: true,
        java: None,
        go_on: Mutex::new(Box::new({
            let is_asked = Arc::clone(&is_asked);
            move || {
                if is_asked.swap(false, Ordering::Relaxed) {
                    fill(&shared, 0..200);
                    let files = shared.log().files().files();
                    shared.log().files().delete(&files[..files.len() - 2]).unwrap();
                }
            }
        })),
    };
    let clock = Arc::new(ManualClock::at(1_000_000));
    let reader = Store::open(config(root.path()), Arc::new(fs), clock, Mode::Read).unwrap();
    for _ in 0..3 {
        assert!(!is_asked.load(Ordering::Relaxed), "a file was opened");
        reader.refresh().unwrap();
        assert_eq!(numbers(&reader), numbers(&writer));
        assert_eq!((reader.rejected_count(), reader.gaps()), (0, Vec::new()));
        fill(&writer, 0..200);
        is_asked.store(true, Ordering::Relaxed);
        reader.refresh().unwrap();
    }
}

/// A writer that recovers the store removes what another one has made ahead and not written.
#[test]
fn a_file_that_goes_from_the_end_while_a_reader_looks_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..1);
    let next = log_file(root.path(), LOG_FILE_SIZE);
    let fs = BusyFileSystem {
        watched: next.clone(),
        at_open: true,
        java: None,
        go_on: Mutex::new(Box::new(move || std::fs::remove_file(&next).unwrap_or_default())),
    };
    let clock = Arc::new(ManualClock::at(1_000_000));
    let reader = Store::open(config(root.path()), Arc::new(fs), clock, Mode::Read).unwrap();
    fill(&writer, 1..40);
    crash(writer);
    reader.refresh().unwrap();
    let found = numbers(&reader);
    assert!((15..40).contains(&found.len()), "all of the first file: {found:?}");
    assert!(found.iter().copied().eq(0..found.len()) && reader.gaps().is_empty());
}

/// A reader that goes over the log beside retention, without having looked at the store again since.
#[test]
fn a_walk_over_the_log_goes_on_behind_files_that_the_writer_removes_meanwhile() {
    for pread in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        fill(&writer, 0..100);
        let reader = try_open(StoreConfig { pread, ..config(root.path()) }, Mode::Read).unwrap();
        let selections = [
            Selection::default(),
            Selection { begin_timestamp: Some(1), ..Selection::default() },
            Selection { from_phy_offset: Some(0), ..Selection::default() },
        ];
        let mut cursors: Vec<_> =
            selections.iter().map(|selection| selection.cursor(Arc::clone(&reader.store)).unwrap()).collect();
        let files = writer.log().files().files();
        files[..2].iter().for_each(|file| writer.log().files().delete_first(file).unwrap());
        let there: Vec<usize> = (0..100)
            .filter(|number| writer.query_message(&key(&format!("k{number}"))).unwrap().len() == 1)
            .collect();
        assert!(there.len() > 10 && there[0] > 10, "{there:?}");
        cursors
            .extend(selections.iter().map(|selection| selection.cursor(Arc::clone(&reader.store)).unwrap()));
        for cursor in &mut cursors {
            let mut found = Vec::new();
            loop {
                let messages = cursor.next_messages(7, 4000).unwrap();
                if messages.is_empty() {
                    break;
                }
                let number = |record: &[u8]| {
                    String::from_utf8_lossy(decode_record(record).unwrap().body).parse::<usize>().unwrap()
                };
                found.extend(messages.iter().map(|message| number(message.bytes())));
            }
            assert!(found.ends_with(&there), "{found:?}");
            assert!(cursor.bad_ranges().take().iter().all(|bad| bad.is_gone));
        }
    }
}

fn key(key: &str) -> KeyQuery<'_> {
    KeyQuery { topic: b"t", key: key.as_bytes(), max_num: 9, begin: i64::MIN, end: i64::MAX }
}
