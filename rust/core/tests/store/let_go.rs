//! A closed store whose object is kept holds no file, and reads that are under way then never miss what is there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use mqstore_core::config::StoreConfig;
use mqstore_core::error::{Error, Result};
use mqstore_core::index::KeyQuery;
use mqstore_core::interrupt;
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::{Mode, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{
    Opened, config, fill, message, numbers, open, open_with, put, read, tree, try_open, try_put,
};

/// Messages of the stores that are read while they are closed.
const COUNT: usize = 60;

/// What this process has open or mapped below a folder.
fn held_below(root: &Path) -> Vec<String> {
    let root = root.to_str().unwrap();
    let opened = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        // One that another test has closed meanwhile.
        let path = std::fs::read_link(entry.unwrap().path()).ok()?;
        Some(format!("open {}", path.to_str()?))
    });
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = mapped.lines().map(|line| format!("mapped {line}"));
    let is_below = |held: &String| held.contains(root);
    opened.chain(mapped).filter(is_below).collect()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

fn of_key(key: &str) -> KeyQuery<'_> {
    KeyQuery { topic: b"t", key: key.as_bytes(), max_num: 100, begin: 0, end: i64::MAX }
}

/// A store that has used all of its files: several of the log and of a queue, its extension, full and begun index files.
fn used(config: StoreConfig) -> Opened {
    let store = open_with(config);
    fill(&store, 0..COUNT);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    fill(&store, COUNT..COUNT + 5);
    store.log().commit(0).unwrap();
    store.reput().unwrap();
    assert_eq!(numbers(&store).len(), COUNT + 5);
    store
}

fn with_ext(root: &Path) -> StoreConfig {
    StoreConfig { enable_consume_queue_ext: true, mapped_file_size_consume_queue_ext: 400, ..config(root) }
}

/// Reads in each way, closes, and looks at what was read and at what is held.
fn check_lets_go(root: &Path, store: &Store, close: impl FnOnce()) {
    let got = store.get_message("t", 0, 3, 5, None).unwrap();
    let by_key = store.query_message(&of_key("k7")).unwrap();
    let data = store.get_commit_log_data(0).unwrap();
    let copied = (got.messages.get(0).unwrap().bytes().to_vec(), by_key[0].to_vec(), data.to_vec());
    assert_ne!(held_below(root), nothing());
    close();
    assert_eq!(got.messages.get(0).unwrap().bytes(), copied.0);
    assert_eq!((&*by_key[0], &*data), (&*copied.1, &*copied.2));
    drop((got, by_key, data));
    assert_eq!(held_below(root), nothing());
    assert!(matches!(store.get_message("t", 0, 3, 5, None), Err(Error::Closed)));
    assert_eq!(held_below(root), nothing());
}

#[test]
fn a_closed_writer_holds_no_file() {
    for (transient, warm) in [(false, false), (true, false), (false, true)] {
        let root = tempfile::tempdir().unwrap();
        let store = used(StoreConfig {
            transient_store_pool_enable: transient,
            transient_store_pool_size: 3,
            warm_mapped_file_enable: warm,
            ..with_ext(root.path())
        });
        check_lets_go(root.path(), &store, || store.close().unwrap());
        assert_eq!(numbers(&open_with(with_ext(root.path()))).len(), COUNT + 5);
    }
}

#[test]
fn a_closed_reader_holds_no_file() {
    for pread in [false, true] {
        let root = tempfile::tempdir().unwrap();
        used(with_ext(root.path())).close().unwrap();
        let reader = try_open(StoreConfig { pread, ..with_ext(root.path()) }, Mode::Read).unwrap();
        assert_eq!(numbers(&reader).len(), COUNT + 5);
        check_lets_go(root.path(), &reader, || reader.close().unwrap());
    }
}

#[test]
fn a_destroyed_store_holds_no_file_and_no_room() {
    let root = tempfile::tempdir().unwrap();
    let store = used(with_ext(root.path()));
    check_lets_go(root.path(), &store, || store.destroy().unwrap());
}

