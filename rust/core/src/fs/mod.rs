//! The one seam through which every file operation of the engine goes.
//!
//! [`OsFileSystem`] is the operating system's. A test puts its own in front of it: to fail the nth
//! call, or to record what a crash would leave.

mod blocks;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::stat::futimens;
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, lseek};

use crate::error::{Error, Result};
use crate::mmap::region::Region;
use crate::num;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To read what is there.
    Read,
    /// To read and write what is there.
    Write,
    /// To read and write, made where it is missing.
    Create,
    /// To read and write a file that must not exist yet.
    CreateNew,
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes of a file.
    pub len: u64,
    /// Bytes of it that take space on the disk.
    pub allocated: u64,
    /// When its content changed last, in milliseconds, as Java's `File.lastModified`.
    pub modified_ms: i64,
    /// Which file it is: device and number, so that a replaced file is told from the old one.
    pub identity: (u64, u64),
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name; bytes that are no UTF-8 are replaced, and such a name is never a store's.
    pub name: String,
    /// Whether it is a folder that can be gone into by this name.
    pub is_dir: bool,
}

/// Space of the file system that a path lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that nobody uses.
    pub free: u64,
    /// Bytes that this process may still use.
    pub available: u64,
}

/// How taking the lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// It is ours until the handle is dropped.
    Taken,
    /// Somebody has it: the process id where the kind of lock tells it.
    Held(Option<i32>),
}

/// Files and folders.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>>;
    /// What a path names; `None` where nothing is there.
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>>;
    /// The entries of a folder, in no order; not what the file system has at its own root for itself.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes a folder and those above it.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, replacing what has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Brings a folder's entries to the disk.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Brings everything of the file system on which a path lies to the disk: cheaper than many
    /// single syncs.
    fn sync_all(&self, path: &Path) -> io::Result<()>;
    /// Space where a path lies.
    fn space(&self, path: &Path) -> io::Result<Space>;
    /// The path without links.
    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.into())
    }
    /// Whether each read costs a round trip to another machine, so that little is to be read at a time.
    fn is_remote(&self) -> bool {
        false
    }
}

/// An open file. All methods can be called from several threads at once.
pub trait FileHandle: Send + Sync + fmt::Debug {
    /// What it is now.
    fn metadata(&self) -> io::Result<Metadata>;
    /// Sets its length; a longer one reads as zeros and takes no space.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves blocks for a range, and for all of the pages that it touches, so that writing there cannot fail for want of
    /// space, nor end the process where it is mapped.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Reserves blocks for a range as `allocate` does, where nothing has to be written for it; gives whether it could. Where it
    /// fails, a part may be reserved.
    fn allocate_unwritten(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }
    /// Gives back the blocks of all pages that lie in a range, where the file system can. They read as zeros.
    fn give_back(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    /// Fills the buffer from an offset; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Brings content and length to the disk.
    fn sync_data(&self) -> io::Result<()>;
    /// Has it look written to just now, where files have such times: what goes through a mapping moves a file's time late or never.
    fn touch(&self) -> io::Result<()> {
        Ok(())
    }
    /// Where data that is no hole begins at or behind an offset; `None` where only holes follow.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
    /// Where the first hole begins at or behind an offset, which lies in the file; its end counts as one.
    fn next_hole(&self, offset: u64) -> io::Result<u64>;
    /// Whether it can be mapped; where it can't it is read.
    fn can_map(&self) -> bool {
        true
    }
    /// Maps its first `len` bytes.
    fn map(&self, len: usize, writable: bool) -> io::Result<Region>;
    /// Brings a range of a mapping of this file, and the file's length, to the disk.
    fn flush_mapped(&self, region: &Region, offset: usize, len: usize) -> io::Result<()>;
    /// Makes the pages of a range of a mapping present and writable ahead of their use.
    fn populate(&self, region: &Region, offset: usize, len: usize) -> io::Result<()>;
    /// Takes a lock on its first byte that Java's `FileChannel.tryLock(0, 1, false)` respects.
    fn try_lock(&self) -> io::Result<LockOutcome>;
    /// Who holds that lock, without taking it.
    fn lock_holder(&self) -> io::Result<Option<LockOutcome>>;
    /// Lets go of that lock, whoever has the open file too.
    fn unlock(&self) -> io::Result<()>;
    /// Its descriptor, where the operating system has one.
    fn descriptor(&self) -> Option<RawFd> {
        None
    }
}

/// Bytes that this process has read from files; what is mapped is not counted.
static READ_BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts bytes that were read from a file.
pub(crate) fn count_read(count: u64) {
    READ_BYTES.fetch_add(count, Ordering::Relaxed);
}

/// Bytes that this process has read from files, local or not; what is mapped is not counted.
#[must_use]
pub fn read_bytes() -> u64 {
    READ_BYTES.load(Ordering::Relaxed)
}

/// What ext file systems have at their root: a disk of its own can be a store's folder, or one in it.
const LOST_AND_FOUND: &str = "lost+found";

/// The operating system's files.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsFileSystem;

#[derive(Debug)]
struct OsFile(File);

fn metadata_of(found: &std::fs::Metadata) -> Metadata {
    Metadata {
        is_dir: found.is_dir(),
        len: found.len(),
        allocated: found.blocks() * 512,
        modified_ms: found.mtime() * 1000 + found.mtime_nsec() / 1_000_000,
        identity: (found.dev(), found.ino()),
    }
}

/// Refuses what is there instead of a file; a folder says so itself where it is read.
fn check_is_file(found: &std::fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    let kind = match kind {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, and no file")))
}

/// Whether a path names the file of an identity.
///
/// # Errors
/// Where what is there can't be looked at.
pub(crate) fn is_named(fs: &dyn FileSystem, path: &Path, identity: (u64, u64)) -> io::Result<bool> {
    Ok(fs.metadata(path)?.is_some_and(|named| named.identity == identity))
}

/// Opens a file to read it; `None` where there is none.
///
/// # Errors
/// Where it is there and can't be opened.
pub(crate) fn open_if_there(fs: &dyn FileSystem, path: &Path) -> Result<Option<Arc<dyn FileHandle>>> {
    match fs.open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some).map_err(Error::io("open", path)),
    }
}

