//! A disk that is full: a file system that has only so many blocks to give.
//!
//! Of the machine's own disks none can be filled where no file system can be mounted; this one runs everywhere.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::fs::{DirEntry, FileHandle, FileSystem, LockOutcome, Metadata, OpenMode, Space};
use mqstore_core::mmap::region::Region;
use mqstore_core::sync::Mutex;
use nix::errno::Errno;

use crate::check::check;
use crate::disk::{Moments, RecordedDisk};
use crate::faults::{begin, drive};
use crate::image;
use crate::lives::repeatable;
use crate::stores::copy_folder;
use crate::workload::{KINDS, Kind, config};
use crate::{scratch, setting};

const BLOCK_SIZE: u64 = 512;
/// Sizes of disks that each kind of store is tried on.
const SIZES: u64 = 6;

/// The blocks that a disk has.
#[derive(Debug)]
struct Quota {
    state: Mutex<Blocks>,
}

#[derive(Debug)]
struct Blocks {
    limit: usize,
    used: usize,
    of_files: HashMap<PathBuf, BTreeSet<u64>>,
    refused_count: usize,
}

impl Quota {
    fn new(limit: usize) -> Arc<Self> {
        let state = Blocks { limit, used: 0, of_files: HashMap::new(), refused_count: 0 };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Takes the blocks that a range of a file has not got yet: all of them or none.
    fn take(&self, path: &Path, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let Blocks { limit, used, of_files, refused_count } = &mut *state;
        let own = of_files.entry(path.into()).or_default();
        let wanted = offset / BLOCK_SIZE..(offset + len).div_ceil(BLOCK_SIZE);
        let new: Vec<u64> = wanted.filter(|block| !own.contains(block)).collect();
        if *used + new.len() > *limit {
            *refused_count += 1;
            return Err(Errno::ENOSPC.into());
        }
        *used += new.len();
        own.extend(new);
        Ok(())
    }

    /// Gives back what a file has behind its end.
    fn cut(&self, path: &Path, len: u64) {
        let mut state = self.state.lock();
        let gone = state.of_files.get_mut(path).map(|own| own.split_off(&len.div_ceil(BLOCK_SIZE)));
        state.used -= gone.map_or(0, |gone| gone.len());
    }

    /// Gives back all blocks of a file that lie in a range of whole pages.
    fn give_back(&self, path: &Path, offset: u64, len: u64) {
        const PAGE_SIZE: u64 = 4096;
        let pages = offset.next_multiple_of(PAGE_SIZE)..(offset + len) / PAGE_SIZE * PAGE_SIZE;
        let mut state = self.state.lock();
        let Blocks { used, of_files, .. } = &mut *state;
        let Some(own) = of_files.get_mut(path) else { return };
        let before = own.len();
        own.retain(|block| !pages.contains(&(block * BLOCK_SIZE)));
        *used -= before - own.len();
    }

    fn rename(&self, from: &Path, to: &Path) {
        self.cut(to, 0);
        let mut state = self.state.lock();
        if let Some(own) = state.of_files.remove(from) {
            state.of_files.insert(to.into(), own);
        }
    }
}

#[derive(Debug)]
struct SmallDisk {
    fs: Arc<dyn FileSystem>,
    quota: Arc<Quota>,
}

#[derive(Debug)]
struct FileOnIt {
    file: Arc<dyn FileHandle>,
    quota: Arc<Quota>,
    path: PathBuf,
}

impl FileSystem for SmallDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let file = self.fs.open(path, mode)?;
        Ok(Arc::new(FileOnIt { file, quota: Arc::clone(&self.quota), path: path.into() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.fs.metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.read_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fs.create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_file(path)?;
        self.quota.cut(path, 0);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs.rename(from, to)?;
        self.quota.rename(from, to);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_dir(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.fs.sync_all(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.fs.space(path)
    }
}

impl FileHandle for FileOnIt {
    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.quota.cut(&self.path, len);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.quota.take(&self.path, offset, len)?;
        self.file.allocate(offset, len)
    }

    fn allocate_unwritten(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.quota.take(&self.path, offset, len)?;
        self.file.allocate_unwritten(offset, len)
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.give_back(offset, len)?;
        self.quota.give_back(&self.path, offset, len);
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // As much as there is room for is written.
        let mut done = 0;
        for part in bytes.chunks(BLOCK_SIZE as usize) {
            let room = self.quota.take(&self.path, offset + done as u64, part.len() as u64);
            if let Err(full) = room {
                self.file.write_at(&bytes[..done], offset)?;
                return Err(full);
            }
            done += part.len();
        }
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        self.file.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        self.file.next_hole(offset)
    }

    fn map(&self, len: usize, writable: bool) -> io::Result<Region> {
        self.file.map(len, writable)
    }

    fn flush_mapped(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        self.file.flush_mapped(region, offset, len)
    }

    fn populate(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        self.file.populate(region, offset, len)
    }

    fn try_lock(&self) -> io::Result<LockOutcome> {
        self.file.try_lock()
    }

    fn lock_holder(&self) -> io::Result<Option<LockOutcome>> {
        self.file.lock_holder()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// Lets a store live on a disk of so many blocks, looks at what it left, makes room and lets it live on. Gives
/// how many blocks it had in the end, and how often it got none.
fn live_on(folder: &Path, kind: Kind, limit: usize, seed: u64) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (root, copy) = (folder.join("store"), folder.join("image"));
    std::fs::create_dir_all(&root).unwrap();
    let known = begin(&root, kind, &mut random);
    let disk = RecordedDisk::new(&root, random.u64(..), Moments::one_in(40), known);
    let quota = Quota::new(limit);
    let fs: Arc<dyn FileSystem> = Arc::new(SmallDisk { fs: disk.file_system(), quota: Arc::clone(&quota) });
    drive(&root, kind, &disk, &fs, &mut random);
    let (used, refused_count) = {
        let mut state = quota.state.lock();
        state.limit = usize::MAX;
        (state.used, state.refused_count)
    };
    for is_first in [true, false] {
        let mut all = disk.known();
        all.promised = std::mem::take(&mut all.appended);
        copy_folder(&root, &copy);
        check(&config(&copy, kind), &all);
        std::fs::remove_dir_all(&copy).unwrap();
        if is_first {
            drive(&root, kind, &disk, &fs, &mut random);
        }
    }
    for capture in disk.captures() {
        image::make(&capture, &copy, &mut random);
        check(&config(&copy, kind), &capture.known);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    std::fs::remove_dir_all(&root).unwrap();
    (used, refused_count)
}

#[test]
fn a_full_disk_loses_nothing_and_takes_messages_again_once_there_is_room() {
    let (mut count, mut refused) = (0, 0);
    repeatable(1, |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = scratch();
        for kind in KINDS {
            let life = random.u64(..);
            let (used, without) = live_on(folder.path(), kind, usize::MAX, life);
            assert_eq!(without, 0);
            for _ in 0..setting("MQSTORE_CALLS", SIZES) {
                let limit = random.usize(..used);
                let (at_end, refused_count) = live_on(folder.path(), kind, limit, life);
                assert!(at_end <= limit, "{kind:?}, {limit} blocks");
                refused += usize::from(refused_count > 0);
                count += 1;
            }
        }
    });
    assert!(refused * 2 > count, "{refused} of {count} came to the disk's end");
    println!("{count} lives on small disks, {refused} of them on full ones");
}
