//! Topics whose folder the file system refuses, or takes for another's: their messages are not acknowledged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::Wait;
use mqstore_core::config::StoreConfig;
use mqstore_core::dispatch::SCHEDULE_TOPIC;
use mqstore_core::format::batch::BatchItem;
use mqstore_core::fs::{DirEntry, FileHandle, FileSystem, Metadata, OpenMode, OsFileSystem, Space};
use mqstore_core::status::PutMessageStatus;
use mqstore_core::store::{BatchMessage, Mode, PutStep, Store};

use crate::stores::{bodies, config, message, open, put, read, try_put};

/// As some disks of other systems are: it finds a folder below the queues' by its name in whatever case, and has no names
/// with a `|`.
#[derive(Debug)]
struct OtherSystemsDisk;

/// The path under which it has something.
fn found(path: &Path) -> io::Result<PathBuf> {
    let mut found = PathBuf::new();
    for part in path {
        let name = part.to_string_lossy().to_lowercase();
        if found.ends_with("consumequeue") {
            if name.contains('|') {
                return Err(io::Error::from_raw_os_error(22));
            }
            let listed = if found.exists() { OsFileSystem.read_dir(&found)? } else { Vec::new() };
            let of_name = listed.into_iter().find(|entry| entry.name.to_lowercase() == name);
            found.push(of_name.map_or(PathBuf::from(&part), |entry| PathBuf::from(entry.name)));
        } else {
            found.push(part);
        }
    }
    Ok(found)
}

#[rustfmt::skip] // nothing but the path differs
impl FileSystem for OtherSystemsDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> { OsFileSystem.open(&found(path)?, mode) }
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> { OsFileSystem.metadata(&found(path)?) }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> { OsFileSystem.read_dir(&found(path)?) }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> { OsFileSystem.create_dir_all(&found(path)?) }
    fn remove_file(&self, path: &Path) -> io::Result<()> { OsFileSystem.remove_file(&found(path)?) }
    fn remove_dir(&self, path: &Path) -> io::Result<()> { OsFileSystem.remove_dir(&found(path)?) }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> { OsFileSystem.rename(&found(from)?, &found(to)?) }
    fn sync_dir(&self, path: &Path) -> io::Result<()> { OsFileSystem.sync_dir(&found(path)?) }
    fn sync_all(&self, path: &Path) -> io::Result<()> { OsFileSystem.sync_all(&found(path)?) }
    fn space(&self, path: &Path) -> io::Result<Space> { OsFileSystem.space(&found(path)?) }
}

fn open_there(config: StoreConfig) -> Arc<Store> {
    let clock = Arc::new(ManualClock::at(1_000_000));
    Store::open(config, Arc::new(OtherSystemsDisk), clock, Mode::ReadWrite).unwrap()
}

fn with_further_queues(root: &Path) -> StoreConfig {
    StoreConfig { enable_multi_dispatch: true, enable_lmq: true, ..config(root) }
}

fn refusal(store: &Store, topic: &str, properties: &str) -> (PutMessageStatus, String) {
    let end = store.log().wrote_offset();
    let refusal = try_put(store, &message(topic, 0, b"refused", properties)).unwrap_err();
    assert_eq!(store.log().wrote_offset(), end, "nothing of it is in the log");
    (refusal.status, refusal.reason.to_string())
}

