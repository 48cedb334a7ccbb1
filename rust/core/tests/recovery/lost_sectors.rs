//! What a power cut leaves of the log: of any sector that was not flushed, what was in it when it was last
//! written, which is zeros from somewhere on.

use mqstore_core::commit_log::Wait;
use mqstore_core::config::StoreConfig;
use mqstore_core::error::{Error, Result};
use mqstore_core::recovery::{StoreState, log_end};

use crate::parts::{Parts, set_positions};
use crate::stores::{LOG_FILE_SIZE, config, crash, fill, log_file, open_with, patch, put};

const SECTOR: usize = 512;
/// Where the fields of a record stand that no checksum covers: system flag, born time, hosts, store time,
/// reconsume times, offset of the prepared half; and, behind a body of eighty bytes and the topic, the properties.
const UNCOVERED: [std::ops::Range<usize>; 2] = [36..84, 88 + 80 + 1 + 1..300];

/// The second log file of a store that was killed, and where records begin in it.
struct Killed {
    root: tempfile::TempDir,
    content: Vec<u8>,
    starts: Vec<usize>,
    end: usize,
}

fn killed(enabled_append_prop_crc: bool) -> Killed {
    let root = tempfile::tempdir().unwrap();
    let store = open_with(StoreConfig { enabled_append_prop_crc, ..config(root.path()) });
    fill(&store, 0..3);
    store.log().end_file(Wait::Block).unwrap();
    let starts = (22..34).map(|number| {
        let place =
            put(&store, "t", 0, &[b'x'; 80], &format!("KEYS\x01k{number}\x02P\x01{:0>100}", 1)).wrote_offset;
        usize::try_from(place - LOG_FILE_SIZE).unwrap()
    });
    let starts = starts.collect();
    let end = usize::try_from(store.max_phy_offset() - LOG_FILE_SIZE).unwrap();
    crash(store);
    let content = std::fs::read(log_file(root.path(), LOG_FILE_SIZE)).unwrap();
    Killed { root, content, starts, end }
}

impl Killed {
    /// Where a writer that everything up to an offset of the file was flushed for finds the log's end in it.
    fn end_of(&self, flushed: usize, content: &[u8]) -> Result<usize> {
        std::fs::write(log_file(self.root.path(), LOG_FILE_SIZE), content).unwrap();
        let flushed = LOG_FILE_SIZE + flushed as u64;
        set_positions(self.root.path(), flushed, flushed, flushed);
        let found = log_end::find(Parts::of(self.root.path()).recovered(StoreState::Crashed))?;
        Ok(usize::try_from(found.log_end - LOG_FILE_SIZE).unwrap())
    }

    /// The file with zeros from an offset to the end of its sector.
    fn without(&self, from: usize) -> Vec<u8> {
        let mut content = self.content.clone();
        content[from..sector_end(from)].fill(0);
        content
    }

    /// The record in which a byte lies: where it begins and ends.
    fn record_of(&self, byte: usize) -> (usize, usize) {
        let next = self.starts.partition_point(|&start| start <= byte);
        (self.starts[next - 1], self.starts.get(next).copied().unwrap_or(self.end))
    }

    /// The first byte from an offset on that is lost with the rest of its sector.
    fn first_lost(&self, from: usize) -> Option<usize> {
        (from..sector_end(from)).find(|&at| self.content[at] != 0)
    }
}

fn sector_end(at: usize) -> usize {
    at - at % SECTOR + SECTOR
}

#[test]
fn the_log_ends_before_the_first_record_that_lost_something_of_what_was_not_flushed() {
    for has_crc in [true, false] {
        let killed = killed(has_crc);
        let (third, fourth) = (killed.starts[3], killed.starts[4]);
        // Up to a record's begin, and, as a slave can have it, up to somewhere in one.
        for flushed in [0, third, third + 100, fourth - 1] {
            for from in (flushed..killed.end).step_by(5) {
                let Some(lost) = killed.first_lost(from) else { continue };
                let (start, _) = killed.record_of(lost);
                let is_of_head =
                    UNCOVERED[0].contains(&(lost - start)) && sector_end(lost) <= start + UNCOVERED[0].end;
                if is_of_head && !has_crc {
                    continue;
                }
                let found = killed.end_of(flushed, &killed.without(from));
                assert_eq!(found.unwrap(), start, "{flushed} flushed, lost from {from} on");
            }
        }
    }
}

#[test]
fn a_record_that_lost_its_properties_alone_goes_with_all_behind_it() {
    let killed = killed(false);
    let is_of_properties = |at: &usize| {
        let (start, end) = killed.record_of(*at);
        UNCOVERED[1].contains(&(at - start))
            && at - start >= UNCOVERED[1].start + 2
            && killed.first_lost(*at) == Some(*at)
            && sector_end(*at) < end
    };
    let lost = (0..killed.end).find(is_of_properties).unwrap();
    let (start, _) = killed.record_of(lost);
    let path = log_file(killed.root.path(), LOG_FILE_SIZE);
    std::fs::write(&path, killed.without(lost)).unwrap();
    set_positions(killed.root.path(), LOG_FILE_SIZE, 0, 0);
    let store = open_with(config(killed.root.path()));
    assert_eq!(store.max_phy_offset(), LOG_FILE_SIZE + start as u64);
    assert!(std::fs::read(path).unwrap()[start..].iter().all(|&byte| byte == 0));
}

