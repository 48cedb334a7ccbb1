//! Power cuts while a store is a slave, becomes a master, and is a slave again.
//!
//! What a slave gets is bytes of its master's log, cut anywhere; its log ends in the middle of a record as a
//! rule. Opened again in either role it has lost that record and no other one that was flushed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::config::StoreConfig;
use mqstore_core::fs::OsFileSystem;

use crate::check::Known;
use crate::disk::{Capture, Moments, RecordedDisk};
use crate::lives::{Case, Extent, Totals, begin, repeatable, run, try_step};
use crate::scratch;
use crate::script::{ALL, Mix, Step, steps};
use crate::workload::{Acknowledged, Driven, KINDS, Kind, config};

const STEPS: usize = 60;
/// Most bytes that come in one piece.
const FRAME: u64 = 1500;

/// What a slave follows.
struct Master {
    driven: Driven,
    /// All that it put.
    done: Vec<Acknowledged>,
}

/// A store of changing roles.
struct Changing {
    kind: Kind,
    folder: PathBuf,
    /// While the store is a slave.
    master: Option<Master>,
    master_count: usize,
}

impl Changing {
    /// The options in a role.
    fn config_as(&self, root: &Path, is_slave: bool) -> StoreConfig {
        let config = config(root, self.kind);
        // Only a master has the pool.
        let transient_store_pool_enable = config.transient_store_pool_enable && !is_slave;
        StoreConfig { is_slave, transient_store_pool_enable, ..config }
    }

    /// A new master, which has what the store has.
    fn follow_anew(&mut self, store: &Driven, now_ms: i64) {
        self.master_count += 1;
        let root = self.folder.join(format!("master {}", self.master_count));
        std::fs::create_dir_all(root.join("commitlog")).unwrap();
        for file in std::fs::read_dir(store.store.path().join("commitlog")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), root.join("commitlog").join(file.file_name())).unwrap();
        }
        let driven = Driven::open(config(&root, Kind::Asynchronous), Arc::new(OsFileSystem), now_ms).unwrap();
        assert_eq!(driven.store.log().max_offset(), store.store.log().max_offset());
        self.master = Some(Master { driven, done: Vec::new() });
    }
}

impl Master {
    /// Sends what a slave does not have yet, in some pieces or none.
    fn send(&self, slave: &Driven, disk: &RecordedDisk<Known>, random: &mut fastrand::Rng) {
        for _ in 0..random.usize(..4) {
            let from = slave.store.log().max_offset();
            let Some(bytes) = self.driven.store.log().get_bytes(from, random.u64(1..FRAME)).unwrap() else {
                return;
            };
            let end = from + bytes.len() as u64;
            disk.know(|known| {
                let sent = self.done.iter().filter(|done| done.offset < end && done.end > from);
                known.tried.extend(sent.map(|done| (done.put.name.clone(), done.put.clone())));
            });
            slave.store.append_to_commit_log(from, &bytes).unwrap();
        }
    }
}

impl Case for Changing {
    fn name(&self) -> String {
        format!("role change, {:?}", self.kind)
    }

    fn config(&self, root: &Path, random: &mut fastrand::Rng) -> StoreConfig {
        self.config_as(root, random.bool())
    }

    fn live(
        &mut self,
        root: &Path,
        life: usize,
        known: Known,
        random: &mut fastrand::Rng,
    ) -> Vec<Capture<Known>> {
        let is_slave = life.is_multiple_of(2) || random.u8(..4) == 0;
        let disk = RecordedDisk::new(root, random.u64(..), Moments::one_in(8), known);
        let fs = disk.file_system();
        let mut now_ms = 1_700_000_000_000 + life as i64 * 1000;
        let driven = begin(&disk, self.config_as(root, is_slave), now_ms);
        let mut acknowledged = disk.known().promised;
        if !is_slave {
            self.master = None;
        } else if self.master.is_none() {
            self.follow_anew(&driven, now_ms);
        }
        for step in steps(life, STEPS, &Mix { flush_log: 20, config: 0, ..ALL }, random) {
            now_ms += random.i64(0..3);
            let kept_from = driven.kept_from(&step);
            acknowledged.retain(|done: &Acknowledged| done.offset >= kept_from);
            disk.know(|known| known.promised.retain(|done| done.offset >= kept_from));
            match (&mut self.master, &step) {
                (Some(master), Step::Put(_) | Step::EndFile) => {
                    master.done.extend(master.driven.make(&step, &OsFileSystem, now_ms).unwrap().done);
                    let had = driven.store.log().max_offset();
                    master.send(&driven, &disk, random);
                    let has = driven.store.log().max_offset();
                    let whole = master.done.iter().filter(|done| (had + 1..=has).contains(&done.end));
                    acknowledged.extend(whole.cloned());
                }
                _ => {
                    disk.know(|known| try_step(known, &step, Vec::new()));
                    acknowledged.extend(driven.make(&step, &*fs, now_ms).unwrap().done);
                }
            }
            let flushed = driven.store.log().flushed_offset();
            disk.know(|known| {
                known.promised = acknowledged.iter().filter(|done| done.end <= flushed).cloned().collect();
            });
        }
        if random.bool() {
            driven.store.close().unwrap();
            disk.know(|known| known.promised = acknowledged);
        }
        disk.captures()
    }
}

#[test]
fn a_slave_that_becomes_a_master_and_a_slave_again_loses_nothing_it_had_flushed() {
    let mut totals = Totals::default();
    let extent = Extent { lives: 4, images: 2, nested_one_in: 60 };
    repeatable(1, |seed| {
        for kind in KINDS {
            let folder = scratch();
            let mut case = Changing { kind, folder: folder.path().into(), master: None, master_count: 0 };
            run(&mut case, extent, seed, &mut totals);
        }
    });
    totals.print();
}
