//! What another thread does between two steps of a call: the file system lets it, or refuses something, just there.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use mqstore_core::commit_log::Wait;
use mqstore_core::config::StoreConfig;
use mqstore_core::store::{Mode, PutStep, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{
    LOG_FILE_SIZE, bodies, config, copy_folder, fill, log_file, message, new_record, numbers, open, put,
};

/// How long a step waits for the other thread, which may have to wait for this one.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A place in a thread's work at which another one has its turn, once.
struct Turn {
    is_due: AtomicBool,
    begun: Sender<()>,
    ended: Mutex<Receiver<()>>,
}

impl Turn {
    /// The place, what tells that it was come to, and what ends the turn.
    fn new() -> (Arc<Self>, Receiver<()>, Sender<()>) {
        let ((begun, has_begun), (end, ended)) = (channel(), channel());
        (Arc::new(Self { is_due: AtomicBool::new(false), begun, ended: Mutex::new(ended) }), has_begun, end)
    }

    fn is_due_now(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }

    fn take(&self) {
        if self.is_due.swap(false, Ordering::SeqCst) {
            self.begun.send(()).unwrap();
            let _other_waits_for_this = self.ended.lock().unwrap().recv_timeout(LONGEST_WAIT);
        }
    }
}

fn is_in(path: &Path, folder: &str) -> bool {
    path.components().any(|part| part.as_os_str() == folder)
}

#[test]
fn the_log_goes_on_behind_a_roll_after_which_there_was_no_room() {
    let root = tempfile::tempdir().unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_full);
    let config = StoreConfig {
        mapped_file_size_commit_log: 4 << 20,
        max_message_size: 4 << 20,
        ..config(root.path())
    };
    // The disk has room for the first step of the next file, and for no more.
    let hook: Hook = Box::new(move |call, path| match call {
        Call::Allocate { offset, .. }
            if offset > 0 && is_in(path, "commitlog") && flag.load(Ordering::SeqCst) =>
        {
            Err(io::Error::from_raw_os_error(28))
        }
        _ => Ok(()),
    });
    let (store, _) = open_hooked(config, Mode::ReadWrite, hook);
    put(&store, "t", 0, b"first", "");
    put(&store, "t", 0, &vec![b's'; 1_400_000], "");
    is_full.store(true, Ordering::SeqCst);
    let large = vec![b'l'; 3_000_000];
    let both = [message("t", 0, b"second", ""), message("t", 0, &large, "")];
    let mut done = Vec::new();
    let step = store.put_many(&both[..], &mut done, Wait::Block);
    assert!(matches!(step, PutStep::Refused(_)), "{step:?}");
    assert_eq!(done.len(), 1);
    is_full.store(false, Ordering::SeqCst);
    let third = put(&store, "t", 0, b"third", "");
    assert_eq!(third.wrote_offset, 4 << 20);
    assert_eq!(bodies(&store, "t", 0)[2..], ["second", "third"]);
    assert_eq!((store.gaps(), store.rejected_count()), (Vec::new(), 0));
}

#[test]
fn a_flush_beside_dispatch_that_writes_units_claims_what_is_in_the_files() {
    let root = tempfile::tempdir().unwrap();
    let (turn, has_begun, end) = Turn::new();
    let known = Arc::clone(&turn);
    let hook: Hook = Box::new(move |call, path| {
        if matches!(call, Call::Write { .. }) && is_in(path, "consumequeue") {
            known.take();
        }
        Ok(())
    });
    let (store, clock) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    store.flush_everything().unwrap();
    for number in 0..60 {
        clock.set(1_000_000 + 10_000 * i64::try_from(number).unwrap());
        fill(&store, number..number + 1);
    }
    store.reput().unwrap();
    // As if as much was in memory as may be: the next unit has dispatch write all of them.
    let queue = store.find_consume_queue("t", 0).unwrap();
    store.queues().list(&queue, (64 << 20) / 20 - 59).unwrap();
    fill(&store, 60..61);
    turn.is_due_now();
    let dispatch = std::thread::spawn({
        let store = Arc::clone(&store);
        move || store.reput().unwrap()
    });
    has_begun.recv().unwrap();
    store.flush_everything().unwrap();
    // The process is killed.
    let copy = tempfile::tempdir().unwrap();
    copy_folder(root.path(), copy.path());
    end.send(()).unwrap_or_default();
    dispatch.join().unwrap();
    assert_eq!(numbers(&open(copy.path())), (0..61).collect::<Vec<_>>());
}

