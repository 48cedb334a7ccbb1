//! What the files of the folder `config` can hold, each replaced as a whole and the one before kept.

use std::collections::BTreeMap;
use std::path::Path;

use crate::workload::{CONFIG_FILES, config_path};

/// A file and the one that is kept beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Replaced {
    now: Option<Vec<u8>>,
    bak: Option<Vec<u8>>,
}

impl Replaced {
    fn read(root: &Path, name: &str) -> Self {
        let path = config_path(root, name);
        let bak = config_path(root, &format!("{name}.bak"));
        Self { now: std::fs::read(path).ok(), bak: std::fs::read(bak).ok() }
    }
}

/// What each file can be; one that is not named is not there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Configs(BTreeMap<&'static str, Vec<Replaced>>);

impl Configs {
    /// What is there.
    pub(crate) fn read(root: &Path) -> Self {
        Self(CONFIG_FILES.into_iter().map(|name| (name, vec![Replaced::read(root, name)])).collect())
    }

    /// A file is about to be replaced: from now on it can be as it was, or new, or in between.
    pub(crate) fn begin(&mut self, name: &'static str, content: &[u8]) {
        let can_be = self.0.entry(name).or_insert_with(|| vec![Replaced::default()]);
        for was in std::mem::take(can_be) {
            let bak = if was.now.is_some() { was.now.clone() } else { was.bak.clone() };
            let between = Replaced { now: was.now.clone(), bak: bak.clone() };
            can_be.extend([was, between, Replaced { now: Some(content.into()), bak }]);
        }
    }

    /// It was replaced: nothing else is possible any more.
    pub(crate) fn end(&mut self, name: &'static str, content: &[u8]) {
        let can_be = self.0.entry(name).or_default();
        can_be.retain(|found| found.now.as_deref() == Some(content));
        can_be.dedup();
    }

    /// Each file is what it can be.
    pub(crate) fn check(&self, root: &Path) {
        for name in CONFIG_FILES {
            let found = Replaced::read(root, name);
            let is_known =
                self.0.get(name).map_or(found == Replaced::default(), |can_be| can_be.contains(&found));
            assert!(is_known, "{name} holds {found:?}, and can hold {:?}", self.0.get(name));
        }
    }
}
