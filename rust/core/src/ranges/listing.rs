//! What a source's folders hold, as it said when it was asked first.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};

use hashbrown::HashMap;

use super::Listed;

/// What a name in a folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub is_dir: bool,
    pub len: Option<u64>,
    pub modified_ms: i64,
}

/// The entries of a folder by name.
pub(super) type Folder = BTreeMap<String, Entry>;

/// Folders that were listed, by their paths below the root; the root's is empty.
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// `None` for a folder that is not there.
    folders: HashMap<String, Option<Folder>>,
    /// Folders of which all that is below them was listed.
    whole: Vec<String>,
}

impl Listings {
    /// A folder that was listed: `None` where it was not, `Some(None)` where it is not there.
    pub(super) fn folder(&self, path: &str) -> Option<Option<&Folder>> {
        if let Some(known) = self.folders.get(path) {
            return Some(known.as_ref());
        }
        self.whole.iter().any(|whole| is_below(path, whole)).then_some(None)
    }

    /// Whether all that is below a folder was listed.
    pub(super) fn is_whole(&self, path: &str) -> bool {
        self.whole.iter().any(|whole| whole == path || is_below(path, whole))
    }

    /// Takes over what a source says of a folder.
    ///
    /// # Errors
    /// Where it cannot be so: a name that leads out of the folder, a file that is a folder too.
    pub(super) fn take(&mut self, folder: &str, recursive: bool, found: Option<Vec<Listed>>) -> Result<()> {
        let Some(found) = found else {
            self.folders.insert(folder.to_owned(), None);
            return Ok(());
        };
        let mut folders: HashMap<String, Folder> = HashMap::new();
        folders.insert(folder.to_owned(), Folder::new());
        for Listed { path, is_dir, len, modified_ms } in found {
            let mut parent = folder.to_owned();
            let mut parts = path.split('/').peekable();
            while let Some(name) = parts.next() {
                let is_last = parts.peek().is_none();
                if name.is_empty()
                    || name == "."
                    || name == ".."
                    || name.contains('\0')
                    || !(is_last || recursive)
                {
                    return Err(bad(folder, &format!("{path:?}, which is no name in it")));
                }
                let entry = if is_last {
                    Entry { is_dir, len, modified_ms }
                } else {
                    Entry { is_dir: true, len: None, modified_ms: 0 }
                };
                let entries = folders.entry(parent.clone()).or_default();
                let known = entries.entry(name.to_owned()).or_insert(entry);
                if known.is_dir != entry.is_dir || (!entry.is_dir && *known != entry) {
                    return Err(bad(folder, &format!("{path:?} twice")));
                }
                parent = join(&parent, name);
                if entry.is_dir && recursive {
                    folders.entry(parent.clone()).or_default();
                }
            }
        }
        self.folders.extend(folders.into_iter().map(|(path, entries)| (path, Some(entries))));
        if recursive {
            self.whole.push(folder.to_owned());
        }
        Ok(())
    }
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn bad(folder: &str, what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("expected a listing of {folder:?}, found {what}"))
}