#[test]
fn a_queue_that_is_removed_beside_a_flush_fails_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (turn, has_begun, end) = Turn::new();
    let known = Arc::clone(&turn);
    let hook: Hook = Box::new(move |call, path| {
        if matches!(call, Call::Sync) && is_in(path, "consumequeue") {
            known.take();
        }
        Ok(())
    });
    let (store, _) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    put(&store, "gone", 0, b"x", "");
    put(&store, "stays", 0, b"x", "");
    store.reput().unwrap();
    turn.is_due_now();
    let flush = std::thread::spawn({
        let store = Arc::clone(&store);
        move || store.flush_everything()
    });
    has_begun.recv().unwrap();
    store.destroy_queue(&store.find_consume_queue("gone", 0).unwrap()).unwrap();
    end.send(()).unwrap_or_default();
    flush.join().unwrap().unwrap();
    put(&store, "stays", 0, b"y", "");
    store.reput().unwrap();
    store.flush_everything().unwrap();
    assert_eq!(store.checkpoint().positions().queues, store.max_phy_offset());
    store.close().unwrap();
    assert!(!root.path().join("abort").exists());
}

#[test]
fn what_a_get_dispatches_while_a_reader_follows_a_removal_is_in_the_new_queue() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    (0..3).for_each(|number| _ = put(&writer, "t", 0, format!("old {number}").as_bytes(), ""));
    writer.reput().unwrap();
    let (is_due, reader) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::<Weak<Store>>::new()));
    let (flag, known) = (Arc::clone(&is_due), Arc::clone(&reader));
    let hook: Hook = Box::new(move |call, path| {
        if matches!(call, Call::Open)
            && path.ends_with("removed_queues")
            && flag.swap(false, Ordering::SeqCst)
        {
            let store = known.get().unwrap().upgrade().unwrap();
            std::thread::spawn(move || store.get_message("t", 0, 3, 1, None).map(drop))
                .join()
                .unwrap()
                .unwrap();
        }
        Ok(())
    });
    let (store, _) = open_hooked(config(root.path()), Mode::Read, hook);
    reader.set(Arc::downgrade(&store)).unwrap();
    assert_eq!(bodies(&store, "t", 0).len(), 3);
    writer.destroy_queue(&writer.find_consume_queue("t", 0).unwrap()).unwrap();
    (0..2).for_each(|number| _ = put(&writer, "t", 0, format!("new {number}").as_bytes(), ""));
    writer.reput().unwrap();
    is_due.store(true, Ordering::SeqCst);
    store.refresh().unwrap();
    assert!(!is_due.load(Ordering::SeqCst), "the get came in between");
    assert_eq!(bodies(&store, "t", 0), ["new 0", "new 1"]);
}

/// Puts more than is reserved while a background pass has its turn in the midst of reserving: nothing of it is written over.
fn put_beside_a_background_pass(turn: &Turn, has_begun: &Receiver<()>, end: &Sender<()>, hook: Hook) {
    let root = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        mapped_file_size_commit_log: 16 << 20,
        max_message_size: 4 << 20,
        ..config(root.path())
    };
    let (store, _) = open_hooked(config, Mode::ReadWrite, hook);
    put(&store, "t", 0, &vec![b'f'; 600_000], "");
    turn.is_due_now();
    let allocator = std::thread::spawn({
        let store = Arc::clone(&store);
        move || store.log().reserve_pass(Duration::ZERO).unwrap()
    });
    has_begun.recv().unwrap();
    let body = "x".repeat(50_000);
    (0..30).for_each(|_| _ = put(&store, "t", 0, body.as_bytes(), ""));
    end.send(()).unwrap_or_default();
    allocator.join().unwrap();
    assert_eq!(bodies(&store, "t", 0)[1..], vec![body; 30]);
}

/// The disk may take half a second for the next file's name and size: what is put meanwhile has room all the same.
#[test]
fn space_is_reserved_ahead_while_the_next_file_waits_for_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let config = StoreConfig { mapped_file_size_commit_log: 4 << 20, ..config(root.path()) };
    let (turn, has_begun, end) = Turn::new();
    let (known, second) = (Arc::clone(&turn), log_file(root.path(), 4 << 20));
    let hook: Hook = Box::new(move |call, path| {
        if matches!(call, Call::Sync) && path == second {
            known.take();
        }
        Ok(())
    });
    let (store, _) = open_hooked(config, Mode::ReadWrite, hook);
    let (log, body) = (store.log(), vec![7; 600_000]);
    (0..2).for_each(|_| _ = put(&store, "t", 0, &body, ""));
    log.reserve_pass(Duration::ZERO).unwrap();
    turn.is_due_now();
    std::thread::scope(|scope| {
        scope.spawn(|| log.make_next_pass(Duration::ZERO).unwrap());
        has_begun.recv().unwrap();
        for _ in 2..6 {
            log.append(&new_record("t", 0, &body), Wait::Try { now_ms: 0 }).unwrap();
            log.reserve_pass(Duration::ZERO).unwrap();
        }
        assert_eq!(log.files().files().len(), 1);
        end.send(()).unwrap();
    });
    log.append(&new_record("t", 0, &body), Wait::Try { now_ms: 0 }).unwrap();
    assert_eq!(log.files().files().len(), 2, "the file that was made is there for who does not wait");
}

