//! A store that has another store's log, which has records of the same sizes where its own had others.

use std::path::Path;

use mqstore_core::commit_log::Appended;
use mqstore_core::config::StoreConfig;
use mqstore_core::published::{Openings, Unchanged};
use mqstore_core::recovery::{Recovered, StoreState, recover};
use mqstore_core::store::{Mode, Store};

use crate::parts::Parts;
use crate::stores::{
    LOG_FILE_SIZE, bodies, config, copy_folder, crash, found, fs, log_file, open, put, read, try_open,
};

/// Messages that both logs have.
const SHARED: usize = 40;
/// Messages that they have each of its own.
const OWN: usize = 96;
/// The queues of the first of those, of the one log and of the other; then they take turns. Each queue's last one stands at the
/// same place.
const QUEUES: [[i32; 8]; 2] = [[0, 1, 0, 1, 0, 1, 0, 1], [1, 0, 0, 1, 1, 0, 0, 1]];

/// Puts a message that has its name in its body, and as its key.
fn put_named(store: &Store, topic: &str, queue_id: i32, name: &str) -> Appended {
    put(store, topic, queue_id, name.repeat(20).as_bytes(), &format!("KEYS\x01{name}"))
}

/// Puts them; gives where the last one stands.
fn put_own(store: &Store, log: usize) -> u64 {
    let queues = QUEUES[log].into_iter().chain([0, 1].into_iter().cycle()).take(OWN);
    let put_one = |(number, queue_id)| {
        let done = put_named(store, "t", queue_id, &format!("{}{number:02}", ["a", "b"][log]));
        store.reput().unwrap();
        done.wrote_offset
    };
    queues.enumerate().map(put_one).last().unwrap()
}

fn put_shared(store: &Store) {
    for number in 0..SHARED {
        put_named(store, "t", i32::from(number % 2 == 1), &format!("s{number:02}"));
    }
}

/// A store with its own queues and index, closed or not, and the other one, whose log it is about to get. Gives where its last
/// record stands.
fn two(root: &Path, is_closed: bool) -> u64 {
    let [own, other] = ["own", "other"].map(|name| root.join(name));
    let store = open(&own);
    put_shared(&store);
    store.close().unwrap();
    copy_folder(&own, &other);
    let store = open(&other);
    put_own(&store, 1);
    store.close().unwrap();
    let store = open(&own);
    let last = put_own(&store, 0);
    if is_closed {
        store.close().unwrap();
    } else {
        store.flush_everything().unwrap();
        crash(store);
    }
    last
}

fn replace_log(root: &Path) {
    std::fs::remove_dir_all(root.join("own/commitlog")).unwrap();
    copy_folder(&root.join("other/commitlog"), &root.join("own/commitlog"));
}

fn has_all_of_the_other(store: &Store, root: &Path) {
    let other = read(&root.join("other"));
    for queue_id in [0, 1] {
        assert_eq!(bodies(store, "t", queue_id), bodies(&other, "t", queue_id));
    }
    let keys =
        |log: &str, count: usize| (0..count).map(|at| found(store, &format!("{log}{at:02}"))).sum::<usize>();
    assert_eq!([keys("s", SHARED), keys("a", OWN), keys("b", OWN)], [SHARED, 0, OWN]);
}

#[test]
fn queues_and_index_are_made_of_the_log_that_is_there() {
    for is_closed in [true, false] {
        let root = tempfile::tempdir().unwrap();
        two(root.path(), is_closed);
        replace_log(root.path());
        let own = root.path().join("own");
        has_all_of_the_other(&read(&own), root.path());
        let store = open(&own);
        assert_eq!(store.notes().dispatched_from, 0);
        has_all_of_the_other(&store, root.path());
        assert_eq!(
            put(&store, "t", 0, b"next", "").logics_offset,
            i64::try_from(SHARED / 2 + OWN / 2).unwrap()
        );
        store.close().unwrap();
        // What it has now is this log's, and known by that.
        for store in [read(&own), open(&own)] {
            assert_eq!(store.notes().dispatched_from, store.max_phy_offset());
        }
    }
}

/// Units of the other log lead to records that say another place, as if these were damaged.
#[test]
fn no_record_of_the_log_that_is_there_is_a_stranger() {
    let root = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| root.path().join(name));
    for (path, factor) in [(&own, 5), (&other, 7)] {
        let store = open(path);
        put_shared(&store);
        for number in 0..OWN {
            let queue_id = i32::try_from((number * factor + number / 3) % 4).unwrap();
            // One topic is new in the other log.
            let topic = if factor == 7 && number % 10 == 3 { "n" } else { "t" };
            put_named(&store, topic, queue_id, &format!("{factor}{number:02}"));
        }
        store.close().unwrap();
    }
    replace_log(root.path());
    let store = open(&own);
    for topic in ["t", "n"] {
        for queue_id in 0..4 {
            assert_eq!(bodies(&store, topic, queue_id), bodies(&read(&other), topic, queue_id));
        }
    }
}

