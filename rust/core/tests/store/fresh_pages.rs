//! Pages that are made ready ahead of the writer.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mqstore_core::config::StoreConfig;
use mqstore_core::store::{Mode, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{bodies, config, put, read};

const PAGE: u64 = 4 << 10;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What was written to the log by calls: where, and how much.
type Pieces = Arc<Mutex<Vec<(u64, u64)>>>;

fn open_recorded(root: &Path) -> (Arc<Store>, Pieces) {
    let pieces = Pieces::default();
    let written = Arc::clone(&pieces);
    let log_dir = root.join("commitlog");
    let hook: Hook = Box::new(move |call, path| {
        if let Call::Write { offset, len } = call
            && path.starts_with(&log_dir)
        {
            written.lock().unwrap().push((offset, len as u64));
        }
        Ok(())
    });
    let config =
        StoreConfig { mapped_file_size_commit_log: 256 * MIB, max_message_size: 4 << 20, ..config(root) };
    (open_hooked(config, Mode::ReadWrite, hook).0, pieces)
}

/// Puts until the log is so long, with what goes on beside it.
fn put_to(store: &Store, end: u64, is_flushed: bool) {
    let body = vec![b'b'; 1_000_000];
    while store.log().wrote_offset() < end {
        put(store, "t", 0, &body, "");
        if is_flushed {
            store.log().flush(0).unwrap();
        }
        store.log().reserve_pass(Duration::ZERO).unwrap();
    }
}

/// A flush writes anew the piece in which it ends: a log that is flushed every some messages is not to be written many times.
#[test]
fn pieces_are_large_where_much_is_written_between_two_flushes() {
    let root = tempfile::tempdir().unwrap();
    let (store, pieces) = open_recorded(root.path());
    let largest = || pieces.lock().unwrap().drain(..).map(|(_, len)| len).max();
    put_to(&store, 8 * MIB, true);
    assert_eq!(largest(), Some(64 * KIB));
    put_to(&store, 128 * MIB, false);
    assert_eq!(largest(), Some(512 * KIB));
    put_to(&store, 250 * MIB, true);
    assert_eq!(largest(), Some(64 * KIB));
    let whole = "b".repeat(1_000_000);
    assert!(bodies(&store, "t", 0).iter().all(|body| *body == whole), "no zeros over what was put");
}

#[test]
fn pieces_end_where_the_system_s_do() {
    let root = tempfile::tempdir().unwrap();
    let (store, pieces) = open_recorded(root.path());
    // Nothing is ready for it, and what comes next begins anywhere.
    put(&store, "t", 0, &vec![b'b'; 3_000_000], "");
    put_to(&store, 128 * MIB, false);
    let pieces = pieces.lock().unwrap();
    assert!(pieces.len() > 10);
    for &(offset, len) in &*pieces {
        assert_eq!((offset + len) % (64 * KIB), 0, "{len} at {offset}");
        assert!(
            len <= 64 * KIB || offset / (512 * KIB) == (offset + len - 1) / (512 * KIB),
            "{len} at {offset}"
        );
    }
}

/// A store each of whose records is flushed, with what the log's file is asked for from then on: pieces of zeros, and flushes of
/// the whole file. Of each call, and how often the file was flushed with it, the disk says whether it is refused.
fn open_flushed(
    root: &Path,
    is_refused: impl Fn(Call, usize) -> bool + Send + Sync + 'static,
) -> (Arc<Store>, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::<Mutex<Vec<Call>>>::default();
    let (seen, log_dir) = (Arc::clone(&calls), root.join("commitlog"));
    let hook: Hook = Box::new(move |call, path| {
        if path.parent() != Some(&log_dir) {
            return Ok(());
        }
        let mut seen = seen.lock().unwrap();
        seen.push(call);
        let (_, sync_count) = zeros_and_syncs(&seen);
        if is_refused(call, sync_count) { Err(io::Error::other("refused")) } else { Ok(()) }
    });
    let config = StoreConfig { mapped_file_size_commit_log: 8 * MIB, sync_flush: true, ..config(root) };
    (open_hooked(config, Mode::ReadWrite, hook).0, calls)
}

fn refuse_nothing(_: Call, _: usize) -> bool {
    false
}

/// Puts until the log is so long, and flushes as often as so many were put.
fn put_and_flush(store: &Store, end: u64, flushed_count: usize) {
    while store.log().wrote_offset() < end {
        for _ in 0..flushed_count {
            put(store, "t", 0, &[b'b'; 10_000], "");
        }
        store.log().flush(0).unwrap();
        let _told_by_the_service = store.log().reserve_pass(Duration::ZERO);
    }
}

fn zeros_and_syncs(calls: &[Call]) -> (Vec<u64>, usize) {
    let zeros = calls.iter().filter_map(|call| match call {
        Call::Write { len, .. } => Some(*len as u64),
        _ => None,
    });
    (zeros.collect(), calls.iter().filter(|call| matches!(call, Call::Sync)).count())
}

/// The flush of a record that is the first in its page took twice as long where the file system had to say first that it was written.
#[test]
fn zeros_are_on_the_disk_before_records_that_are_flushed_one_by_one() {
    let root = tempfile::tempdir().unwrap();
    let (store, calls) = open_flushed(root.path(), refuse_nothing);
    put_and_flush(&store, 3 * MIB, 1);
    let (zeros, sync_count) = zeros_and_syncs(&calls.lock().unwrap());
    assert!(zeros.iter().all(|&len| len <= PAGE), "the system knows of each page by itself");
    assert!(zeros.iter().sum::<u64>() >= 2 * MIB, "{}", zeros.len());
    assert!(sync_count as u64 >= 2, "{sync_count}");
    let last = |wanted: fn(&Call) -> bool| calls.lock().unwrap().iter().rposition(wanted);
    let written = last(|call| matches!(call, Call::Write { .. }));
    let synced = last(|call| matches!(call, Call::Sync));
    assert!(written < synced, "what was written last was flushed");
    assert!(
        bodies(&store, "t", 0).iter().all(|body| *body == "b".repeat(10_000)),
        "no zeros over what was put"
    );
}

/// The system tells of a write that failed once by each open file, and what failed of records is for who flushes those.
#[test]
fn zeros_are_flushed_by_a_file_that_is_opened_for_it() {
    let root = tempfile::tempdir().unwrap();
    let (store, calls) = open_flushed(root.path(), refuse_nothing);
    let open_count = || calls.lock().unwrap().iter().filter(|call| matches!(call, Call::Open)).count();
    put(&store, "t", 0, b"b", "");
    let before = open_count();
    put_and_flush(&store, 3 * MIB, 1);
    assert_eq!(open_count(), before + 1);
}

/// That is a flush of the whole file: what was put may be what the disk has refused.
#[test]
fn a_flush_of_zeros_that_fails_is_as_final_as_any() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = open_flushed(root.path(), |call, sync_count| {
        // The first one is of the file that was just made.
        matches!(call, Call::Sync) && sync_count > 1
    });
    let mut flushed_to = 0;
    let failed = loop {
        put(&store, "t", 0, &[b'b'; 10_000], "");
        flushed_to = store.log().flush(0).unwrap().flushed_offset.max(flushed_to);
        if let Err(error) = store.log().reserve_pass(Duration::ZERO) {
            break error.to_string();
        }
    };
    assert!(failed.contains("flush") && failed.contains("refused"), "{failed}");
    assert!(store.takes_no_messages().is_some_and(|reason| reason.contains(&failed)));
    assert!(store.log().flush(0).unwrap_err().to_string().contains(&failed));
    assert_eq!(store.log().flushed_offset(), flushed_to);
    assert!(store.close().is_err());
    assert_eq!(read(root.path()).log().max_offset(), flushed_to);
}

#[test]
fn zeros_that_no_file_can_be_opened_for_are_no_failure_of_what_is_put() {
    let root = tempfile::tempdir().unwrap();
    // Once the log's file is made.
    let is_made = AtomicBool::new(false);
    let (store, _) = open_flushed(root.path(), move |call, _| {
        matches!(call, Call::Open) && is_made.swap(true, Ordering::Relaxed)
    });
    put_and_flush(&store, 3 * MIB, 1);
    let count = bodies(&store, "t", 0).len() as u64;
    assert_eq!(store.log().flushed_offset(), store.log().wrote_offset());
    store.close().unwrap();
    assert_eq!(bodies(&read(root.path()), "t", 0).len() as u64, count);
}

#[test]
fn what_is_flushed_by_hundreds_has_no_zeros_flushed_before_it() {
    let root = tempfile::tempdir().unwrap();
    let (store, calls) = open_flushed(root.path(), refuse_nothing);
    put_and_flush(&store, MIB, 20);
    calls.lock().unwrap().clear();
    put_and_flush(&store, 4 * MIB, 20);
    assert_eq!(zeros_and_syncs(&calls.lock().unwrap()), (vec![], 0));
}