#[test]
fn a_store_whose_close_fails_holds_no_file() {
    let root = tempfile::tempdir().unwrap();
    let store = used(with_ext(root.path()));
    std::fs::remove_file(root.path().join("abort")).unwrap();
    check_lets_go(root.path(), &store, || _ = store.close().unwrap_err());
}

/// The system has refused to write what was put to memory first: that counts as committed at no later time.
#[test]
fn nothing_is_committed_behind_a_close() {
    let root = tempfile::tempdir().unwrap();
    let of_log = |path: &Path| path.to_str().unwrap().contains("/commitlog/");
    let refuses: Hook = Box::new(move |call, path| match call {
        Call::Write { .. } if of_log(path) => Err(io::Error::other("refused")),
        _ => Ok(()),
    });
    let config = StoreConfig {
        transient_store_pool_enable: true,
        transient_store_pool_size: 3,
        ..config(root.path())
    };
    let (store, _) = open_hooked(config, Mode::ReadWrite, refuses);
    fill(&store, 0..5);
    store.close().unwrap_err();
    assert_eq!(held_below(root.path()), nothing());
    assert!(!store.log().commit(0).unwrap());
    assert_eq!(store.log().committed_offset(), 0);
}

#[test]
fn who_waits_for_the_disk_is_served_by_a_close() {
    for transient in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let store = open_with(StoreConfig {
            transient_store_pool_enable: transient,
            transient_store_pool_size: 3,
            ..config(root.path())
        });
        // From here on nobody who waits flushes.
        store.log().group_commit_pass(Duration::ZERO, true).unwrap();
        let end = put(&store, "t", 0, b"waits", "").end_offset();
        store.log().request_group_flush(end);
        let begun = Barrier::new(2);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                begun.wait();
                store.log().wait_flushed(end, Duration::from_secs(3600)).unwrap()
            });
            begun.wait();
            store.close().unwrap();
            assert!(waiter.join().unwrap().is_flushed);
        });
        assert_eq!(held_below(root.path()), nothing());
    }
}

#[test]
fn nothing_is_dispatched_behind_a_close() {
    let root = tempfile::tempdir().unwrap();
    let store = used(with_ext(root.path()));
    let index_files = || std::fs::read_dir(root.path().join("index")).unwrap().count();
    let before = index_files();
    store.close().unwrap();
    store.dispatcher().set_reput_from_offset(0);
    assert!(matches!(store.reput(), Err(Error::Closed)));
    assert_eq!((index_files(), held_below(root.path())), (before, nothing()));
}

fn of_queues(keys: Option<Vec<String>>) -> Selection {
    let range = QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
    Selection { queues: Some(vec![range]), keys, ..Selection::default() }
}

fn all_keys() -> Vec<String> {
    (0..COUNT).map(|number| format!("k{number}")).collect()
}

fn selected(store: &Arc<Store>, selection: &Selection) -> Result<usize> {
    let mut cursor = selection.cursor(Arc::clone(store))?;
    let mut count = 0;
    loop {
        match cursor.next_messages(7, u64::MAX)?.len() {
            0 => return Ok(count),
            more => count += more,
        }
    }
}

type Look = fn(&Arc<Store>) -> Result<usize>;

/// How many messages each way to look finds, of [`COUNT`].
const LOOKS: [(&str, Look, usize); 12] = [
    ("get", |store| Ok(store.get_message("t", 0, 0, COUNT, None)?.messages.len().min(5)), 5),
    ("last", |store| Ok(store.get_message("t", 0, 55, COUNT, None)?.messages.len()), 5),
    ("key", |store| Ok(store.query_message(&of_key("k7"))?.len()), 1),
    (
        "keys",
        |store| {
            let found = store.query_messages(&of_key(""), &all_keys())?;
            Ok((0..COUNT).map(|at| found.get(at).unwrap().len()).sum())
        },
        COUNT,
    ),
    ("record", |store| Ok(store.record_at(0)?.iter().count()), 1),
    ("units", |store| selected(store, &of_queues(None)), COUNT),
    ("log", |store| selected(store, &Selection::default()), COUNT),
    ("selected keys", |store| selected(store, &of_queues(Some(all_keys()))), COUNT),
    ("count", |store| Ok(usize::try_from(of_queues(None).count(Arc::clone(store))?).unwrap()), COUNT),
    ("warm up", |store| store.warm_up_queue("t", 0).map(|()| 0), 0),
    ("extension", |store| store.ext_units("t", 0, 0, COUNT).map(|_| 0), 0),
    ("needed", |store| Ok(store.first_needed(&[("t".to_owned(), 0, 0)])?.iter().count()), 1),
];

