//! What is no record, and where dispatch goes on behind it or waits.

use std::path::Path;

use mqstore_core::config::StoreConfig;

use crate::stores::{config, fields, fill, log_file, numbers, open, open_with, put, read, record_bytes};

/// Where a record's body stands in it.
const BODY_AT: u64 = 88;

fn slave(root: &Path, file_size: u64) -> crate::stores::Opened {
    open_with(StoreConfig { is_slave: true, mapped_file_size_commit_log: file_size, ..config(root) })
}

/// Only a slave waits for what such a record says to have, and not for as much as no message has.
#[test]
fn a_record_that_says_to_go_beyond_the_log_s_end_is_waited_for_by_a_slave_alone() {
    const FILE_SIZE: u64 = 16 << 20;
    let root = tempfile::tempdir().unwrap();
    let master = open_with(StoreConfig { mapped_file_size_commit_log: FILE_SIZE, ..config(root.path()) });
    fill(&master, 0..10);
    let (end, second) = (master.max_phy_offset(), master.max_phy_offset() / 10);
    let mut log = std::fs::read(log_file(root.path(), 0)).unwrap();
    log.truncate(usize::try_from(end).unwrap());
    let others: Vec<_> = (0..10).filter(|&number| number != 1).collect();
    for (size, waits) in [(end, true), (8 << 20, true), ((8 << 20) + 1, false)] {
        let at = usize::try_from(second).unwrap();
        log[at..at + 4].copy_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
        let root = tempfile::tempdir().unwrap();
        let slave = slave(root.path(), FILE_SIZE);
        slave.append_to_commit_log(0, &log).unwrap();
        let expected = if waits { vec![0] } else { others.clone() };
        assert_eq!(
            (numbers(&slave), slave.dispatcher().gaps().len()),
            (expected, usize::from(!waits)),
            "{size}"
        );
        assert_eq!(slave.dispatcher().reput_from_offset(), if waits { second } else { end });
        // Who reads takes what stands behind such a record for the next one.
        let reader = read(root.path());
        assert_eq!((numbers(&reader), reader.gaps().len()), (others.clone(), 1), "{size}");
        drop(reader);
        // What the master has next begins within what the record says to have.
        slave.append_to_commit_log(end, &[0xFF; 4000]).unwrap();
        if size == end {
            assert_eq!(numbers(&slave), others, "it was damaged");
        }
    }
}

/// The lengths behind it, by which a bad one's end is known, are not there yet.
#[test]
fn what_looks_like_a_record_in_the_body_of_one_that_is_cut_is_none() {
    let (master_root, slave_root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(master_root.path());
    fill(&master, 0..1);
    let begin = master.max_phy_offset();
    let mut body = record_bytes(&fields("t", 0, b"forged", ""), 1, begin + BODY_AT);
    body.extend([b'x'; 100]);
    put(&master, "t", 0, &body, "KEYS\x01k");
    let log = std::fs::read(log_file(master_root.path(), 0)).unwrap();
    let (end, cut) = (master.max_phy_offset(), usize::try_from(master.max_phy_offset()).unwrap() - 50);
    let slave = slave(slave_root.path(), crate::stores::LOG_FILE_SIZE);
    slave.append_to_commit_log(0, &log[..cut]).unwrap();
    assert_eq!(slave.reput().unwrap(), 1);
    assert_eq!((slave.dispatcher().reput_from_offset(), slave.dispatcher().gaps()), (begin, Vec::new()));
    slave.append_to_commit_log(cut as u64, &log[cut..usize::try_from(end).unwrap()]).unwrap();
    assert_eq!((slave.reput().unwrap(), slave.dispatcher().reput_from_offset()), (1, end));
}
