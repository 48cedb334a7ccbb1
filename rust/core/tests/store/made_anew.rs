//! A reader beside a writer that recovers the store: units that are not there for a moment, since they are made anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use mqstore_core::clock::ManualClock;
use mqstore_core::consume_queue::Boundary;
use mqstore_core::error::{Error, Result};
use mqstore_core::published::Withheld;
use mqstore_core::selection::{QueueRange, Selection};
use mqstore_core::store::{Mode, Part, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::openings::assert_as_opened_now;
use crate::stores::recovering::{begin_recovery, write_fifty};
use crate::stores::{LOG_FILE_SIZE, Opened, config, crash, fill, fs, numbers, open, patch, read};

/// Readers of a store of [`write_fifty`] beside the writer that recovers it.
fn assert_all_there(readers: &[Opened]) {
    for reader in readers {
        assert_eq!(numbers(reader), (0..50).collect::<Vec<_>>());
        reader.refresh().unwrap();
    }
}

/// The same once another writer has come.
fn assert_to_go_on(readers: &[Opened], root: &Path) {
    let writer = open(root);
    fill(&writer, 50..90);
    for reader in readers {
        assert_as_opened_now(reader, root);
        assert_eq!(numbers(reader), (0..90).collect::<Vec<_>>());
    }
}

/// A writer zeroes units that were not known to be on the disk before it makes them anew.
#[test]
fn units_that_are_made_anew_are_not_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let writer = write_fifty(root.path());
    let readers = [read(root.path()), read(root.path())];
    for reader in &readers {
        reader.refresh().unwrap();
        assert_eq!(numbers(reader).len(), 50);
    }
    crash(writer);
    let (lock, withheld) = begin_recovery(root.path());
    assert_eq!(numbers(&readers[0]), (0..50).collect::<Vec<_>>());
    readers[1].refresh().unwrap();
    let late = read(root.path());
    assert!(late.notes().writer.is_some());
    let [first, second] = readers;
    let readers = [first, second, late];
    assert_all_there(&readers);
    withheld.undo(&*fs(), &root.path().join("mqstore"));
    drop(lock);
    assert_to_go_on(&readers, root.path());
}

/// The first mqstore writer of a store has nobody before it who published anything.
#[test]
fn units_that_are_made_anew_of_a_java_store_are_not_passed_over() {
    let root = tempfile::tempdir().unwrap();
    crash(write_fifty(root.path()));
    let own_dir = root.path().join("mqstore");
    std::fs::remove_dir_all(&own_dir).unwrap();
    let readers = [read(root.path()), read(root.path())];
    let (lock, withheld) = begin_recovery(root.path());
    readers[1].refresh().unwrap();
    let [first, second] = readers;
    let readers = [first, second, read(root.path())];
    assert_all_there(&readers);
    withheld.undo(&*fs(), &own_dir);
    assert!(!own_dir.exists());
    drop(lock);
    assert_to_go_on(&readers, root.path());
}

#[test]
fn look_ups_by_time_and_selections_do_not_go_by_units_that_are_made_anew() {
    let by_time = |reader: &Opened, time: i64, boundary| {
        reader.get_offset_in_queue_by_time("t", 0, time, boundary).unwrap()
    };
    let of_t = |range: QueueRange| Selection { queues: Some(vec![range]), ..Selection::default() };
    let all = || QueueRange { topic: "t".into(), queue_id: None, from: None, to: None };
    type Look<'a> = (&'static str, Box<dyn Fn(&Opened) + 'a>);
    let looks: [Look<'_>; 6] = [
        ("lower", Box::new(|reader| assert_eq!(by_time(reader, 31, Boundary::Lower), 31))),
        ("upper", Box::new(|reader| assert_eq!(by_time(reader, 31, Boundary::Upper), 31))),
        ("nearest", Box::new(|reader| assert_eq!(by_time(reader, 31, Boundary::Nearest), 31))),
        ("count", Box::new(|reader| assert_eq!(of_t(all()).count(Arc::clone(&reader.store)).unwrap(), 50))),
        (
            "count from a time on",
            Box::new(|reader| {
                let selection = Selection { begin_timestamp: Some(31), ..of_t(all()) };
                assert_eq!(selection.count(Arc::clone(&reader.store)).unwrap(), 19);
            }),
        ),
        (
            "a part of a cursor",
            Box::new(|reader| {
                let mut cursor = of_t(all()).cursor(Arc::clone(&reader.store)).unwrap();
                assert_eq!(cursor.take_part(100, u64::MAX).unwrap().unwrap().count, 50);
                assert!(cursor.bad_ranges().take().is_empty());
            }),
        ),
    ];
    for (name, look) in looks {
        println!("{name}");
        let root = tempfile::tempdir().unwrap();
        let writer = write_fifty(root.path());
        let reader = read(root.path());
        reader.refresh().unwrap();
        crash(writer);
        let _recovering = begin_recovery(root.path());
        look(&reader);
    }
}