/// Lists a folder; `None` where there is none, or none any more.
///
/// # Errors
/// Where it is there and can't be listed.
pub(crate) fn list_if_there(fs: &dyn FileSystem, folder: &Path) -> Result<Option<Vec<DirEntry>>> {
    match fs.read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some).map_err(Error::io("list", folder)),
    }
}

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn FileHandle>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read);
        match mode {
            OpenMode::Read | OpenMode::Write => {}
            OpenMode::Create => _ = options.create(true),
            OpenMode::CreateNew => _ = options.create_new(true),
        }
        // What is no file could have this wait for ever for who is at its other end.
        let opened = match options.custom_flags(libc::O_NONBLOCK).open(path) {
            // A socket says the one, and the other a file that a server has lent out and is to be given back first.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::EWOULDBLOCK)) => {
                check_is_file(&std::fs::metadata(path)?)?;
                options.custom_flags(0).open(path)?
            }
            outcome => outcome?,
        };
        check_is_file(&opened.metadata()?)?;
        Ok(Arc::new(OsFile(opened)))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(metadata_of(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        std::fs::read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                let kind = entry.file_type()?;
                let is_dir = if kind.is_symlink() { entry.path().is_dir() } else { kind.is_dir() };
                let name = entry.file_name();
                let is_dir = is_dir && name.to_str().is_some();
                Ok(DirEntry { name: name.to_string_lossy().into_owned(), is_dir })
            })
            .filter(|entry| !matches!(entry, Ok(entry) if entry.is_dir && entry.name == LOST_AND_FOUND))
            .collect()
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        Ok(nix::unistd::syncfs(&File::open(path)?)?)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let found = nix::sys::statvfs::statvfs(path)?;
        let unit = found.fragment_size();
        Ok(Space {
            total: found.blocks() * unit,
            free: found.blocks_free() * unit,
            available: found.blocks_available() * unit,
        })
    }
}

impl FileHandle for OsFile {
    fn metadata(&self) -> io::Result<Metadata> {
        Ok(metadata_of(&self.0.metadata()?))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        blocks::allocate(&self.0, offset, len)
    }