/// Looks until the store is closed; `None` where each look found what is there or said that it is closed.
fn looked_until_closed(store: &Arc<Store>, look: Look, count: usize, begun: &Barrier) -> Option<String> {
    begun.wait();
    loop {
        match look(store) {
            Ok(found) if found == count => {}
            Err(Error::Closed) => return None,
            other => return Some(format!("{other:?}")),
        }
    }
}

fn check_reads_beside(open: impl Fn(&Path) -> Opened, close: impl Fn(&Store)) {
    for _ in 0..30 {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let begun = Barrier::new(LOOKS.len() + 1);
        thread::scope(|scope| {
            let readers = LOOKS.map(|(name, look, count)| {
                let (store, begun) = (&store.store, &begun);
                (name, scope.spawn(move || looked_until_closed(store, look, count, begun)))
            });
            begun.wait();
            close(&store);
            for (name, reader) in readers {
                assert_eq!(reader.join().unwrap(), None, "{name}");
            }
        });
        assert_eq!(held_below(root.path()), nothing());
    }
}

fn filled(root: &Path) -> Opened {
    let store = open(root);
    fill(&store, 0..COUNT);
    store
}

#[test]
fn reads_beside_a_writers_close_find_what_is_there() {
    check_reads_beside(filled, |store| store.close().unwrap());
}

#[test]
fn reads_beside_a_readers_close_find_what_is_there() {
    let filled_and_read = |root: &Path| {
        filled(root).close().unwrap();
        read(root)
    };
    check_reads_beside(filled_and_read, |store| store.close().unwrap());
}

#[test]
fn reads_beside_a_removal_of_everything_find_what_is_there() {
    check_reads_beside(filled, |store| store.destroy().unwrap());
}

/// What is dispatched and flushed beside it would make files again that are removed, and folders that are to be empty.
#[test]
fn nothing_is_left_where_all_is_removed_beside_passes() {
    for _ in 0..100 {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path());
        let begun = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                begun.wait();
                for queue_id in 0.. {
                    let is_put = try_put(&store, &message("t", queue_id, b"", "")).is_ok();
                    if !is_put || store.reput().and_then(|_| store.flush_consume_queues(0)).is_err() {
                        break;
                    }
                }
            });
            begun.wait();
            store.destroy().unwrap();
        });
        let folders = ["commitlog", "consumequeue", "index"].map(|name| root.path().join(name));
        let is_left =
            |path: &PathBuf| folders.iter().any(|folder| path != folder && path.starts_with(folder));
        let left: Vec<_> = tree(root.path()).into_keys().filter(is_left).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

/// Runs a look that closes its store where it first asks whether it is to be broken off.
fn closing(store: &Arc<Store>, close: fn(&Store), look: Look) -> Result<usize> {
    let closes = Arc::clone(store);
    let is_asked = move || {
        if !closes.is_closed() {
            close(&closes);
        }
        false
    };
    interrupt::until(is_asked, || look(store))
}