/// Also a body that is the same, stored at another time.
#[test]
fn the_time_tells_as_the_body_does() {
    let root = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| root.path().join(name));
    for (path, now_ms) in [(&own, 1_000_000), (&other, 2_000_000)] {
        let store = open(path);
        store.clock.set(now_ms);
        put(&store, "t", 0, b"same", "KEYS\x01k");
        put(&store, "t", i32::from(now_ms == 1_000_000), b"same", "KEYS\x01k");
        put(&store, "t", i32::from(now_ms == 2_000_000), b"same", "KEYS\x01k");
        put(&store, "t", 0, b"same", "KEYS\x01k");
        store.close().unwrap();
    }
    replace_log(root.path());
    for queue_id in [0, 1] {
        assert_eq!(bodies(&open(&own), "t", queue_id), bodies(&read(&other), "t", queue_id));
    }
}

/// What was cut off during the dispatch of everything begins anew.
#[test]
fn an_opening_that_was_cut_off_is_no_harm() {
    let root = tempfile::tempdir().unwrap();
    two(root.path(), true);
    replace_log(root.path());
    let own = root.path().join("own");
    let index = own.join("index");
    crash(open(&own));
    std::fs::remove_dir_all(&index).unwrap();
    let store = open(&own);
    has_all_of_the_other(&store, root.path());
}

/// A record that is damaged is told as that, and the rest stays what it is: also the last one that is known, with others behind it.
#[test]
fn damage_is_not_another_log() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let puts: Vec<_> =
        (0..SHARED).map(|number| put_named(&store, "t", 0, &format!("s{number:02}"))).collect();
    let last = &puts[SHARED - 1];
    store.reput().unwrap();
    store.flush_everything().unwrap();
    put(&store, "t", 0, b"behind it", "");
    store.flush_commit_log(0).unwrap();
    crash(store);
    let (size, file) = (last.wrote_bytes as usize, last.wrote_offset / LOG_FILE_SIZE * LOG_FILE_SIZE);
    let whole = std::fs::read(log_file(root.path(), file)).unwrap();
    let at = usize::try_from(last.wrote_offset - file).unwrap();
    let of_body = |log: &mut [u8]| log[at + 100] ^= 1;
    let of_its_crc = |log: &mut [u8]| log[at + 8] ^= 1;
    let another_record = |log: &mut [u8]| log.copy_within(at - size..at, at);
    for (name, damage) in
        [("body", &of_body as &dyn Fn(&mut [u8])), ("CRC", &of_its_crc), ("another record", &another_record)]
    {
        let mut log = whole.clone();
        damage(&mut log);
        std::fs::write(log_file(root.path(), file), log).unwrap();
        let parts = Parts::of(root.path());
        let of = Recovered { writable: false, ..parts.recovered(StoreState::Crashed) };
        assert!(!recover(of).unwrap().is_another_log, "{name}");
        assert_eq!(bodies(&read(root.path()), "t", 0).len(), SHARED, "{name}");
    }
}

/// Who follows the store is told that nothing is as it was.
#[test]
fn nothing_of_the_log_counts_as_unchanged() {
    let root = tempfile::tempdir().unwrap();
    two(root.path(), true);
    let own = root.path().join("own");
    let openings = || Openings::read(&*fs(), &own.join("mqstore")).unwrap();
    let before = openings();
    open(&own).close().unwrap();
    assert!(openings().unchanged_since(&before).log > 0);
    let before = openings();
    replace_log(root.path());
    open(&own).close().unwrap();
    assert_eq!(openings().unchanged_since(&before), Unchanged { log: 0, queues: 0 });
}

/// Units of what is expired stay, and nothing is held against a log of which the last known record is gone.
#[test]
fn a_record_that_is_expired_tells_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put_shared(&store);
    store.close().unwrap();
    let end = store.max_phy_offset();
    drop(store);
    for file in (0..).map(|at| at * LOG_FILE_SIZE).take_while(|file| file + LOG_FILE_SIZE < end) {
        std::fs::remove_file(log_file(root.path(), file)).unwrap();
    }
    let store = open(root.path());
    assert_eq!(store.notes().dispatched_from, end);
    assert!(bodies(&store, "t", 0).len() < SHARED / 2);
}

/// 4.9.3 goes by what the units say.
#[test]
fn compat_believes_the_queues() {
    let root = tempfile::tempdir().unwrap();
    two(root.path(), true);
    replace_log(root.path());
    let own = root.path().join("own");
    let compat = StoreConfig { compat: true, ..config(&own) };
    let store = try_open(compat, Mode::ReadWrite).unwrap();
    assert!(store.notes().dispatched_from > 0);
}
