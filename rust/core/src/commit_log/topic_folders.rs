//! The folders of topics' queues, as far as a put has to know of them: where a file system refuses a topic's name, or
//! takes it for another's, dispatch could never bring to a queue what was acknowledged.
//!
//! A file system that ignores case has one folder for `Topic` and `topic`. What it listed under a name is that topic's
//! alone; one that is there and is not listed is another topic's.

use std::path::{Path, PathBuf};

use hashbrown::HashSet;

use super::append::{AppendRefusal, Wait};
use super::scan::check_topic;
use crate::error::Error;
use crate::format::java_string;
use crate::fs::{FileSystem, list_if_there};
use crate::sync::Mutex;

/// The folders of topics that are known to be there.
#[derive(Debug)]
pub(super) struct TopicFolders {
    /// In which they lie.
    root: PathBuf,
    /// Their names, as they are listed; `None` until the first is asked for.
    known: Mutex<Option<HashSet<String>>>,
}

impl TopicFolders {
    /// Those in a folder.
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, known: Mutex::default() }
    }

    /// Sees to it that a topic has a folder of its own.
    ///
    /// # Errors
    /// An [`AppendRefusal`] where it can't be made, or the file system takes another topic's for it.
    pub(super) fn make(&self, fs: &dyn FileSystem, topic: &[u8], wait: Wait) -> Result<(), AppendRefusal> {
        if check_topic(topic).is_err() {
            // A further queue that dispatch leaves out.
            return Ok(());
        }
        let topic = java_string::decode(topic);
        let mut known = self.known.lock();
        if known.as_ref().is_some_and(|known| known.contains(&*topic)) {
            return Ok(());
        }
        if wait.is_try() {
            return Err(AppendRefusal::WouldBlock);
        }
        let list = || {
            let entries = list_if_there(fs, &self.root).map_err(AppendRefusal::NoSpace)?.unwrap_or_default();
            Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect())
        };
        let names: &mut HashSet<String> = match &mut *known {
            Some(names) => names,
            unknown => unknown.insert(list()?),
        };
        if names.contains(&*topic) {
            return Ok(());
        }
        let folder = self.root.join(&*topic);
        let found = fs.metadata(&folder).map_err(|error| refused("look at", &folder, error))?;
        if found.is_none() {
            fs.create_dir_all(&folder).map_err(|error| refused("make the folder", &folder, error))?;
        } else {
            // Something else may have made it since they were listed.
            *names = list()?;
            if !names.contains(&*topic) {
                return Err(AppendRefusal::OtherTopic { topic: topic.into_owned(), folder });
            }
        }
        names.insert(topic.into_owned());
        Ok(())
    }

    /// Forgets which are there: some are about to go.
    pub(super) fn forget(&self) {
        *self.known.lock() = None;
    }
}

fn refused(operation: &'static str, folder: &Path, error: std::io::Error) -> AppendRefusal {
    AppendRefusal::NoSpace(Error::io(operation, folder)(error))
}
