//! Writing the repaired log: into another folder, or where it is.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::Hole;
use crate::commit_log::scan;
use crate::error::{Error, Result};
use crate::format::file_name;
use crate::fs::{FileHandle, FileSystem, OpenMode};
use crate::interrupt;
use crate::log_view::LogView;
use crate::mmap::mapped_file::MappedFile;
use crate::num;
use crate::zeros::is_zero;

const STEP: usize = 1 << 20;

/// Copies a log up to its end into an empty folder, its holes filled. Blocks that hold nothing take no
/// space there either. Gives how many files were written.
///
/// # Errors
/// Where a file can't be read or written; a file that is there already is an error. What is in the folder by
/// then is a part of a log.
pub fn copy_log(view: &LogView, holes: &[Hole], fs: &dyn FileSystem, folder: &Path) -> Result<usize> {
    fs.create_dir_all(folder).map_err(Error::io("make the folder", folder))?;
    let file_size = view.files().file_size();
    let mut from = view.min_offset();
    let mut count = 0;
    while from < view.end() {
        interrupt::check()?;
        let path = folder.join(file_name::from_offset(from));
        let to = fs.open(&path, OpenMode::CreateNew).map_err(Error::io("create", &path))?;
        to.set_len(file_size).map_err(Error::io("set the size of", &path))?;
        if let Some(file) = view.files().find(from) {
            copy_file(&file, &*to, &path, view.end())?;
        }
        fill(holes, from, file_size, &*to, &path)?;
        to.sync_data().map_err(Error::io("flush", &path))?;
        from += file_size;
        count += 1;
    }
    fs.sync_dir(folder).map_err(Error::io("sync the folder", folder))?;
    Ok(count)
}

fn copy_file(file: &Arc<MappedFile>, to: &dyn FileHandle, path: &Path, log_end: u64) -> Result<()> {
    let from = file.handle()?;
    let end = log_end.min(file.end_offset()) - file.file_from_offset();
    let mut buffer = vec![0; STEP];
    let mut at = 0;
    while let Some(data) = from.next_data(at).map_err(Error::io("look for data in", file.path()))? {
        interrupt::check()?;
        at = at.max(data);
        if at >= end {
            break;
        }
        let wanted = num::index(end - at).min(STEP);
        let room = buffer.get_mut(..wanted).unwrap_or_default();
        let count = from.read_at(room, at).map_err(Error::io("read", file.path()))?;
        if count == 0 {
            break;
        }
        let found = buffer.get(..count).unwrap_or_default();
        if !is_zero(found) {
            to.write_at(found, at).map_err(Error::io("write", path))?;
        }
        at += num::offset(count);
    }
    Ok(())
}

fn fill(holes: &[Hole], file_from: u64, file_size: u64, to: &dyn FileHandle, path: &Path) -> Result<()> {
    for hole in holes.iter().filter(|hole| (file_from..file_from + file_size).contains(&hole.from)) {
        for (offset, bytes) in hole.filling(file_size) {
            to.write_at(&bytes, offset - file_from).map_err(Error::io("write", path))?;
        }
    }
    Ok(())
}

/// Saves in a folder, a file a hole, what stands in the holes of a log, and what stands behind its end: all that
/// [`fill_in_place`] changes. Nothing is changed yet.
///
/// # Errors
/// [`Error::Layout`] where a whole file is missing, which takes another folder; where a file can't be read or written, or the
/// call is broken off.
pub fn save_holes(view: &LogView, holes: &[Hole], fs: &dyn FileSystem, saved: &Path) -> Result<()> {
    let files = holes.iter().map(|hole| file_of(view, hole)).collect::<Result<Vec<_>>>()?;
    fs.create_dir_all(saved).map_err(Error::io("make the folder", saved))?;
    for (hole, file) in holes.iter().zip(&files) {
        save(file, hole.from..hole.to, fs, saved)?;
    }
    save_behind_end(view, fs, saved)?;
    // The folder's own name too: what is saved counts for nothing where a power cut can take that away.
    for folder in saved.ancestors().take(2) {
        fs.sync_dir(folder).map_err(Error::io("sync the folder", folder))?;
    }
    Ok(())
}