#[test]
fn room_that_is_reserved_by_writing_takes_nothing_away() {
    let (turn, has_begun, end) = Turn::new();
    let known = Arc::clone(&turn);
    let hook: Hook = Box::new(move |call, path| match call {
        Call::Allocate { .. } if is_in(path, "commitlog") => Err(io::ErrorKind::Unsupported.into()),
        Call::WriteBack => {
            known.take();
            Ok(())
        }
        _ => Ok(()),
    });
    put_beside_a_background_pass(&turn, &has_begun, &end, hook);
}

#[test]
fn zeros_that_are_written_ahead_take_nothing_away() {
    let (turn, has_begun, end) = Turn::new();
    let known = Arc::clone(&turn);
    let hook: Hook = Box::new(move |call, path| {
        if matches!(call, Call::Write { offset, .. } if offset > 1_100_000) && is_in(path, "commitlog") {
            known.take();
        }
        Ok(())
    });
    put_beside_a_background_pass(&turn, &has_begun, &end, hook);
}

#[test]
fn with_the_transient_store_pool_a_flush_brings_everything_to_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let config = StoreConfig { transient_store_pool_enable: true, ..config(root.path()) };
    let (store, clock) = open_hooked(config, Mode::ReadWrite, Box::new(|_, _| Ok(())));
    put(&store, "t", 0, b"first", "");
    store.log().commit(0).unwrap();
    clock.set(2_000_000);
    put(&store, "t", 0, b"second", "");
    // Of what is not in the file the checkpoint says nothing.
    let flushed = store.flush_commit_log(0).unwrap();
    assert!(flushed.flushed_offset < store.log().wrote_offset());
    assert_eq!(flushed.store_timestamp, 1_000_000);
    store.flush_everything().unwrap();
    assert_eq!(store.log().flushed_offset(), store.log().wrote_offset());
}

/// A store that a hook knows, once it is open.
#[derive(Default)]
struct Known(OnceLock<Weak<Store>>);

impl Known {
    fn store(&self) -> Option<Arc<Store>> {
        self.0.get()?.upgrade()
    }

    fn is(&self, store: &Arc<Store>) {
        self.0.set(Arc::downgrade(store)).unwrap();
    }
}

#[test]
fn an_index_file_that_fills_beside_a_flush_is_flushed_before_it_is_claimed() {
    let root = tempfile::tempdir().unwrap();
    let known = Arc::new(Known::default());
    let flushed = Arc::new(Mutex::new(Vec::new()));
    let (asked, list) = (Arc::clone(&known), Arc::clone(&flushed));
    let is_first = AtomicBool::new(true);
    let hook: Hook = Box::new(move |call, path| {
        if !matches!(call, Call::FlushMapped) || !is_in(path, "index") {
            return Ok(());
        }
        list.lock().unwrap().push(path.to_owned());
        if let Some(store) = asked.store().filter(|_| is_first.swap(false, Ordering::SeqCst)) {
            (0..20).for_each(|number| _ = put(&store, "t", 0, b"later", &format!("KEYS\u{1}l{number}\u{2}")));
            store.reput().unwrap();
        }
        Ok(())
    });
    let (store, _) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    known.is(&store);
    // One file that is full, and a part of the next.
    (0..30).for_each(|number| _ = put(&store, "t", 0, b"x", &format!("KEYS\u{1}k{number}\u{2}")));
    store.reput().unwrap();
    store.flush_everything().unwrap();
    let files = store.index().unwrap().files();
    assert_eq!(files.len(), 3);
    let claimed = i64::try_from(store.checkpoint().positions().index).unwrap();
    for file in files.iter().filter(|file| file.header().begin_phy_offset < claimed) {
        assert!(flushed.lock().unwrap().iter().any(|path| path == file.path()), "{}", file.path().display());
    }
}

