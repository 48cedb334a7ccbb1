//! Pages that are made ready ahead of the writer.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mqstore_core::config::StoreConfig;
use mqstore_core::store::{Mode, Store};

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{bodies, config, put};

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
    assert_eq!(largest(), Some(2 * MIB));
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
        assert!(len <= 64 * KIB || offset / (2 * MIB) == (offset + len - 1) / (2 * MIB), "{len} at {offset}");
    }
}