fn file_of(view: &LogView, hole: &Hole) -> Result<Arc<MappedFile>> {
    let is_whole = |file: &Arc<MappedFile>| file.present_size() == file.file_size();
    view.files().find(hole.from).filter(is_whole).ok_or_else(|| {
        let path = view.config().store_path_commit_log.first().cloned().unwrap_or_default();
        let file_size = view.files().file_size();
        Error::Layout {
            path: path.join(file_name::from_offset(hole.from - hole.from % file_size)),
            expected: format!("a file of {file_size} bytes, to be repaired in place"),
            found: "none, or a shorter one: repair into another folder".into(),
        }
    })
}

/// Fills the holes of a log where it is, and takes away what stands behind its end, once both are saved. The view holds the
/// store's lock since before it looked for them: a writer may have put records there otherwise.
///
/// # Errors
/// [`Error::ReadOnly`] where the view has no lock; where a file can't be read or written, or the call is broken off:
/// another call does what is left.
pub fn fill_in_place(view: &LogView, holes: &[Hole], fs: &dyn FileSystem) -> Result<()> {
    if !view.is_locked() {
        return Err(Error::ReadOnly { path: view.config().store_path_root_dir.clone() });
    }
    // First: until that is done where the log ends is found as it was before, by what is known to be on the disk.
    cut_behind_end(view, fs)?;
    for hole in holes {
        interrupt::check()?;
        let file = file_of(view, hole)?;
        let path = file.path();
        let handle = fs.open(path, OpenMode::Write).map_err(Error::io("open", path))?;
        for (offset, bytes) in hole.filling(file.file_size()) {
            handle.write_at(&bytes, offset - file.file_from_offset()).map_err(Error::io("write", path))?;
        }
        handle.sync_data().map_err(Error::io("flush", path))?;
    }
    Ok(())
}

/// Takes away what stands behind the log's end now, while nobody else has put anything there. Whoever finds the end
/// again, in another repair or when the store is opened, may know less of what is on the disk.
fn cut_behind_end(view: &LogView, fs: &dyn FileSystem) -> Result<()> {
    view.lower_positions()?;
    let (files, end) = (view.files(), view.end());
    let later: Vec<_> = files.files().iter().filter(|file| file.file_from_offset() > end).cloned().collect();
    // The newest go first: one that is broken off leaves no file missing in the middle.
    for file in later.iter().rev() {
        files.delete(std::slice::from_ref(file))?;
    }
    if let Some(file) = files.find(end) {
        let path = file.path();
        let handle = fs.open(path, OpenMode::Write).map_err(Error::io("open", path))?;
        if file.zero_by(&*handle, end - file.file_from_offset())?.is_some() {
            handle.sync_data().map_err(Error::io("flush", path))?;
        }
    }
    files.sync_dirs()
}

fn save_behind_end(view: &LogView, fs: &dyn FileSystem, saved: &Path) -> Result<()> {
    for file in view.files().files().iter().filter(|file| file.end_offset() > view.end()) {
        let range = view.end().max(file.file_from_offset())..file.end_offset();
        if !scan::is_zero(file, range.start, range.end)? {
            save(file, range, fs, saved)?;
        }
    }
    Ok(())
}

/// Zeros take no space in what is saved.
fn save(file: &Arc<MappedFile>, range: Range<u64>, fs: &dyn FileSystem, saved: &Path) -> Result<()> {
    let path = saved.join(file_name::from_offset(range.start));
    let to = fs.open(&path, OpenMode::CreateNew).map_err(Error::io("create", &path))?;
    let from = file.handle()?;
    let mut buffer = vec![0; STEP];
    let mut at = range.start;
    while at < range.end {
        interrupt::check()?;
        let wanted = num::index(range.end - at).min(STEP);
        let room = buffer.get_mut(..wanted).unwrap_or_default();
        let position = at - file.file_from_offset();
        let count = from.read_at(room, position).map_err(Error::io("read", file.path()))?;
        if count == 0 {
            break;
        }
        let found = buffer.get(..count).unwrap_or_default();
        if !is_zero(found) {
            to.write_at(found, at - range.start).map_err(Error::io("write", &path))?;
        }
        at += num::offset(count);
    }
    to.set_len(at - range.start).map_err(Error::io("set the size of", &path))?;
    to.sync_data().map_err(Error::io("flush", &path))
}
