//! Blocks that the log gets before it needs them.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mqstore_core::clock::ManualClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::store::{Mode, Store};
use nix::fcntl::{FallocateFlags, fallocate};

use crate::hooked::{Call, HookedFileSystem, open_hooked};
use crate::stores::{bodies, log_file, put};

const FILE_SIZE: u64 = 16 << 20;
static BODY: [u8; 100_000] = [7; 100_000];

fn open(root: &Path, room: u64, hook: impl Fn(Call) -> io::Result<()> + Send + Sync + 'static) -> Arc<Store> {
    let config = StoreConfig { mapped_file_size_commit_log: FILE_SIZE, ..StoreConfig::new(root) };
    let fs = HookedFileSystem::with_room(Box::new(move |call, _| hook(call)), room);
    Store::open(config, Arc::new(fs), Arc::new(ManualClock::at(1_000_000)), Mode::ReadWrite).unwrap()
}

/// Puts messages until the log has a size, and gives how many there are.
fn fill(store: &Store, size: u64) -> u64 {
    loop {
        let offset = put(store, "t", 0, &BODY, "").logics_offset;
        if store.max_phy_offset() >= size {
            return offset.cast_unsigned() + 1;
        }
    }
}

/// How many messages a store has that is opened again.
fn count(root: &Path) -> u64 {
    bodies(&open(root, u64::MAX, |_| Ok(())), "t", 0).len() as u64
}

/// Bytes of a log file that have blocks.
fn block_size(root: &Path, file_from_offset: u64) -> u64 {
    std::fs::metadata(log_file(root, file_from_offset)).unwrap().blocks() * 512
}

#[test]
fn a_log_that_grows_has_all_blocks_of_its_file_until_it_is_closed() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), u64::MAX, |_| Ok(()));
    fill(&store, FILE_SIZE / 8);
    store.log().reserve_pass(Duration::ZERO).unwrap();
    assert!(block_size(root.path(), 0) < FILE_SIZE / 2, "a small log is small");
    let put_count = fill(&store, FILE_SIZE / 4);
    store.log().reserve_pass(Duration::ZERO).unwrap();
    assert!(block_size(root.path(), 0) >= FILE_SIZE);
    store.close().unwrap();
    let end = store.max_phy_offset();
    assert!(block_size(root.path(), 0) <= end + 32_768, "blocks of a closed store");
    assert_eq!(count(root.path()), put_count);
    let written = usize::try_from(end).unwrap();
    assert!(std::fs::read(log_file(root.path(), 0)).unwrap()[written..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_next_file_has_all_its_blocks_before_the_log_comes_to_it() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), u64::MAX, |_| Ok(()));
    fill(&store, FILE_SIZE / 2);
    store.log().reserve_pass(Duration::ZERO).unwrap();
    store.log().make_next_pass(Duration::ZERO).unwrap();
    assert!(block_size(root.path(), FILE_SIZE) >= FILE_SIZE);
    let put_count = fill(&store, FILE_SIZE + FILE_SIZE / 2);
    store.close().unwrap();
    assert!(block_size(root.path(), 0) >= FILE_SIZE, "all of it is the log's");
    assert!(block_size(root.path(), FILE_SIZE) < FILE_SIZE * 3 / 4);
    assert_eq!(count(root.path()), put_count);
}

/// What a writer that was killed had got is nobody's any more. The file's time stays where nothing is given back.
#[test]
fn blocks_of_a_killed_writer_are_given_back_by_the_next_close() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), u64::MAX, |_| Ok(()));
    let put_count = fill(&store, FILE_SIZE / 4);
    let end = store.max_phy_offset();
    store.close().unwrap();
    let file = std::fs::File::options().write(true).open(log_file(root.path(), 0)).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, FILE_SIZE.cast_signed()).unwrap();
    file.write_all_at(&[0; 100_000], FILE_SIZE / 4 + 100_000).unwrap();
    file.sync_all().unwrap();
    assert!(block_size(root.path(), 0) >= FILE_SIZE);
    let store = open(root.path(), u64::MAX, |_| Ok(()));
    file.write_all_at(b"whose?", FILE_SIZE / 2).unwrap();
    store.close().unwrap();
    assert!(block_size(root.path(), 0) < end + (3 << 19), "{}", block_size(root.path(), 0));
    let bytes = std::fs::read(log_file(root.path(), 0)).unwrap();
    let at = usize::try_from(FILE_SIZE / 2).unwrap();
    assert_eq!(&bytes[at..at + 6], b"whose?");
    file.write_all_at(&[0; 6], FILE_SIZE / 2).unwrap();
    open(root.path(), u64::MAX, |_| Ok(())).close().unwrap();
    assert!(block_size(root.path(), 0) <= end + 32_768, "{}", block_size(root.path(), 0));
    let modified = file.metadata().unwrap().modified().unwrap();
    open(root.path(), u64::MAX, |_| Ok(())).close().unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), modified);
    assert_eq!(count(root.path()), put_count);
}

