//! What a slave makes of its master's log as it comes in.

use std::path::Path;

use mqstore_core::config::StoreConfig;
use mqstore_core::store::Mode;

use crate::stores::{Opened, bodies, config, crash, open_with, put, read, try_open};

/// Larger than all that is sent.
const FILE_SIZE: u64 = 64 << 20;

fn open(root: &Path, is_slave: bool) -> Opened {
    open_with(StoreConfig { is_slave, mapped_file_size_commit_log: FILE_SIZE, ..config(root) })
}

/// The log of a master with records of so many bytes, and where they begin.
fn master_log(count: usize, size: usize) -> (Vec<u8>, Vec<usize>) {
    let root = tempfile::tempdir().unwrap();
    let master = open(root.path(), false);
    let put = |number: usize| {
        let body = format!("{number:>size$}");
        put(&master, "t", 0, body.as_bytes(), "").wrote_offset as usize
    };
    let places = (0..count).map(put).collect();
    (master.log().get_bytes(0, master.max_phy_offset()).unwrap().unwrap().to_vec(), places)
}

fn numbers(store: &Opened) -> Vec<usize> {
    bodies(store, "t", 0).iter().map(|body| body.trim().parse().unwrap()).collect()
}

/// Its frames end anywhere, and it dispatches what has come in between two of them.
#[test]
fn what_stands_behind_damage_in_the_masters_log_is_dispatched() {
    let (log, places) = master_log(12, 5000);
    // Magic code; a size that is some KiB larger, more than a record has in the file, or more than the file.
    for (at, bits) in [(4, 1), (2, 0x10), (0, 1), (0, 0x10)] {
        for frame_size in [700, 5000, 12_345] {
            let root = tempfile::tempdir().unwrap();
            let slave = open(root.path(), true);
            let mut log = log.clone();
            log[places[5] + at] ^= bits;
            let mut sent = 0;
            for frame in log.chunks(frame_size) {
                slave.append_to_commit_log(sent, frame).unwrap();
                sent += frame.len() as u64;
                slave.reput().unwrap();
            }
            let expected: Vec<_> = (0..12).filter(|&number| number != 5).collect();
            assert_eq!(numbers(&slave), expected, "{bits} at {at} in frames of {frame_size}");
            assert_eq!(slave.gaps().len(), 1);
            slave.close().unwrap();
            drop(slave);
            assert_eq!(numbers(&read(root.path())), expected, "whoever reads it");
        }
    }
}

/// Its frames end anywhere too for who reads beside it: of those that came before its first look, and of those that came since.
#[test]
fn what_stands_behind_damage_is_dispatched_by_who_reads_beside_a_slave() {
    let (mut log, places) = master_log(12, 5000);
    log[places[5] + 4] ^= 1;
    let expected: Vec<_> = (0..12).filter(|&number| number != 5).collect();
    for opened_at in [0, places[5] + 100, places[6] + 100, places[7] + 100] {
        for frame_size in [700, 5000, 12_345] {
            let root = tempfile::tempdir().unwrap();
            let slave = open(root.path(), true);
            let (before, behind) = log.split_at(opened_at);
            let mut sent = 0;
            let mut reader = None;
            for frame in before.chunks(frame_size).chain([&[][..]]).chain(behind.chunks(frame_size)) {
                if sent == opened_at as u64 && reader.is_none() {
                    let config =
                        StoreConfig { mapped_file_size_commit_log: FILE_SIZE, ..config(root.path()) };
                    reader = Some(try_open(config, Mode::Read).unwrap());
                }
                if frame.is_empty() {
                    continue;
                }
                slave.append_to_commit_log(sent, frame).unwrap();
                sent += frame.len() as u64;
                slave.reput().unwrap();
                if let Some(reader) = &reader {
                    reader.refresh().unwrap();
                }
            }
            let reader = reader.unwrap();
            assert_eq!(numbers(&reader), expected, "opened at {opened_at}, in frames of {frame_size}");
            assert_eq!((reader.gaps(), reader.dispatch_behind_bytes()), (slave.gaps(), 0));
        }
    }
}

/// The package gives a slave none, as 4.9.3: what the engine has in one is in the files all the same once it is closed.
#[test]
fn a_close_leaves_nothing_that_was_received_in_a_pool() {
    let (log, _) = master_log(12, 5000);
    let root = tempfile::tempdir().unwrap();
    let with_pool = StoreConfig {
        is_slave: true,
        mapped_file_size_commit_log: 1 << 20,
        transient_store_pool_enable: true,
        transient_store_pool_size: 1,
        ..config(root.path())
    };
    let slave = open_with(with_pool);
    // Inside of the last record: what is there of it is committed too.
    let end = log.len() - 10;
    slave.append_to_commit_log(0, &log[..end]).unwrap();
    assert_eq!(slave.log().committed_offset(), 0);
    slave.close().unwrap();
    drop(slave);
    let files = root.path().join("commitlog").join(format!("{:020}", 0));
    assert_eq!(std::fs::read(files).unwrap()[..end], log[..end]);
    assert_eq!(numbers(&read(root.path())), (0..11).collect::<Vec<_>>());
}

/// It was cut inside of the first record that it got, and the next master has an earlier file.
#[test]
fn a_log_that_begins_anew_further_back_is_dispatched_from_there() {
    let (log, _) = master_log(5, 100);
    for killed in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let slave = open(root.path(), true);
        slave.append_to_commit_log(3 * FILE_SIZE, &log[..150]).unwrap();
        slave.reput().unwrap();
        if killed {
            crash(slave);
        } else {
            slave.close().unwrap();
        }
        let slave = open(root.path(), true);
        slave.reput().unwrap();
        assert_eq!(slave.dispatch_behind_bytes(), 0);
        slave.append_to_commit_log(0, &log).unwrap();
        slave.reput().unwrap();
        assert_eq!(numbers(&slave), [0, 1, 2, 3, 4]);
    }
}
