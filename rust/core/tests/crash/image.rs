//! What a power cut at a captured moment could leave.

use std::collections::BTreeMap;
use std::path::Path;

use crate::disk::{Capture, Content, Entry, Folder, SECTOR, apply};

const PAGE: usize = 4096;

/// How much of what was not synced a power cut leaves.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// All of it, as when only the process is killed.
    All,
    /// Nothing.
    Nothing,
    /// Each page, length and entry with this chance; of some pages only some sectors.
    Some(f64),
}

/// Makes one of the stores that a power cut at the moment of a capture could leave.
pub(crate) fn make<T>(capture: &Capture<T>, to: &Path, random: &mut fastrand::Rng) {
    let left = match random.u8(..8) {
        0 => Left::All,
        1 => Left::Nothing,
        2 | 3 => Left::Some(0.1),
        4 | 5 => Left::Some(0.5),
        _ => Left::Some(0.9),
    };
    make_folder(capture, &capture.root, to, left, random);
}

fn make_folder<T>(capture: &Capture<T>, from: &Path, to: &Path, left: Left, random: &mut fastrand::Rng) {
    std::fs::create_dir_all(to).unwrap();
    // A folder that was removed and whose removal is lost holds what it held.
    let gone = Folder::default();
    for (name, entry) in entries(capture.folders.get(from).unwrap_or(&gone), left, random) {
        match entry {
            Entry::Folder => make_folder(capture, &from.join(&name), &to.join(&name), left, random),
            Entry::File(number) => {
                std::fs::write(to.join(&name), content(&capture.files[number], left, random)).unwrap();
            }
        }
    }
}

fn entries(folder: &Folder, left: Left, random: &mut fastrand::Rng) -> BTreeMap<String, Entry> {
    let count = folder.since.len();
    let done = match left {
        Left::All => count,
        Left::Nothing => 0,
        Left::Some(_) => random.usize(..=count),
    };
    let mut entries = folder.certain.clone();
    folder.since.iter().take(done).for_each(|change| apply(&mut entries, change));
    entries
}

fn content(file: &Content, left: Left, random: &mut fastrand::Rng) -> Vec<u8> {
    let Some(now) = &file.now else { return file.certain.clone() };
    let chance = match left {
        Left::All => return now.clone(),
        Left::Nothing => return file.certain.clone(),
        Left::Some(chance) => chance,
    };
    let mut content = file.certain.clone();
    if random.f64() < chance {
        content.resize(now.len(), 0);
    }
    for (to, from) in content.chunks_mut(PAGE).zip(now.chunks(PAGE)) {
        let is_torn = random.u8(..4) == 0;
        let is_kept = random.f64() < chance;
        for (to, from) in to.chunks_mut(SECTOR).zip(from.chunks(SECTOR)) {
            if to.len() == from.len() && if is_torn { random.bool() } else { is_kept } {
                to.copy_from_slice(from);
            }
        }
    }
    content
}
