//! A log in several folders, of which one's disk is full: it goes on in another one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mqstore_core::config::StoreConfig;
use mqstore_core::store::{Mode, Store};

use crate::hooked::{Call, open_hooked};
use crate::stores::{bodies, message, try_open, try_put};

const FILE_SIZE: u64 = 512 << 10;
const STEP: u64 = 64 << 10;

fn config_of(root: &Path) -> StoreConfig {
    StoreConfig {
        mapped_file_size_commit_log: FILE_SIZE,
        reserve_step_size: STEP,
        max_message_size: 300 << 10,
        store_path_commit_log: ["a", "b"].map(|name| root.join(name)).into(),
        ..StoreConfig::new(root)
    }
}

/// A store whose folders have room for so many bytes of each file, as long as nobody makes it more.
fn open(root: &Path, rooms: [u64; 2]) -> (Arc<Store>, Arc<[AtomicU64; 2]>) {
    open_with(config_of(root), rooms)
}

fn open_with(config: StoreConfig, rooms: [u64; 2]) -> (Arc<Store>, Arc<[AtomicU64; 2]>) {
    let rooms = Arc::new(rooms.map(AtomicU64::new));
    let known = Arc::clone(&rooms);
    let hook = move |call, path: &Path| {
        let (Call::Allocate { offset, len } | Call::AllocateEarly { offset, len }) = call else {
            return Ok(());
        };
        let folder = usize::from(path.parent().is_some_and(|folder| folder.ends_with("b")));
        let is_full = offset + len > known[folder].load(Ordering::Relaxed);
        if is_full { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    };
    (open_hooked(config, Mode::ReadWrite, Box::new(hook)).0, rooms)
}

fn body(number: usize) -> String {
    format!("{number:010000}")
}

/// Puts a message, and does what the background would.
fn put(store: &Store, number: usize) -> bool {
    let is_put = try_put(store, &message("t", 0, body(number).as_bytes(), "")).is_ok();
    let _tried_again = store.log().reserve_pass(Duration::ZERO);
    let _tried_again = store.log().make_next_pass(Duration::ZERO);
    is_put
}

fn folders(store: &Store) -> Vec<PathBuf> {
    store.log().files().files().iter().map(|file| file.path().parent().unwrap().into()).collect()
}

fn check(root: &Path, put_count: usize) {
    let store = try_open(config_of(root), Mode::ReadWrite).unwrap();
    assert_eq!(bodies(&store, "t", 0), (0..put_count).map(body).collect::<Vec<_>>());
    assert_eq!((store.gaps(), store.rejected_count()), (Vec::new(), 0));
}

#[test]
fn a_file_that_one_folder_has_no_room_for_is_made_in_another() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = open(root.path(), [u64::MAX, 0]);
    assert!((0..200).all(|number| put(&store, number)));
    assert_eq!(
        folders(&store),
        [root.path().join("a"), root.path().join("a"), root.path().join("a"), root.path().join("a")]
    );
    store.close().unwrap();
    check(root.path(), 200);
}

#[test]
fn a_file_ends_where_its_folder_has_no_room_for_more() {
    let root = tempfile::tempdir().unwrap();
    let (store, rooms) = open(root.path(), [u64::MAX, 7 * STEP]);
    assert!((0..200).all(|number| put(&store, number)));
    let short = folders(&store).iter().filter(|folder| folder.ends_with("b")).count();
    assert!(short > 1, "files go round");
    // Both are full: nothing is taken, and no file ends for each message that is refused.
    rooms.iter().for_each(|room| room.store(0, Ordering::Relaxed));
    let taken = (200..300).take_while(|&number| put(&store, number)).count();
    let end = folders(&store).len();
    assert!(taken < 100 && (0..20).all(|_| !put(&store, 200 + taken)));
    assert_eq!(folders(&store).len(), end);
    rooms[0].store(u64::MAX, Ordering::Relaxed);
    assert!((200 + taken..300).all(|number| put(&store, number)));
    store.close().unwrap();
    check(root.path(), 300);
}

/// Its rest was given back when it was closed.
#[test]
fn a_file_that_was_begun_before_ends_where_its_folder_has_no_room_any_more() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = open(root.path(), [u64::MAX; 2]);
    assert!((0..60).all(|number| put(&store, number)));
    assert_eq!(folders(&store), [root.path().join("a"), root.path().join("b")]);
    store.close().unwrap();
    let (store, _) = open(root.path(), [u64::MAX, 7 * STEP]);
    assert!((60..100).all(|number| put(&store, number)));
    assert_eq!(folders(&store)[2], root.path().join("a"));
    store.close().unwrap();
    check(root.path(), 100);
}

/// A file without any record can't end: no record would ever come out of it.
#[test]
fn a_file_is_made_where_there_is_room_for_any_record() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = open(root.path(), [u64::MAX, 3 * STEP]);
    let body = vec![b'x'; 280 << 10];
    let put = |_| try_put(&store, &message("t", 0, &body, "")).is_ok();
    assert!((0..6).all(put));
    assert!(folders(&store).iter().all(|folder| folder.ends_with("a")));
}

/// Its files end where its master's do.
#[test]
fn a_slave_makes_a_file_where_there_is_room_for_all_of_it() {
    let root = tempfile::tempdir().unwrap();
    let (master, _) = open(&root.path().join("master"), [u64::MAX; 2]);
    assert!((0..150).all(|number| put(&master, number)));
    let config = StoreConfig { is_slave: true, ..config_of(&root.path().join("slave")) };
    let (slave, _) = open_with(config, [u64::MAX, FILE_SIZE - STEP]);
    while slave.max_phy_offset() < master.max_phy_offset() {
        let from = slave.max_phy_offset();
        let sent = master.log().get_data(from).unwrap().unwrap();
        slave.append_to_commit_log(from, &sent[..sent.len().min(30_000)]).unwrap();
    }
    slave.reput().unwrap();
    assert_eq!(bodies(&slave, "t", 0), (0..150).map(body).collect::<Vec<_>>());
    assert!(folders(&slave).iter().all(|folder| folder.ends_with("a")));
}
