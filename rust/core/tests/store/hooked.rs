//! The machine's file system, with a function that is called before some of its calls and can refuse them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqstore_core::clock::ManualClock;
use mqstore_core::config::StoreConfig;
use mqstore_core::fs::{
    DirEntry, FileHandle, FileSystem, LockOutcome, Metadata, OpenMode, OsFileSystem, Space,
};
use mqstore_core::mmap::region::Region;
use mqstore_core::store::{Mode, Store};

/// A call.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    Open,
    Metadata,
    List,
    Allocate {
        offset: u64,
        #[allow(dead_code)] // not every test looks at how much
        len: u64,
    },
    /// Where nothing has to be written for it.
    AllocateEarly {
        offset: u64,
        #[allow(dead_code)] // as there
        len: u64,
    },
    GiveBack {
        offset: u64,
    },
    /// Where the other one was refused as unsupported: between the reading of a part and its writing.
    WriteBack,
    #[allow(dead_code)] // not every test looks at where
    Write {
        offset: u64,
        len: usize,
    },
    Sync,
    /// A flush of what is mapped.
    FlushMapped,
    SyncDir,
    SyncAll,
}

pub type Hook = Box<dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync>;

pub struct HookedFileSystem {
    hook: Arc<Hook>,
    /// As many bytes are free, where it is said.
    room: Option<u64>,
}

struct HookedFile {
    file: Arc<dyn FileHandle>,
    hook: Arc<Hook>,
    path: PathBuf,
}

/// A store with a clock that stands at 1,000,000 ms.
pub fn open_hooked(config: StoreConfig, mode: Mode, hook: Hook) -> (Arc<Store>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let fs = Arc::new(HookedFileSystem::new(hook));
    (Store::open(config, fs, Arc::<ManualClock>::clone(&clock), mode).unwrap(), clock)
}

impl HookedFileSystem {
    pub fn new(hook: Hook) -> Self {
        Self { hook: Arc::new(hook), room: None }
    }

    /// One that says that so many bytes are free.
    pub fn with_room(hook: Hook, room: u64) -> Self {
        Self { hook: Arc::new(hook), room: Some(room) }
    }
}

impl std::fmt::Debug for HookedFileSystem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HookedFileSystem").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HookedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HookedFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileSystem for HookedFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        (self.hook)(Call::Open, path)?;
        let file = OsFileSystem.open(path, mode)?;
        Ok(Arc::new(HookedFile { file, hook: Arc::clone(&self.hook), path: path.into() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        (self.hook)(Call::Metadata, path)?;
        OsFileSystem.metadata(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        (self.hook)(Call::List, path)?;
        OsFileSystem.read_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsFileSystem.remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsFileSystem.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Call::SyncDir, path)?;
        OsFileSystem.sync_dir(path)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Call::SyncAll, path)?;
        OsFileSystem.sync_all(path)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let found = OsFileSystem.space(path)?;
        Ok(self.room.map_or(found, |available| Space { available, ..found }))
    }
}

impl HookedFile {
    fn call(&self, call: Call) -> io::Result<()> {
        (self.hook)(call, &self.path)
    }

    /// As the engine does it where the file system can't reserve blocks.
    fn write_back(&self, offset: u64, len: u64) -> io::Result<()> {
        const STEP: u64 = 1 << 16;
        for at in (offset..offset + len).step_by(1 << 16) {
            let mut present = vec![0; usize::try_from(STEP.min(offset + len - at)).unwrap()];
            assert_eq!(self.file.read_at(&mut present, at)?, present.len());
            self.call(Call::WriteBack)?;
            self.file.write_at(&present, at)?;
        }
        Ok(())
    }
}

impl FileHandle for HookedFile {
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.call(Call::Allocate { offset, len }) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => self.write_back(offset, len),
            Err(error) => Err(error),
            Ok(()) => self.file.allocate(offset, len),
        }
    }

    fn allocate_unwritten(&self, offset: u64, len: u64) -> io::Result<bool> {
        match self.call(Call::AllocateEarly { offset, len }) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
            Err(error) => Err(error),
            Ok(()) => self.file.allocate_unwritten(offset, len),
        }
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        self.call(Call::GiveBack { offset })?;
        self.file.give_back(offset, len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call(Call::Write { offset, len: bytes.len() })?;
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Call::Sync)?;
        self.file.sync_data()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
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
        self.call(Call::FlushMapped)?;
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