/// A next opening looks there for a record: on a full tmpfs a hole would end the process.
#[test]
fn the_page_of_the_next_record_keeps_its_blocks() {
    const SIZE_AND_MAGIC_CODE: u64 = 8;
    let root = tempfile::tempdir().unwrap();
    let given_back = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&given_back);
    let store = open(root.path(), u64::MAX, move |call| {
        if let Call::GiveBack { offset } = call {
            seen.lock().unwrap().push(offset);
        }
        Ok(())
    });
    fill(&store, FILE_SIZE / 4);
    store.log().reserve_pass(Duration::ZERO).unwrap();
    store.close().unwrap();
    let first = given_back.lock().unwrap().iter().copied().min();
    assert_eq!(first, Some(store.max_phy_offset() + SIZE_AND_MAGIC_CODE));
}

/// Queues and index are written behind that, and may need the room.
#[test]
fn a_close_gives_blocks_back_before_it_writes_anything_else() {
    let root = tempfile::tempdir().unwrap();
    let is_closing = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (closing, seen) = (Arc::clone(&is_closing), Arc::clone(&calls));
    let store = open(root.path(), u64::MAX, move |call| {
        if closing.load(Ordering::Relaxed) {
            seen.lock().unwrap().push(call);
        }
        Ok(())
    });
    fill(&store, FILE_SIZE / 4);
    store.log().reserve_pass(Duration::ZERO).unwrap();
    store.log().make_next_pass(Duration::ZERO).unwrap();
    is_closing.store(true, Ordering::Relaxed);
    store.close().unwrap();
    let calls = calls.lock().unwrap();
    let first_write =
        calls.iter().position(|call| matches!(call, Call::Write { .. } | Call::Allocate { .. })).unwrap();
    let given_back = calls.iter().position(|call| matches!(call, Call::GiveBack { .. })).unwrap();
    assert!(given_back < first_write, "{calls:?}");
    assert!(!log_file(root.path(), FILE_SIZE).exists());
}

/// On a full disk what an opening notes down before it removes anything may need the room.
#[test]
fn an_opening_gives_back_the_next_file_of_a_killed_writer_before_it_notes_anything_down() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), u64::MAX, |_| Ok(()));
    let put_count = fill(&store, FILE_SIZE / 4);
    store.log().reserve_pass(Duration::ZERO).unwrap();
    store.log().make_next_pass(Duration::ZERO).unwrap();
    assert!(block_size(root.path(), FILE_SIZE) >= FILE_SIZE);
    store.reput().unwrap();
    store.flush_everything().unwrap();
    drop(store);
    // What is known to be on the disk is less now than was noted down.
    std::fs::remove_dir_all(root.path().join("consumequeue")).unwrap();
    let next_file = log_file(root.path(), FILE_SIZE);
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let (seen, next) = (Arc::clone(&sizes), next_file.clone());
    let hook = move |call, path: &Path| {
        let positions = path.file_name().is_some_and(|name| name == "positions.tmp");
        if positions && matches!(call, Call::Write { .. }) {
            seen.lock().unwrap().push(std::fs::metadata(&next).map_or(0, |found| found.blocks() * 512));
        }
        Ok(())
    };
    let config = StoreConfig { mapped_file_size_commit_log: FILE_SIZE, ..StoreConfig::new(root.path()) };
    let (store, _) = open_hooked(config, Mode::ReadWrite, Box::new(hook));
    let first = *sizes.lock().unwrap().first().unwrap();
    assert!(first <= 8192, "{first} bytes have blocks");
    assert!(!next_file.exists());
    assert_eq!(bodies(&store, "t", 0).len() as u64, put_count);
}

#[test]
fn blocks_are_not_got_early_where_room_is_scarce() {
    for (room, is_early) in [(FILE_SIZE, false), (16 * FILE_SIZE, true)] {
        let root = tempfile::tempdir().unwrap();
        let store = open(root.path(), room, |_| Ok(()));
        fill(&store, FILE_SIZE / 4);
        store.log().reserve_pass(Duration::ZERO).unwrap();
        assert_eq!(block_size(root.path(), 0) >= FILE_SIZE, is_early, "{room}");
    }
}

/// No append needs them yet; and what there is of them could be all that others have left.
#[test]
fn blocks_that_cannot_be_had_early_are_no_failure_and_are_given_back() {
    for refusal in
        [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::Unsupported, ErrorKind::Other]
    {
        let root = tempfile::tempdir().unwrap();
        let (early, given_back) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (asked, backs) = (Arc::clone(&early), Arc::clone(&given_back));
        let store = open(root.path(), u64::MAX, move |call| match call {
            Call::AllocateEarly { offset, .. } => {
                asked.store(offset, Ordering::Relaxed);
                Err(refusal.into())
            }
            Call::GiveBack { offset } => {
                backs.lock().unwrap().push(offset);
                Ok(())
            }
            _ => Ok(()),
        });
        fill(&store, FILE_SIZE / 4);
        let outcome = store.log().reserve_pass(Duration::ZERO);
        assert_eq!(outcome.is_err(), refusal == ErrorKind::Other, "{refusal}");
        let from = early.load(Ordering::Relaxed);
        assert!(from > FILE_SIZE / 4, "{from}");
        let expected = if refusal == ErrorKind::Unsupported { vec![] } else { vec![from] };
        assert_eq!(*given_back.lock().unwrap(), expected, "{refusal}");
        assert!(block_size(root.path(), 0) < FILE_SIZE);
        // It goes on as a log does that gets none early.
        let put_count = fill(&store, 2 * FILE_SIZE);
        store.close().unwrap();
        assert_eq!(count(root.path()), put_count);
    }
}