/// Who reads a part of a store was told which units there are.
#[test]
fn a_part_does_not_pass_over_units_that_are_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let writer = write_fifty(root.path());
    let log_end = writer.max_phy_offset();
    crash(writer);
    let open_part = |openings| {
        let part = Part { log_end: Some(log_end), topics: Some(vec!["t".into()]), openings: Some(openings) };
        Store::open_part(config(root.path()), fs(), Arc::new(ManualClock::at(0)), &part).unwrap()
    };
    let units = |part: &Store| -> Result<usize> {
        let queue = part.find_consume_queue("t", 0).unwrap();
        let chunks = (0..50).step_by(10).map(|from| part.units(&queue, from, 10));
        chunks.map(|units| Ok(units?.iter().filter(|unit| unit.is_written()).count())).sum()
    };
    let part = open_part(1);
    assert_eq!((units(&part).unwrap(), part.made_anew_from().unwrap()), (50, None));
    let part = open_part(1);
    let (lock, withheld) = begin_recovery(root.path());
    let known = 13 * (log_end / 50);
    assert!(
        matches!(units(&part), Err(Error::MadeAnew { from, .. }) if from.abs_diff(known) < LOG_FILE_SIZE)
    );
    assert!(part.made_anew_from().unwrap().is_some());
    let late = open_part(1);
    assert!(matches!(units(&late), Err(Error::MadeAnew { .. })));
    withheld.undo(&*fs(), &root.path().join("mqstore"));
    drop(lock);
    let writer = open(root.path());
    assert_eq!(units(&open_part(1)).unwrap(), 50);
    let fresh = read(root.path());
    assert_eq!((part.openings_seen(), late.openings_seen(), fresh.openings_seen()), (1, 1, 2));
    writer.close().unwrap();
    drop(open(root.path()));
    // Nothing was made anew then; one that is planned now has nothing to fear of those before.
    assert_eq!(fresh.made_anew_from().unwrap(), None);
    let blank = |bytes: &mut [u8]| bytes.fill(0);
    patch(&root.path().join("consumequeue/t/0/00000000000000000200"), 60, blank);
    assert!(matches!(units(&open_part(1)), Err(Error::MadeAnew { .. })));
    assert_eq!(units(&open_part(2)).unwrap(), 43);
}

