//! The blocks of files, before anything is written to them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, fstatfs};

use crate::mmap::region::OS_PAGE_SIZE;
use crate::num;

/// Reserves those of a range.
pub(super) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    if reserve(file, offset, len)? {
        return Ok(());
    }
    // Others may write before the range.
    write_allocate(file, offset, end_of_pages(file, offset + len)? - offset)
}

/// Reserves those of a range long before they are needed; gives whether it could without writing there. Where a file system copies
/// what is written again, more would be in use of a quota that its free room says nothing of.
pub(super) fn allocate_unwritten(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    if fstatfs(file)?.filesystem_type() == BTRFS_SUPER_MAGIC {
        return Ok(false);
    }
    reserve(file, offset, len)
}

fn reserve(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    let from = offset - offset % page_size();
    change(file, FallocateFlags::empty(), from, end_of_pages(file, offset + len)? - from)
}

/// Gives back those of all pages that lie in a range, where the file system can.
pub(super) fn give_back(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let page_size = page_size();
    let (from, end) = (offset.next_multiple_of(page_size), (offset + len) / page_size * page_size);
    if from < end {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let _can = change(file, flags, from, end - from)?;
    }
    Ok(())
}

/// Where the page ends in which a range does, or the file: a page that is written to needs all of its blocks, which can be
/// smaller.
fn end_of_pages(file: &File, end: u64) -> io::Result<u64> {
    Ok(end.next_multiple_of(page_size()).min(file.metadata()?.len().max(end)))
}

/// Reserves blocks or gives them back; gives whether the file system can.
fn change(file: &File, flags: FallocateFlags, from: u64, size: u64) -> io::Result<bool> {
    loop {
        match fallocate(file, flags, num::java_long(from), num::java_long(size)) {
            Ok(()) => return Ok(true),
            // A signal came, which is no matter of the disk's.
            Err(Errno::EINTR) => {}
            Err(Errno::EOPNOTSUPP) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reserves by writing where the file system can't: what is there, or zeros where nothing is.
fn write_allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    const STEP: usize = 1 << 16;
    let end = offset + len;
    let size = file.metadata()?.len();
    let mut at = offset;
    while at < end {
        let step = num::index((end - at).min(num::offset(STEP)));
        let mut present = vec![0u8; step];
        let known = num::index(size.saturating_sub(at)).min(step);
        file.read_exact_at(present.get_mut(..known).unwrap_or_default(), at)?;
        file.write_all_at(&present, at)?;
        at += num::offset(step);
    }
    Ok(())
}

/// Bytes of a page of this machine's memory.
fn page_size() -> u64 {
    let found = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    found.and_then(|size| u64::try_from(size).ok()).unwrap_or(OS_PAGE_SIZE)
}