    fn allocate_unwritten(&self, offset: u64, len: u64) -> io::Result<bool> {
        blocks::allocate_unwritten(&self.0, offset, len)
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        blocks::give_back(&self.0, offset, len)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, offset + num::offset(done)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        count_read(num::offset(done));
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn touch(&self) -> io::Result<()> {
        // Of a file that is somebody else's, who lets others write it, only this time can be set, and not one of them alone.
        Ok(futimens(&self.0, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)?)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match lseek(&self.0, num::java_long(offset), Whence::SeekData) {
            Ok(found) => Ok(num::from_java_long(found)),
            Err(Errno::ENXIO) => Ok(None),
            // A file system that knows no holes: all of it is data.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => {
                Ok((offset < self.0.metadata()?.len()).then_some(offset))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn next_hole(&self, offset: u64) -> io::Result<u64> {
        match lseek(&self.0, num::java_long(offset), Whence::SeekHole) {
            Ok(found) => Ok(num::from_java_long(found).unwrap_or(offset)),
            // Somebody has cut the file off.
            Err(Errno::ENXIO) => Ok(offset),
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => Ok(self.0.metadata()?.len()),
            Err(error) => Err(error.into()),
        }
    }

    fn map(&self, len: usize, writable: bool) -> io::Result<Region> {
        // Past a file's end a mapping has no pages: touching them would end the process.
        if self.0.metadata()?.len() < num::offset(len) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than the mapping"));
        }
        Region::map(&self.0, len, writable)
    }

    fn flush_mapped(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        region.flush(offset, len)
    }

    fn populate(&self, region: &Region, offset: usize, len: usize) -> io::Result<()> {
        region.populate(offset, len)
    }

    fn try_lock(&self) -> io::Result<LockOutcome> {
        match fcntl(&self.0, FcntlArg::F_OFD_SETLK(&first_byte())) {
            Ok(_) => Ok(LockOutcome::Taken),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(self.lock_holder()?.unwrap_or(LockOutcome::Held(None))),
            Err(error) => Err(error.into()),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        let nothing = libc::flock { l_type: UNLOCKED, ..first_byte() };
        fcntl(&self.0, FcntlArg::F_OFD_SETLK(&nothing))?;
        Ok(())
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }

    fn lock_holder(&self) -> io::Result<Option<LockOutcome>> {
        let mut lock = first_byte();
        fcntl(&self.0, FcntlArg::F_OFD_GETLK(&mut lock))?;
        if lock.l_type == UNLOCKED {
            return Ok(None);
        }
        // Locks of an open file description name no process.
        Ok(Some(LockOutcome::Held((lock.l_pid > 0).then_some(lock.l_pid))))
    }
}

#[allow(clippy::cast_possible_truncation)] // a constant of the platform that fits its field
const UNLOCKED: libc::c_short = libc::F_UNLCK as libc::c_short;

#[allow(clippy::cast_possible_truncation)] // two constants of the platform that fit their field
fn first_byte() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    }
}

/// A path without links; `None` where nothing is there yet.
pub(crate) fn real_path_if_there(fs: &dyn FileSystem, path: &Path) -> Result<Option<PathBuf>> {
    match fs.real_path(path) {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look at", path)(error)),
    }
}

/// Makes a folder and those above it, and brings the entry of each that was not there to the disk.
///
/// # Errors
/// Where one can't be made or synced.
pub fn make_folder(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    // The system makes none of which the last name is `.`, not even where it is made with its parents.
    let path: &Path = &path.components().collect::<PathBuf>();
    let mut missing = Vec::new();
    for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        if fs.metadata(folder).map_err(Error::io("look at", folder))?.is_some() {
            break;
        }
        missing.push(folder);
    }
    if missing.is_empty() {
        return Ok(());
    }
    fs.create_dir_all(path).map_err(Error::io("make the folder", path))?;
    let parents = missing.iter().rev().filter_map(|folder| folder.parent());
    let synced = parents.into_iter().try_for_each(|folder| {
        let parent = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        fs.sync_dir(parent).map_err(Error::io("sync the folder", parent))
    });
    if synced.is_err() {
        // One that is there next time would count as synced.
        missing.iter().for_each(|folder| _ = fs.remove_dir(folder));
    }
    synced
}

/// Whether a mapping of a file in a folder can end a process that only reads it: on a disk that other machines write to the file
/// can be cut off, and on tmpfs a hole that is read takes memory, which may be used up.
#[must_use]
pub fn is_mapping_risky(path: &Path) -> bool {
    use nix::sys::statfs;
    const CIFS: i64 = 0xFF53_4D42;
    const SMB2: i64 = 0xFE53_4D42;
    const FUSE: i64 = 0x6573_5546;
    let Ok(found) = statfs::statfs(path) else { return false };
    let kind = found.filesystem_type();
    [statfs::NFS_SUPER_MAGIC, statfs::TMPFS_MAGIC].contains(&kind) || [CIFS, SMB2, FUSE].contains(&kind.0)
}