/// Beside one thread that follows an opening, others look at the same reader.
#[test]
fn it_is_told_while_units_are_missing_that_were_let_go_of() {
    let root = tempfile::tempdir().unwrap();
    let writer = write_fifty(root.path());
    let seen = Arc::new((OnceLock::<Arc<Store>>::new(), AtomicUsize::new(0)));
    let look = Arc::clone(&seen);
    let hook: Hook = Box::new(move |_, _| {
        let Some(reader) = look.0.get() else { return Ok(()) };
        if reader.find_consume_queue("t", 0).unwrap().max_offset_in_queue() < 50 {
            assert_eq!(reader.changes_if_settled(), None);
            look.1.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    });
    let (reader, _) = open_hooked(config(root.path()), Mode::Read, hook);
    reader.refresh().unwrap();
    assert_eq!((reader.settled_changes().unwrap(), numbers(&reader).len()), (0, 50));
    crash(writer);
    let writer = open(root.path());
    assert!(seen.0.set(Arc::clone(&reader)).is_ok());
    reader.refresh().unwrap();
    assert!(seen.1.load(Ordering::SeqCst) > 0, "units were missing");
    assert_eq!((reader.changes_if_settled(), numbers(&reader).len()), (Some(2), 50));
    fill(&writer, 50..60);
    reader.refresh().unwrap();
    assert_eq!((reader.changes_if_settled(), numbers(&reader).len()), (Some(2), 60), "it has only grown");
}

/// A writer takes units away from the begin of the log file on at which it looks for the log's end, also those that were
/// known to be on the disk.
#[test]
fn a_reader_that_looked_before_units_were_taken_away_misses_none() {
    for is_flushed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = write_fifty(root.path());
        if is_flushed {
            writer.flush_everything().unwrap();
        }
        let reader = read(root.path());
        reader.refresh().unwrap();
        crash(writer);
        let published = root.path().join("mqstore/published");
        let (store, looked_early, looked_late) =
            (Arc::clone(&reader.store), AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
        let late = Arc::clone(&looked_late);
        let hook: Hook = Box::new(move |call, path| {
            let is_withheld = || std::fs::read(&published).unwrap().starts_with(&[0; 8]);
            if !matches!(call, Call::Open) || !is_withheld() {
                return Ok(());
            }
            if !looked_early.swap(true, Ordering::SeqCst) {
                store.refresh().unwrap();
            }
            if path.ends_with("mqstore/published") {
                // Behind the trim.
                assert_eq!(numbers(&store), (0..50).collect::<Vec<_>>());
                late.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
        let _writer = open_hooked(config(root.path()), Mode::ReadWrite, hook);
        assert!(looked_late.load(Ordering::SeqCst) > 0);
        assert_as_opened_now(&reader, root.path());
    }
}

/// A writer that is killed while it recovers the store has taken units away, and told of nothing.
#[test]
fn a_recovery_that_was_killed_is_seen() {
    let root = tempfile::tempdir().unwrap();
    let writer = write_fifty(root.path());
    let log_end = writer.max_phy_offset();
    let readers = [read(root.path()), read(root.path())];
    crash(writer);
    let part = Part { log_end: Some(log_end), topics: Some(vec!["t".into()]), openings: Some(1) };
    let part = Store::open_part(config(root.path()), fs(), Arc::new(ManualClock::at(0)), &part).unwrap();
    drop(begin_recovery(root.path()));
    readers[1].refresh().unwrap();
    for reader in readers.iter().chain([&read(root.path())]) {
        assert_eq!(numbers(reader), (0..50).collect::<Vec<_>>());
        assert_as_opened_now(reader, root.path());
    }
    let queue = part.find_consume_queue("t", 0).unwrap();
    assert_eq!(part.units(&queue, 0, 10).unwrap().len(), 10);
    assert!(matches!(part.units(&queue, 10, 10), Err(Error::MadeAnew { .. })));
    let writer = open(root.path());
    fill(&writer, 50..60);
    for reader in &readers {
        assert_as_opened_now(reader, root.path());
        assert_eq!(numbers(reader).len(), 60);
    }
}

/// The next one takes away what the killed one had left.
#[test]
fn a_recovery_behind_one_that_was_killed_is_seen() {
    let root = tempfile::tempdir().unwrap();
    crash(write_fifty(root.path()));
    let own_dir = root.path().join("mqstore");
    let _killed = Withheld::begin(&*fs(), &own_dir).unwrap();
    let reader = read(root.path());
    for _ in 0..3 {
        reader.refresh().unwrap();
    }
    let _recovering = begin_recovery(root.path());
    assert_eq!(numbers(&reader), (0..50).collect::<Vec<_>>());
}

/// What was found out in several looks does not hold together where a writer has begun to take units away in between.
#[test]
fn looks_that_do_not_hold_together_are_known() {
    let root = tempfile::tempdir().unwrap();
    let writer = write_fifty(root.path());
    let twentieth = writer.get_commit_log_offset_in_queue("t", 0, 20).unwrap().cast_unsigned();
    let reader = read(root.path());
    reader.refresh().unwrap();
    let before = reader.settled_changes().unwrap();
    reader.refresh().unwrap();
    assert_eq!((reader.settled_changes().unwrap(), reader.made_anew_from().unwrap()), (before, None));
    crash(writer);
    let _recovering = begin_recovery(root.path());
    let queue = reader.find_consume_queue("t", 0).unwrap();
    assert_ne!(queue.first_unit_at(twentieth).unwrap(), 20);
    assert!(reader.made_anew_from().unwrap().is_some());
    assert_eq!(reader.get_offset_in_queue_by_time("t", 0, 30, Boundary::Lower).unwrap(), 30);
    assert_eq!(reader.made_anew_from().unwrap(), None);
    assert_ne!(reader.settled_changes().unwrap(), before);
    assert_eq!(queue.first_unit_at(twentieth).unwrap(), 20);
}

#[test]
fn single_units_that_are_made_anew_are_looked_up() {
    let root = tempfile::tempdir().unwrap();
    let writer = write_fifty(root.path());
    let place = |store: &Store| store.get_commit_log_offset_in_queue("t", 0, 30).unwrap();
    let is_at = place(&writer);
    let readers = [read(root.path()), read(root.path())];
    for reader in &readers {
        reader.refresh().unwrap();
    }
    crash(writer);
    let _recovering = begin_recovery(root.path());
    assert_eq!(readers[0].get_message_store_timestamp("t", 0, 30).unwrap(), 30);
    assert_eq!(place(&readers[1]), is_at);
}
