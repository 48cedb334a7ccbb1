//! What retention may delete, beside what is not on the disk yet.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mqstore_core::retention::Expiry;
use mqstore_core::store::Mode;

use crate::hooked::{Call, open_hooked};
use crate::stores::{bodies, config, crash, fill, open, put};

/// What a power cut leaves at least: of the log what was flushed.
fn power_cut(root: &Path, flushed: u64) {
    for entry in std::fs::read_dir(root.join("commitlog")).unwrap() {
        let path = entry.unwrap().path();
        let from: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let mut content = std::fs::read(&path).unwrap();
        let kept = usize::try_from(flushed.saturating_sub(from)).unwrap().min(content.len());
        content[kept..].fill(0);
        std::fs::write(&path, content).unwrap();
    }
}

/// A message that waits keeps its file of the log until what is delivered of it is on the disk.
fn delivered_then_deleted(waiting: &str, is_timed: bool) {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "due", 0, b"waits", waiting);
    fill(&store, 0..60);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    store.clock.set(1_002_000);
    let keep_from = if is_timed {
        assert_eq!(store.deliver_timed(10).unwrap().delivered_count, 1);
        store.first_waiting_timed().unwrap()
    } else {
        let pass = store.deliver_level(1, 0, 10).unwrap();
        assert_eq!(pass.delivered_count, 1);
        store.first_needed(&[("SCHEDULE_TOPIC_XXXX".into(), 0, pass.next_offset)]).unwrap()
    };
    store.reput().unwrap();
    assert_eq!(bodies(&store, "due", 0), ["waits"]);
    let expiry = Expiry { reserved_ms: 0, at_once: true, keep_from: keep_from.unwrap_or(u64::MAX) };
    assert!(store.delete_expired_log_file(expiry).unwrap().is_some(), "keep_from {keep_from:?}");
    let flushed = store.log().flushed_offset();
    crash(store);
    power_cut(root.path(), flushed);
    let store = open(root.path());
    store.clock.set(1_002_000);
    let _again = (store.deliver_timed(10).unwrap(), store.deliver_level(1, 0, 10).unwrap());
    store.reput().unwrap();
    assert_eq!(bodies(&store, "due", 0), ["waits"]);
}

#[test]
fn a_timed_message_outlives_its_file() {
    delivered_then_deleted("MQSTORE_DELIVER_AT\x011001000", true);
}

#[test]
fn a_delayed_message_outlives_its_file() {
    delivered_then_deleted("DELAY\x011", false);
}

/// An empty file behind the last message is what a crash leaves of a file that was made ahead.
#[test]
fn the_file_of_the_last_message_stays() {
    let root = tempfile::tempdir().unwrap();
    let store = open(&root.path().join("full"));
    fill(&store, 0..60);
    store.close().unwrap();
    let (full, cut) = (root.path().join("full/commitlog"), root.path().join("cut/commitlog"));
    std::fs::create_dir_all(&cut).unwrap();
    let file_size = config(&full).mapped_file_size_commit_log;
    let name = |number: u64| format!("{:020}", number * file_size);
    for number in 0..2 {
        std::fs::copy(full.join(name(number)), cut.join(name(number))).unwrap();
    }
    let empty = std::fs::File::create_new(cut.join(name(2))).unwrap();
    empty.set_len(file_size).unwrap();
    let store = open(&root.path().join("cut"));
    store.reput().unwrap();
    assert_eq!((store.log().files().files().len(), store.log().max_offset()), (3, 2 * file_size));
    let expiry = Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX };
    let deleted = store.delete_expired_log_file(expiry).unwrap();
    assert_eq!(deleted.map(|file| file.file_from_offset), Some(0));
    assert_eq!(store.delete_expired_log_file(expiry).unwrap(), None);
    assert!(!store.log().is_empty());
}

/// What is only in memory a crash does not go by.
#[test]
fn retention_waits_for_the_positions_on_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&is_full);
    let hook = move |call: Call, path: &Path| {
        let is_new = matches!(call, Call::Write { .. }) && path.ends_with("positions.tmp");
        if is_new && full.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    };
    let (store, _clock) = open_hooked(config(root.path()), Mode::ReadWrite, Box::new(hook));
    put(&store, "once", 0, b"a", "");
    fill(&store, 0..60);
    store.reput().unwrap();
    is_full.store(true, Ordering::Relaxed);
    // The first one fails where index files are full, before the positions are moved.
    assert!(store.flush_everything().is_err() && store.flush_everything().is_err());
    let at_once = Expiry { reserved_ms: 0, at_once: true, keep_from: u64::MAX };
    let _refused = store.delete_expired_log_file(at_once);
    drop(store);
    let store = open(root.path());
    assert_eq!(put(&store, "once", 0, b"b", "").logics_offset, 1);
    store.reput().unwrap();
    assert_eq!(bodies(&store, "once", 0).last().map(String::as_str), Some("b"));
}

/// How far messages that wait, and those of transactions, are done with stands elsewhere, by offsets of their queues.
#[test]
fn of_topics_that_nobody_names_those_of_the_store_itself_stay() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"later", "DELAY\x011");
    put(&store, "t", 0, b"at a time", "MQSTORE_DELIVER_AT\x012000000");
    let own = ["RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"];
    ["t", "used"].into_iter().chain(own).for_each(|topic| _ = put(&store, topic, 0, b"", ""));
    let used = HashSet::from(["used".to_owned()]);
    assert_eq!(store.clean_unused_topic(&used).unwrap(), 1);
    let mut left: Vec<_> = store.queues().all().iter().map(|queue| queue.topic().to_owned()).collect();
    left.sort_unstable();
    let waiting = ["MQSTORE_TIMED_TOPIC", own[0], own[1], "SCHEDULE_TOPIC_XXXX"];
    assert_eq!(left, [&waiting[..], &["used"]].concat());
}