#[test]
fn a_look_that_was_under_way_says_that_the_store_is_closed() {
    for close in [|store: &Store| store.close().unwrap(), |store: &Store| store.destroy().unwrap()] {
        let looks: [Look; 4] = [
            |store| Ok(of_queues(None).cursor(Arc::clone(store))?.next_messages(1, u64::MAX)?.len()),
            |store| Ok(Selection::default().cursor(Arc::clone(store))?.next_messages(1, u64::MAX)?.len()),
            |store| Ok(of_queues(Some(all_keys())).cursor(Arc::clone(store))?.next_messages(1, 1)?.len()),
            |store| {
                let of_topics = ["t", "u"].map(|topic| QueueRange {
                    topic: topic.into(),
                    queue_id: None,
                    from: None,
                    to: None,
                });
                let keys = Some(vec!["k".into()]);
                let selection = Selection { queues: Some(of_topics.into()), keys, ..Selection::default() };
                Ok(selection.places_of_keys(store)?.len())
            },
        ];
        for look in looks {
            let root = tempfile::tempdir().unwrap();
            let mut config = config(root.path());
            config.index_shape.index_num = 4000;
            let store = open_with(config);
            fill(&store, 0..COUNT);
            for topic in ["t", "u"] {
                // More than are gone through without asking.
                (0..1100).for_each(|_| _ = put(&store, topic, 0, b"", "KEYS\x01k"));
            }
            store.reput().unwrap();
            let outcome = closing(&store, close, look);
            assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
            assert_eq!(held_below(root.path()), nothing());
        }
    }
}

type Pass = fn(&Store) -> Result<()>;

/// What a service does again and again, and looks at single queues.
const PASSES: [(&str, Pass); 13] = [
    ("warm up", |store| store.warm_up_queue("t", 0)),
    ("extension", |store| store.ext_units("t", 0, 0, COUNT).map(drop)),
    ("first needed", |store| store.first_needed(&[("t".to_owned(), 0, 3)]).map(drop)),
    ("first not due", |store| store.first_not_due(1).map(drop)),
    ("first waiting", |store| store.first_waiting_timed().map(drop)),
    ("level", |store| store.deliver_level(1, 0, 10).map(drop)),
    ("timed", |store| store.deliver_timed(10).map(drop)),
    ("slaves", |store| store.serve_slaves(Duration::ZERO).map(drop)),
    ("master", |store| store.receive_log(Duration::ZERO).map(drop)),
    ("log seen", |store| store.sync_log_seen()),
    ("log to the disk", |store| store.flush_commit_log(0).map(drop)),
    ("queues to the disk", |store| store.flush_consume_queues(0)),
    ("all to the disk", |store| store.flush_everything()),
];

#[test]
fn no_pass_opens_a_file_behind_a_close() {
    let root = tempfile::tempdir().unwrap();
    let writer = used(with_ext(root.path()));
    writer.close().unwrap();
    let reader = try_open(with_ext(root.path()), Mode::Read).unwrap();
    reader.close().unwrap();
    for store in [writer, reader] {
        for (name, pass) in PASSES {
            let outcome = pass(&store);
            assert!(matches!(outcome, Err(Error::Closed)), "{name}: {outcome:?}");
            assert_eq!(held_below(root.path()), nothing(), "{name}");
        }
    }
}

/// The folder may be another process's by then.
#[test]
fn nothing_is_written_behind_a_close_that_failed() {
    let root = tempfile::tempdir().unwrap();
    let of_queues = |path: &Path| path.to_str().unwrap().contains("/consumequeue/");
    let is_refused = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&is_refused);
    let hook: Hook = Box::new(move |call, path| match call {
        Call::Write { .. } if of_queues(path) && refuses.load(Ordering::Relaxed) => {
            Err(io::Error::other("refused"))
        }
        _ => Ok(()),
    });
    let (store, _) = open_hooked(config(root.path()), Mode::ReadWrite, hook);
    fill(&store, 0..5);
    store.close().unwrap_err();
    is_refused.store(false, Ordering::Relaxed);
    let before = tree(root.path());
    for (name, pass) in PASSES {
        let outcome = pass(&store);
        assert!(matches!(outcome, Err(Error::Closed)), "{name}: {outcome:?}");
    }
    assert_eq!(tree(root.path()), before);
    assert_eq!(held_below(root.path()), nothing());
}