#[test]
fn topics_that_a_disk_does_not_tell_apart_are_not_both_taken() {
    let root = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let store = open_there(config(root.path()));
        put(&store, "Topic", round, b"first", "");
        put(&store, "Topic", round, b"second", "");
        put(&store, "other", round, b"third", "");
        let (status, reason) = refusal(&store, "topic", "");
        assert_eq!(status, PutMessageStatus::MessageIllegal);
        assert!(
            reason.contains("consumequeue/topic") && reason.contains("another topic's folder"),
            "{reason}"
        );
        // Neither once it waits, nor as one of several.
        refusal(&store, "topic", "DELAY\x011");
        let mut done = Vec::new();
        let many = [message("Topic", 7, b"fourth", ""), message("topic", 0, b"refused", "")];
        let PutStep::Refused(refused) = store.put_many(&many[..], &mut done, Wait::Block) else {
            panic!("refused")
        };
        assert_eq!((refused.status, done.len()), (PutMessageStatus::MessageIllegal, 1));
        let items = vec![BatchItem { flag: 0, body: b"refused", properties: b"" }];
        let later = [message("Topic", 8, b"fifth", ""), message("topic", 0, b"refused", "DELAY\x011")];
        done.clear();
        assert!(matches!(store.put_many(&later[..], &mut done, Wait::Block), PutStep::Refused(_)));
        assert!(done.is_empty());
        let batch = BatchMessage { shared: message("TOPIC", 0, b"", ""), items };
        assert!(matches!(store.put_messages(&batch, Wait::Block), PutStep::Refused(_)));
        store.close().unwrap();
    }
    // The same on a disk that tells all names apart: nothing is missing, and there is no further queue.
    let store = read(root.path());
    let queues: Vec<_> =
        store.queues().all().iter().map(|queue| (queue.topic().to_owned(), queue.queue_id())).collect();
    let named = |topic: &str, queue_id| (topic.to_owned(), queue_id);
    assert_eq!(
        queues,
        [named("Topic", 0), named("Topic", 1), named("Topic", 7), named("other", 0), named("other", 1)]
    );
    assert_eq!(bodies(&store, "Topic", 7), ["fourth", "fourth"]);
}

#[test]
fn a_topic_whose_name_a_disk_refuses_is_not_taken() {
    let root = tempfile::tempdir().unwrap();
    let store = open_there(with_further_queues(root.path()));
    put(&store, "t", 0, b"first", "");
    let further = "INNER_MULTI_DISPATCH\x01%LMQ%a|b";
    for (topic, properties) in [("a|b", ""), ("a|b", "DELAY\x011"), ("t", further)] {
        let (status, reason) = refusal(&store, topic, properties);
        assert_eq!(status, PutMessageStatus::CreateMapedFileFailed);
        assert!(reason.contains("a|b") && reason.contains("Invalid argument"), "{reason}");
    }
    put(&store, "t", 0, b"second", "INNER_MULTI_DISPATCH\x01%LMQ%ab");
    assert!(!store.queues().all().iter().any(|queue| queue.topic().as_bytes() == SCHEDULE_TOPIC));
    store.close().unwrap();
    assert_eq!(bodies(&open(root.path()), "t", 0), ["first", "second"]);
}

#[test]
fn a_removed_topic_leaves_its_name_to_another() {
    let root = tempfile::tempdir().unwrap();
    let store = open_there(config(root.path()));
    put(&store, "Topic", 0, b"first", "");
    store.reput().unwrap();
    let queue = store.queues().all().remove(0);
    store.destroy_queue(&queue).unwrap();
    put(&store, "topic", 0, b"second", "");
    assert_eq!(refusal(&store, "Topic", "").0, PutMessageStatus::MessageIllegal);
    store.close().unwrap();
    assert_eq!(bodies(&open(root.path()), "topic", 0), ["second"]);
}

/// 4.9.3 acknowledges the message and finds out when it dispatches it.
#[test]
fn with_compat_a_disk_that_refuses_a_topic_is_found_out_later() {
    let root = tempfile::tempdir().unwrap();
    let store = open_there(StoreConfig { compat: true, ..config(root.path()) });
    put(&store, "a|b", 0, b"first", "");
    assert!(store.reput().and_then(|_| store.flush_consume_queues(0)).is_err());
}

#[test]
fn the_first_message_of_a_topic_is_not_put_where_nothing_may_wait() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    put(&store, "t", 0, b"first", "");
    let without_wait =
        |topic| store.put_message(&message(topic, 3, b"x", ""), Wait::Try { now_ms: 1_000_000 });
    assert!(matches!(without_wait("u"), PutStep::WouldBlock));
    assert!(!root.path().join("consumequeue/u").exists());
    assert!(matches!(without_wait("t"), PutStep::Done(_)));
    put(&store, "u", 0, b"second", "");
    assert!(matches!(without_wait("u"), PutStep::Done(_)));
}