#[test]
fn what_was_flushed_is_not_cut_off_for_zeros_in_it() {
    let killed = killed(false);
    let flushed = killed.starts[6];
    for from in (0..flushed).step_by(5) {
        let Some(bad) = killed.first_lost(from) else { continue };
        let (start, end) = killed.record_of(bad);
        // What is missing in these fields alone is for `verify` to find.
        if UNCOVERED.iter().any(|fields| fields.contains(&(bad - start))) || end > flushed {
            continue;
        }
        let found = killed.end_of(flushed, &killed.without(from));
        let place = LOG_FILE_SIZE + start as u64;
        assert!(matches!(found, Err(Error::Damaged { offset, .. }) if offset == place), "{from}: {found:?}");
    }
}

#[test]
fn damage_that_no_power_cut_leaves_is_refused_wherever_it_is() {
    let killed = killed(false);
    for flushed in [0, killed.starts[3], killed.end] {
        // What is lost ends in zeros: of these records no sector does.
        let ends_otherwise = |&&start: &&usize| {
            let (_, end) = killed.record_of(start);
            (start..end).all(|at| killed.content[sector_end(at) - 1] != 0)
        };
        let starts: Vec<_> = killed.starts.iter().filter(ends_otherwise).copied().collect();
        assert!(starts.len() > 3 && starts.iter().any(|&start| start > flushed) == (flushed < killed.end));
        for &start in &starts[..starts.len() - 1] {
            let mut content = killed.content.clone();
            content[start + 90] ^= 1;
            let found = killed.end_of(flushed, &content);
            let place = LOG_FILE_SIZE + start as u64;
            assert!(
                matches!(found, Err(Error::Damaged { offset, .. }) if offset == place),
                "{start}: {found:?}"
            );
        }
    }
}

/// Of a torn last record nothing is promised by what follows: nothing does.
#[test]
fn a_last_record_that_is_not_whole_is_cut_off_whatever_was_flushed_before() {
    let killed = killed(false);
    let (start, _) = killed.record_of(killed.end - 1);
    for flushed in [0, killed.starts[3], start] {
        let mut content = killed.content.clone();
        content[start + 90] ^= 1;
        assert_eq!(killed.end_of(flushed, &content).unwrap(), start);
        content[start..].fill(0);
        assert_eq!(killed.end_of(flushed, &content).unwrap(), start);
    }
}

/// A reader of the same store passes over what a writer would refuse.
#[test]
fn a_reader_goes_on_behind_damage() {
    let killed = killed(false);
    let (bad, next) = (killed.starts[4], killed.starts[5]);
    let mut content = killed.content.clone();
    content[bad + 90] ^= 1;
    std::fs::write(log_file(killed.root.path(), LOG_FILE_SIZE), &content).unwrap();
    for state in [StoreState::Crashed, StoreState::Closed, StoreState::Live { wrote: None, dispatched: 0 }] {
        let parts = Parts::with(config(killed.root.path()));
        let mut of = parts.recovered(state);
        of.writable = false;
        let found = log_end::find(of).unwrap();
        let gaps: Vec<_> = found.gaps.iter().map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(
            gaps,
            [(bad, next)].map(|(from, to)| (LOG_FILE_SIZE + from as u64, LOG_FILE_SIZE + to as u64))
        );
        assert_eq!(found.log_end, LOG_FILE_SIZE + killed.end as u64, "{state:?}");
    }
}

/// Zeros in properties are told from those that a power cut left there by the record's checksum, whether the walk looks
/// at checksums or not.
#[test]
fn by_its_checksum_a_record_with_zeros_in_its_properties_is_whole_or_lost_some() {
    for check_crc_on_recover in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let with = StoreConfig { enabled_append_prop_crc: true, check_crc_on_recover, ..config(root.path()) };
        let store = open_with(with.clone());
        fill(&store, 0..3);
        store.log().end_file(Wait::Block).unwrap();
        fill(&store, 3..4);
        let whole = put(&store, "t", 0, b"b", &format!("K\x01{}", "\0".repeat(600)));
        let torn = put(&store, "t", 0, b"c", &format!("K\x01{}", "v".repeat(1200))).wrote_offset;
        fill(&store, 4..5);
        let end = store.max_phy_offset();
        crash(store);
        set_positions(root.path(), LOG_FILE_SIZE, 0, 0);
        let log_end = || {
            log_end::find(Parts::with(with.clone()).recovered(StoreState::Crashed)).map(|found| found.log_end)
        };
        assert!(LOG_FILE_SIZE < whole.wrote_offset && whole.end_offset() == torn);
        assert_eq!(log_end().unwrap(), end, "checked: {check_crc_on_recover}");
        patch(&log_file(root.path(), LOG_FILE_SIZE), torn - LOG_FILE_SIZE, |bytes| {
            let lost = sector_end(usize::try_from(torn).unwrap() + 200) - usize::try_from(torn).unwrap();
            bytes[lost..lost + SECTOR].fill(0);
        });
        assert_eq!(log_end().unwrap(), torn, "checked: {check_crc_on_recover}");
    }
}
