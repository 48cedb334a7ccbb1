//! Replacing a small file as a whole: a reader, and a crash, see the old content or the new one.
//!
//! As RocketMQ does it, the content before is kept beside the file as `.bak`; unlike there, the file
//! itself is never missing in between. Source: `MixAll.string2File`.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fs::{FileSystem, OpenMode, make_folder, open_if_there};
use crate::num;

/// Replaces a file's content.
///
/// # Errors
/// Where a file can't be written or renamed; the file has its old content then. Where its folder can't be brought to
/// the disk it has the new one, until a power cut perhaps.
pub fn replace(fs: &dyn FileSystem, path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(fs, folder)?;
    }
    if let Some(before) = read(fs, path)?.filter(|before| !before.is_empty()) {
        let (bak, bak_new) = (beside(path, ".bak"), beside(path, ".bak.tmp"));
        write(fs, &bak_new, &before)?;
        fs.rename(&bak_new, &bak).map_err(Error::io("rename to", bak))?;
    }
    swap(fs, path, content)
}

/// Replaces a file's content without keeping the one before. The folder is there.
///
/// # Errors
/// As for [`replace`].
pub fn swap(fs: &dyn FileSystem, path: &Path, content: &[u8]) -> Result<()> {
    let new = beside(path, ".tmp");
    write(fs, &new, content)?;
    fs.rename(&new, path).map_err(Error::io("rename to", path))?;
    match path.parent() {
        Some(folder) => fs.sync_dir(folder).map_err(Error::io("sync the folder", folder)),
        None => Ok(()),
    }
}

/// A file's content; `None` where there is no file.
///
/// # Errors
/// Where it is there and can't be read.
pub fn read(fs: &dyn FileSystem, path: &Path) -> Result<Option<Vec<u8>>> {
    let Some(handle) = open_if_there(fs, path)? else { return Ok(None) };
    let found = handle.metadata().map_err(Error::io("look at", path))?;
    let mut content = vec![0; num::index(found.len)];
    let count = handle.read_at(&mut content, 0).map_err(Error::io("read", path))?;
    content.truncate(count);
    Ok(Some(content))
}

fn write(fs: &dyn FileSystem, path: &Path, content: &[u8]) -> Result<()> {
    let handle = fs.open(path, OpenMode::Create).map_err(Error::io("create", path))?;
    let written =
        handle.set_len(0).and_then(|()| handle.write_at(content, 0)).and_then(|()| handle.sync_data());
    if written.is_err() {
        // The next attempt begins with a file of which no sync has failed.
        let _already_failing = fs.remove_file(path);
    }
    written.map_err(Error::io("write", path))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
