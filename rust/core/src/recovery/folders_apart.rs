//! Whether the log's folders are folders of their own.
//!
//! Each is listed whole: one that two names lead to would have each file twice, and a folder in it is no file of the log. A
//! store that took messages there would not be opened a second time.

use std::path::{Component, Path, PathBuf};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::fs::{FileSystem, real_path_if_there};

/// Refuses a folder of the log that holds another one of the store, or lies in one whose every entry counts.
///
/// # Errors
/// [`Error::Option`] names both.
pub(crate) fn check(fs: &dyn FileSystem, config: &StoreConfig) -> Result<()> {
    let of_log: Vec<_> = config.log_folders().into_iter().cloned().collect();
    let root = &config.store_path_root_dir;
    let listed =
        [config.store_path_consume_queue(), config.store_path_consume_queue_ext(), config.store_path_index()];
    let others = [root.clone(), root.join("config"), config.own_dir()];
    for log in &of_log {
        let place = place_of(fs, log)?;
        for other in of_log.iter().filter(|other| *other != log).chain(&listed).chain(&others) {
            let its_place = place_of(fs, other)?;
            let is_within = !others.contains(other) && place.starts_with(&its_place);
            let reason = match (its_place.starts_with(&place), is_within) {
                (true, true) => format!("{} is the same folder", other.display()),
                (true, false) => format!("{} lies in it", other.display()),
                (false, true) => format!("it lies in {}", other.display()),
                (false, false) => continue,
            };
            let reason = format!("{reason}, and a folder of the log is one of its own");
            return Err(Error::Option {
                option: "storePathCommitLog",
                value: log.display().to_string(),
                reason,
            });
        }
    }
    Ok(())
}

/// Where a path leads, or will lead once what is missing of it is there.
fn place_of(fs: &dyn FileSystem, path: &Path) -> Result<PathBuf> {
    for there in path.ancestors() {
        let named = if there.as_os_str().is_empty() { Path::new(".") } else { there };
        if let (Some(real), Ok(missing)) = (real_path_if_there(fs, named)?, path.strip_prefix(there)) {
            return Ok(missing.components().fold(real, |mut place, component| {
                match component {
                    Component::ParentDir => _ = place.pop(),
                    component => place.push(component),
                }
                place
            }));
        }
    }
    Ok(path.into())
}
