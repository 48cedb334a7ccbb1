//! Sectors that are zeroed, swapped, doubled or torn; files that are cut, missing, swapped or of another store.

use std::path::{Path, PathBuf};

use crate::subject::{Files, Kind, Left, make};
use crate::table::Table;
use crate::trial::Whole;
use crate::{scratch, setting};

/// Bytes that are lost or misplaced as a whole: a store this small has a few of them in each file.
const SECTOR: usize = 256;
/// Damaged copies of each kind that are tried in the short form.
const TRIALS: u64 = 12;

/// A way to damage a store's files.
type Damage = fn(&mut Files, &Files, &mut fastrand::Rng) -> String;

const DAMAGES: [(&str, Damage); 9] = [
    ("sector: zeroed", zero),
    ("sector: swapped", swap),
    ("sector: doubled", double),
    ("sector: of another store", of_another),
    ("sector: garbage", garbage),
    ("file: cut", cut),
    ("file: missing", remove),
    ("file: swapped", swap_files),
    ("file: of another store", file_of_another),
];

/// A file that holds something of messages.
fn file(files: &Files, random: &mut fastrand::Rng) -> PathBuf {
    let folders = ["commitlog", "consumequeue", "index"];
    let folder = folders[random.usize(..folders.len())];
    let paths: Vec<_> = files.keys().filter(|path| path.starts_with(folder)).collect();
    paths[random.usize(..paths.len())].clone()
}

/// A sector of it.
fn sector(content: &[u8], random: &mut fastrand::Rng) -> std::ops::Range<usize> {
    let begin = random.usize(..content.len().div_ceil(SECTOR)) * SECTOR;
    begin..content.len().min(begin + SECTOR)
}

fn change(files: &mut Files, path: &Path, at: std::ops::Range<usize>, with: impl IntoIterator<Item = u8>) {
    files.get_mut(path).unwrap()[at].iter_mut().zip(with).for_each(|(to, from)| *to = from);
}

fn zero(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let at = sector(&files[&path], random);
    change(files, &path, at.clone(), std::iter::repeat(0));
    format!("{path:?} {at:?}")
}

fn garbage(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let at = sector(&files[&path], random);
    change(files, &path, at.clone(), std::iter::repeat_with(|| random.u8(..)));
    format!("{path:?} {at:?}")
}

fn double(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let (path, from_path) = (file(files, random), file(files, random));
    let at = sector(&files[&path], random);
    let from = sector(&files[&from_path], random);
    let bytes = files[&from_path][from.clone()].to_vec();
    change(files, &path, at.clone(), bytes);
    format!("{path:?} {at:?} from {from_path:?} {from:?}")
}

fn swap(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let (at, other) = (sector(&files[&path], random), sector(&files[&path], random));
    let (first, second) = (files[&path][at.clone()].to_vec(), files[&path][other.clone()].to_vec());
    change(files, &path, at.clone(), second);
    change(files, &path, other.clone(), first);
    format!("{path:?} {at:?} and {other:?}")
}

fn of_another(files: &mut Files, another: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let at = sector(&files[&path], random);
    let bytes = another.get(&path).and_then(|content| content.get(at.clone())).unwrap_or_default().to_vec();
    change(files, &path, at.clone(), bytes);
    format!("{path:?} {at:?}")
}

fn cut(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let size = random.usize(..files[&path].len());
    files.get_mut(&path).unwrap().truncate(size);
    format!("{path:?} to {size}")
}

fn remove(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    // A log without its oldest file is what retention leaves.
    if !path.ends_with("commitlog/00000000000000000000") {
        files.remove(&path);
    }
    format!("{path:?}")
}

fn swap_files(files: &mut Files, _: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let kind = path.iter().next().unwrap();
    let alike: Vec<_> = files.keys().filter(|other| other.starts_with(kind)).cloned().collect();
    let other = alike[random.usize(..alike.len())].clone();
    let (first, second) = (files[&path].clone(), files[&other].clone());
    files.insert(path.clone(), second);
    files.insert(other.clone(), first);
    format!("{path:?} and {other:?}")
}

fn file_of_another(files: &mut Files, another: &Files, random: &mut fastrand::Rng) -> String {
    let path = file(files, random);
    let content = another.get(&path).cloned().unwrap_or_default();
    files.insert(path.clone(), content);
    format!("{path:?}")
}

fn damage_all(left: Left) -> Table {
    let whole = Whole::new(make(scratch().path(), Kind { left, with_crc: false, number: 1 }));
    let another = make(scratch().path(), Kind { left, with_crc: false, number: 2 });
    let seed = setting("MQSTORE_SEED", fastrand::u64(..1 << 32));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut table = Table::default();
    for (kind, damage) in DAMAGES {
        for _ in 0..setting("MQSTORE_PAGES", TRIALS) {
            let mut files = whole.files.clone();
            let what = damage(&mut files, &another, &mut random);
            if files != whole.files {
                let outcome = whole.attempt(&files);
                table.add(kind, || format!("MQSTORE_SEED={seed}: {what}"), &outcome);
            }
        }
    }
    println!("{left:?}\n{table}");
    table
}

#[test]
fn damage_of_sectors_and_files_is_found_or_harmless() {
    for left in [Left::Closed, Left::Killed] {
        damage_all(left).assert_sound();
    }
}
