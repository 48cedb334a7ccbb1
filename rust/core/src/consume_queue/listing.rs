//! What the folder of queues holds: `topic/queue/file`, as it lies there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{UNIT, ext};
use crate::commit_log::scan::check_topic;
use crate::error::{Error, Result};
use crate::fs::{DirEntry, FileSystem, list_if_there};
use crate::mmap::file_queue::{Listing, Stray, most_common};
use crate::side_by_side::each_of_many;

/// What a store's folder of queues holds.
#[derive(Debug, Default)]
pub struct QueueListing {
    /// By topic and queue.
    pub(super) queues: BTreeMap<(String, i32), Listing>,
    /// What is no queue's, and why.
    pub faults: Vec<Stray>,
    /// Bytes of a file, as most have that hold whole units.
    pub file_size: Option<u64>,
    /// Whether these are the queues of some topics alone.
    pub(super) is_part: bool,
}

impl QueueListing {
    /// Lists a store's queues, or those of some topics.
    ///
    /// # Errors
    /// Where a folder can't be read.
    pub fn read(fs: &dyn FileSystem, root: &Path, topics: Option<&[String]>) -> Result<Self> {
        let mut listing = Self { is_part: topics.is_some(), ..Self::default() };
        let folders = queue_folders(fs, root, topics)?;
        let all_files =
            each_of_many(&folders, fs.is_remote(), |(_, _, folder)| Listing::read_derived(fs, folder))?;
        let mut sizes = Vec::new();
        for ((topic, queue_id, _), files) in folders.into_iter().zip(all_files) {
            // A copy can have left the files of any queue short, in the middle of a unit mostly.
            if let Some(size) = files.file_size().filter(|size| size.is_multiple_of(UNIT)) {
                sizes.push((size, files.files.len()));
            }
            listing.queues.insert((topic, queue_id), files);
        }
        listing.file_size = most_common(sizes.into_iter());
        let faults = |files: &Listing| match listing.file_size {
            Some(file_size) => files.faults(file_size),
            None => files.strays.iter().cloned().chain(files.files.iter().map(of_no_whole_units)).collect(),
        };
        listing.faults = listing.queues.values().flat_map(faults).collect();
        Ok(listing)
    }

    /// Whether there is a queue of this topic and number.
    #[must_use]
    pub fn contains(&self, topic: &str, queue_id: i32) -> bool {
        self.queues.contains_key(&(topic.to_owned(), queue_id))
    }

    /// Where it is what the folder of extensions holds: bytes of a file.
    #[must_use]
    pub fn ext_file_size(&self, given: u64) -> u64 {
        ext::file_size(&self.queues.values(), given)
    }

    /// How many queues there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.len()
    }

    /// Whether there is no queue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

fn of_no_whole_units((_, len, path): &(u64, u64, PathBuf)) -> Stray {
    let (expected, found) = (format!("a file of whole units of {UNIT} bytes"), format!("{len} bytes"));
    Stray { path: path.clone(), expected, found }
}

/// The folders `topic/queue` below a folder; what has other names is passed over, as in 4.9.3.
fn queue_folders(
    fs: &dyn FileSystem,
    root: &Path,
    topics: Option<&[String]>,
) -> Result<Vec<(String, i32, PathBuf)>> {
    if fs.metadata(root).map_err(Error::io("look at", root))?.is_none() {
        return Ok(Vec::new());
    }
    let found = each_of_many(&topic_folders(fs, root, topics)?, fs.is_remote(), |topic| {
        let folder = root.join(topic);
        // Its writer may just have removed it.
        let entries = list_if_there(fs, &folder)?.unwrap_or_default();
        let of_queue = |entry: DirEntry| {
            let queue_id = entry.name.parse().ok().filter(|id: &i32| id.to_string() == entry.name)?;
            entry.is_dir.then(|| (topic.clone(), queue_id, folder.join(&entry.name)))
        };
        Ok(entries.into_iter().filter_map(of_queue).collect::<Vec<_>>())
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// The names of topics' folders. Of those that are asked for each is looked at: there can be many others.
fn topic_folders(fs: &dyn FileSystem, root: &Path, topics: Option<&[String]>) -> Result<Vec<String>> {
    let Some(topics) = topics else {
        let entries = fs.read_dir(root).map_err(Error::io("list", root))?;
        return Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect());
    };
    let mut found = Vec::new();
    for topic in topics.iter().filter(|topic| check_topic(topic.as_bytes()).is_ok()) {
        let folder = root.join(topic);
        let known = fs.metadata(&folder).map_err(Error::io("look at", &folder))?;
        found.extend(known.filter(|known| known.is_dir).map(|_| topic.clone()));
    }
    Ok(found)
}
