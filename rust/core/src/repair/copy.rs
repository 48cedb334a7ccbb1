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

/// Fills the holes of a log where it is, once what stands there is saved in a folder, a file a hole, and what
/// stands behind its end too, which goes when the store is opened. The view holds the store's lock since before it looked
/// for the holes: a writer may have put records there otherwise.
///
/// # Errors
/// [`Error::ReadOnly`] where the view has no lock; [`Error::Layout`] where a whole file is missing, which takes another
/// folder; where a file can't be read or written, or the call is broken off: all that was changed by then is in the
/// folder, and another call fills what is left.
pub fn fill_in_place(view: &LogView, holes: &[Hole], fs: &dyn FileSystem, saved: &Path) -> Result<()> {
    let config = view.config();
    if !view.is_locked() {
        return Err(Error::ReadOnly { path: config.store_path_root_dir.clone() });
    }
    fs.create_dir_all(saved).map_err(Error::io("make the folder", saved))?;
    let mut files = Vec::new();
    for hole in holes {
        let file = view.files().find(hole.from).filter(|file| file.present_size() == file.file_size());
        let Some(file) = file else {
            let path = config.store_path_commit_log.first().cloned().unwrap_or_default();
            return Err(Error::Layout {
                path: path.join(file_name::from_offset(hole.from - hole.from % view.files().file_size())),
                expected: format!("a file of {} bytes, to be repaired in place", view.files().file_size()),
                found: "none, or a shorter one: repair into another folder".into(),
            });
        };
        save(&file, hole.from..hole.to, fs, saved)?;
        files.push(file);
    }
    save_behind_end(view, fs, saved)?;
    // The folder's own name too: what is saved counts for nothing where a power cut can take that away.
    for folder in saved.ancestors().take(2) {
        fs.sync_dir(folder).map_err(Error::io("sync the folder", folder))?;
    }
    for (hole, file) in holes.iter().zip(&files) {
        interrupt::check()?;
        let path = file.path();
        let handle = fs.open(path, OpenMode::Write).map_err(Error::io("open", path))?;
        for (offset, bytes) in hole.filling(file.file_size()) {
            handle.write_at(&bytes, offset - file.file_from_offset()).map_err(Error::io("write", path))?;
        }
        handle.sync_data().map_err(Error::io("flush", path))?;
    }
    Ok(())
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