#[test]
fn a_removal_that_fails_at_its_last_step_has_not_happened() {
    let root = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&fails);
    let hook: Hook = Box::new(move |call, path| match call {
        Call::SyncDir if path.ends_with("mqstore") && flag.swap(false, Ordering::SeqCst) => {
            Err(io::Error::from_raw_os_error(5))
        }
        _ => Ok(()),
    });
    let (store, _) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    (0..3).for_each(|number| _ = put(&store, "t", 0, format!("{number}").as_bytes(), ""));
    store.reput().unwrap();
    fails.store(true, Ordering::SeqCst);
    assert!(store.destroy_queue(&store.find_consume_queue("t", 0).unwrap()).is_err());
    assert!(!fails.load(Ordering::SeqCst));
    assert_eq!(put(&store, "t", 0, b"3", "").logics_offset, 3);
    // The process is killed before anything of the queue is on the disk.
    let copy = tempfile::tempdir().unwrap();
    copy_folder(root.path(), copy.path());
    assert_eq!(numbers_of(&bodies(&open(copy.path()), "t", 0)), [0, 1, 2, 3]);
}

fn numbers_of(bodies: &[String]) -> Vec<usize> {
    bodies.iter().map(|body| body.parse().unwrap()).collect()
}

/// Retention takes a file that a reader's refresh has listed, and not opened yet.
#[test]
fn a_refresh_goes_on_behind_files_that_go_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..5);
    let is_due = Arc::new(AtomicBool::new(false));
    let taken = Arc::clone(&is_due);
    let third = log_file(root.path(), 2 * LOG_FILE_SIZE);
    let before: Vec<_> = (0..3).map(|number| log_file(root.path(), number * LOG_FILE_SIZE)).collect();
    let hook = move |call, path: &Path| {
        if matches!(call, Call::Open) && path == third && taken.swap(false, Ordering::SeqCst) {
            before.iter().try_for_each(std::fs::remove_file)?;
        }
        Ok(())
    };
    let (reader, _) = open_hooked(config(root.path()), Mode::Read, Box::new(hook));
    fill(&writer, 5..80);
    is_due.store(true, Ordering::SeqCst);
    reader.refresh().unwrap();
    assert!(!is_due.load(Ordering::SeqCst));
    assert_eq!(reader.first_offset(), 3 * LOG_FILE_SIZE);
    let found = numbers(&reader);
    assert!(found.len() < 40 && found.last() == Some(&79), "{found:?}");
    assert_eq!((reader.gaps(), reader.rejected_count()), (Vec::new(), 0));
}

/// The writer removes a queue whose folder a reader that opens the store is about to list.
#[test]
fn a_store_is_opened_beside_queues_that_go_meanwhile() {
    for folder in ["consumequeue/gone", "consumequeue/gone/0"] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        put(&writer, "gone", 0, b"first", "");
        put(&writer, "t", 0, b"second", "");
        writer.flush_everything().unwrap();
        writer.reput().unwrap();
        writer.flush_everything().unwrap();
        let (removed, removing) = (AtomicBool::new(false), Arc::clone(&writer));
        let listed = root.path().join(folder);
        let hook = move |call, path: &Path| {
            if matches!(call, Call::List) && path == listed && !removed.swap(true, Ordering::SeqCst) {
                let queue = removing.find_consume_queue("gone", 0).unwrap();
                removing.destroy_queue(&queue).unwrap();
            }
            Ok(())
        };
        let (reader, _) = open_hooked(config(root.path()), Mode::Read, Box::new(hook));
        assert!(!root.path().join(folder).exists());
        assert_eq!(bodies(&reader, "gone", 0), Vec::<String>::new());
        assert_eq!(bodies(&reader, "t", 0), ["second"]);
    }
}

/// The last files of the log are gone, and with them the records of a queue's last units. Before those a file goes that a
/// reader has listed, and not looked into yet.
#[test]
fn a_queue_whose_file_goes_while_its_end_is_looked_for_is_dispatched_again() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    // Nine records fill a file of the log, ten units one of the queue.
    (0..15).for_each(|number| _ = put(&writer, "t", 0, format!("{number:0>320}").as_bytes(), ""));
    writer.close().unwrap();
    assert_eq!(std::fs::read_dir(root.path().join("commitlog")).unwrap().count(), 2);
    std::fs::remove_file(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    let first = root.path().join("consumequeue/t/0").join(format!("{:020}", 0));
    let gone = first.clone();
    let hook = move |call, path: &Path| {
        if matches!(call, Call::Open) && path == gone && path.exists() {
            std::fs::remove_file(path)?;
        }
        Ok(())
    };
    let (reader, _) = open_hooked(config(root.path()), Mode::Read, Box::new(hook));
    assert!(!first.exists());
    assert_eq!(numbers(&reader), (0..9).collect::<Vec<_>>());
}
