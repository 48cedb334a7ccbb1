//! Files put end to end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mqstore_core::error::Error;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::mmap::file_queue::{FileQueueOptions, Listing};
use mqstore_core::mmap::mapped_file::Access;
use proptest::prelude::*;

use crate::{options, queue, queue_with, write_files};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn listing(files: &[(u64, u64)]) -> Listing {
    let files = files.iter().map(|(offset, len)| (*offset, *len, PathBuf::from(format!("{offset:020}"))));
    Listing { files: files.collect(), ..Listing::default() }
}

#[test]
fn a_missing_folder_has_no_files() {
    let root = tempfile::tempdir().unwrap();
    let queue = queue(root.path(), Access::MapWrite);
    assert!(queue.files().is_empty() && queue.first().is_none() && queue.last().is_none());
    assert_eq!((queue.min_offset(), queue.find(0).is_none()), (None, true));
    assert!(!root.path().join("files").exists());
}

#[test]
fn a_new_file_has_full_size_and_twenty_digits() {
    let root = tempfile::tempdir().unwrap();
    let queue = queue(root.path(), Access::MapWrite);
    for offset in [0, 100] {
        let file = queue.create(offset).unwrap();
        assert!(queue.find(offset).is_none(), "a file that was made is not in the queue yet");
        queue.push(file);
        assert_eq!(queue.find(offset + 99).unwrap().file_from_offset(), offset);
    }
    assert_eq!(names(&root.path().join("files")), ["00000000000000000000", "00000000000000000100"]);
    assert_eq!(std::fs::metadata(queue.last().unwrap().path()).unwrap().len(), 100);
    assert!(matches!(queue.create(0), Err(Error::Io { operation: "create", .. })), "it is there already");
}

#[test]
fn files_are_found_by_offset() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("files"), [200, 300, 500]);
    let queue = queue(root.path(), Access::MapRead);
    assert_eq!(queue.min_offset(), Some(200));
    let found = |offset| queue.find(offset).map(|file| file.file_from_offset());
    for (offset, expected) in [
        (0, None),
        (199, None),
        (200, Some(200)),
        (299, Some(200)),
        (300, Some(300)),
        (400, None), // a file is missing there
        (499, None),
        (500, Some(500)),
        (599, Some(500)),
        (600, None),
        (u64::MAX, None),
    ] {
        assert_eq!(found(offset), expected, "{offset}");
    }
}

#[test]
fn a_file_is_found_by_when_it_was_changed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("files");
    write_files(&folder, [0, 100, 200]);
    for (offset, seconds) in [(0, 10), (100, 20), (200, 30)] {
        let file = std::fs::File::options().write(true).open(folder.join(format!("{offset:020}"))).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    let queue = queue(root.path(), Access::MapRead);
    let found = |timestamp| queue.by_modified_time(timestamp).unwrap().unwrap().file_from_offset();
    assert_eq!([0, 10_000, 10_001, 20_000, 30_000, 30_001].map(found), [0, 0, 100, 100, 200, 200]);
}

#[test]
fn deleted_files_go_from_queue_and_disk_while_slices_of_them_stay() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("files");
    write_files(&folder, [0, 100, 200]);
    let queue = queue(root.path(), Access::MapWrite);
    let first = queue.first().unwrap();
    let slice = first.slice(10, 20).unwrap();
    assert_eq!(first.held_count(), 1);
    queue.delete(&[Arc::clone(&first)]).unwrap();
    assert_eq!(names(&folder), ["00000000000000000100", "00000000000000000200"]);
    assert_eq!((queue.min_offset(), queue.find(5).is_none()), (Some(100), true));
    drop(first);
    assert_eq!(&slice[..], [0; 20]);
    // The newest go first when a dirty tail is cut; one that is gone already is no error.
    let last = queue.last().unwrap();
    std::fs::remove_file(last.path()).unwrap();
    queue.delete(&[last]).unwrap();
    assert_eq!(queue.last().unwrap().file_from_offset(), 100);
    queue.delete(&[]).unwrap();
    queue.forget(&queue.files());
    assert!(queue.files().is_empty());
    assert_eq!(names(&folder), ["00000000000000000100"], "what is forgotten stays on the disk");
}

#[test]
fn a_newer_listing_keeps_the_files_that_are_still_there_open() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("files");
    write_files(&folder, [0, 100]);
    let queue = queue(root.path(), Access::MapRead);
    let kept = queue.last().unwrap();
    let slice = kept.slice(0, 1).unwrap();
    std::fs::remove_file(folder.join(format!("{:020}", 0))).unwrap();
    write_files(&folder, [200]);
    queue.refresh(&Listing::read(&OsFileSystem, [&folder]).unwrap());
    let offsets: Vec<_> = queue.files().iter().map(|file| file.file_from_offset()).collect();
    assert_eq!(offsets, [100, 200]);
    assert!(Arc::ptr_eq(&queue.first().unwrap(), &kept));
    assert_eq!(slice[0], 1);
}

/// As a writer leaves it that removes what is behind its end and makes the file anew.
#[test]
fn a_newer_listing_has_files_that_were_made_anew_by_their_names() {
    for access in [Access::MapRead, Access::Read] {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("files");
        write_files(&folder, [0, 100, 200]);
        let queue = queue(root.path(), access);
        let first_bytes =
            || queue.files().iter().map(|file| file.slice(0, 1).unwrap()[0]).collect::<Vec<_>>();
        let [kept, replaced] = [0, 100].map(|offset| queue.find(offset).unwrap());
        assert_eq!([&kept, &replaced].map(|file| file.slice(0, 1).unwrap()[0]), [0, 1]);
        std::fs::remove_file(replaced.path()).unwrap();
        std::fs::write(replaced.path(), [7; 100]).unwrap();
        queue.refresh(&Listing::read(&OsFileSystem, [&folder]).unwrap());
        assert_eq!(first_bytes(), [0, 7, 2], "{access:?}");
        assert!(Arc::ptr_eq(&queue.find(0).unwrap(), &kept));
        assert_eq!(replaced.slice(0, 1).unwrap()[0], 1, "who reads the old one goes on reading it");
    }
}

#[test]
fn files_of_several_folders_go_round_and_leave_out_the_full_and_the_read_only() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let several = |read_only: &[&str]| FileQueueOptions {
        paths: vec![path("b"), path("a"), path("b")],
        read_only_paths: read_only.iter().map(|name| path(name)).collect(),
        ..options(root.path(), Access::MapWrite)
    };
    let folders_of = |queue: &mqstore_core::mmap::file_queue::FileQueue, offset| {
        let names = queue
            .paths_for(offset)
            .into_iter()
            .map(|path| path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned());
        names.collect::<String>()
    };
    let queue = queue_with(several(&["c"]));
    assert_eq!([0, 100, 200].map(|offset| folders_of(&queue, offset)), ["ab", "ba", "ab"]);
    queue.set_full_paths(vec![path("a")]);
    assert_eq!([0, 100].map(|offset| folders_of(&queue, offset)), ["ba", "ba"]);
    queue.set_full_paths(vec![path("a"), path("b")]);
    assert_eq!([0, 100].map(|offset| folders_of(&queue, offset)), ["ab", "ba"], "all are full: any will do");
    let only_b = queue_with(several(&["a"]));
    assert_eq!([0, 100].map(|offset| folders_of(&only_b, offset)), ["b", "b"]);
    let none = queue_with(several(&["a", "b"]));
    assert!(matches!(none.create(0), Err(Error::Option { option: "readOnlyCommitLogStorePaths", .. })));
}

#[test]
fn files_of_several_folders_are_one_queue() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("a"), [0, 200]);
    write_files(&root.path().join("b"), [100]);
    write_files(&root.path().join("c"), [300]);
    let queue = queue_with(FileQueueOptions {
        paths: vec![root.path().join("a"), root.path().join("b"), root.path().join("missing")],
        read_only_paths: vec![root.path().join("c")],
        ..options(root.path(), Access::MapRead)
    });
    let numbers: Vec<_> = queue.files().iter().map(|file| file.slice(0, 1).unwrap()[0]).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn what_is_no_file_of_the_queue_is_named() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("files");
    write_files(&folder, [0]);
    std::fs::write(folder.join("notes.txt"), "mine").unwrap();
    std::fs::create_dir(folder.join(format!("{:020}", 100))).unwrap();
    let listing = Listing::read(&OsFileSystem, [&folder]).unwrap();
    assert_eq!(listing.files.len(), 1);
    let mut found: Vec<_> = listing.strays.iter().map(|stray| stray.found.clone()).collect();
    found.sort();
    assert_eq!(found, ["a file of another name", "a folder"]);
    assert_eq!(listing.faults(100).len(), 2);
    let file = folder.join(format!("{:020}", 0));
    assert!(matches!(Listing::read(&OsFileSystem, [&file]), Err(Error::Layout { .. })));
}

#[test]
fn the_size_of_the_files_is_what_most_of_them_have() {
    for (files, size) in [
        (&[][..], None),
        (&[(0, 0)], None),
        (&[(0, 100)], Some(100)),
        (&[(0, 100), (100, 100), (200, 0)], Some(100)),
        (&[(0, 100), (100, 60)], Some(100)), // a copy that was cut off
        (&[(0, 60), (100, 100), (200, 100)], Some(100)),
        (&[(300, 70), (400, 70), (500, 70)], Some(100)), // all of them: the names tell
    ] {
        assert_eq!(listing(files).file_size(), size, "{files:?}");
    }
}

#[test]
fn what_a_crash_left_half_made_is_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("files");
    std::fs::create_dir(&folder).unwrap();
    let path = |offset: u64| folder.join(format!("{offset:020}"));
    for (offset, len) in [(0, 100), (100, 0), (200, 100), (300, 0), (400, 0)] {
        std::fs::write(path(offset), vec![1; len]).unwrap();
    }
    let listing = Listing::read(&OsFileSystem, [&folder]).unwrap();
    assert_eq!(listing.half_made, [path(400), path(300)]);
    assert_eq!((listing.files.len(), listing.faults(100).len()), (3, 1));
    // Of files that are derived all is made again from the first on that is missing.
    let listing = Listing::read_derived(&OsFileSystem, &folder).unwrap();
    assert_eq!(listing.half_made, [path(400), path(300), path(200), path(100)]);
    assert_eq!((listing.files.len(), listing.faults(100).len()), (1, 0));
    let queue = queue_with(options(root.path(), Access::MapWrite));
    assert!(queue.has_half_made());
    queue.remove_half_made().unwrap();
    assert_eq!((queue.has_half_made(), path(300).exists(), path(200).exists()), (false, false, true));
}

#[test]
fn faults_name_file_expected_and_found() {
    let fault = |files: &[(u64, u64)]| {
        let faults = listing(files).faults(100);
        faults
            .iter()
            .map(|fault| format!("{}: {} / {}", fault.path.display(), fault.expected, fault.found))
            .collect()
    };
    let none: Vec<String> = fault(&[(100, 100), (200, 100)]);
    assert_eq!(none, Vec::<String>::new());
    let short: Vec<String> = fault(&[(0, 99), (100, 100)]);
    assert_eq!(short, ["00000000000000000000: 100 bytes, as the files have / 99 bytes"]);
    let empty_in_the_middle: Vec<String> = fault(&[(0, 0), (100, 100)]);
    assert_eq!(empty_in_the_middle.len(), 1);
    let odd: Vec<String> = fault(&[(0, 100), (150, 100)]);
    assert_eq!(odd, ["00000000000000000150: a name that is a multiple of 100 / 150"]);
    let hole: Vec<String> = fault(&[(0, 100), (200, 100)]);
    assert_eq!(hole, ["00000000000000000200: the file 00000000000000000100 / 200"]);
    let twice: Vec<String> = fault(&[(0, 100), (0, 100)]);
    assert_eq!(
        twice,
        ["00000000000000000000: the file 00000000000000000100 / 0, which another folder has too"]
    );
}

proptest! {
    #[test]
    fn any_listing_has_a_size_of_at_least_one_byte(
        files in proptest::collection::vec((0..1_u64 << 63, 0..1_u64 << 40), 0..6)
    ) {
        let mut listing = listing(&files);
        listing.files.sort();
        if let Some(size) = listing.file_size() {
            prop_assert!(size > 0);
            prop_assert!(listing.faults(size).len() <= 2 * files.len());
        }
    }

    #[test]
    fn an_offset_is_found_in_the_file_that_has_it(
        present in proptest::collection::btree_set(0..12_u64, 1..8), offset in 0..1300_u64
    ) {
        let root = tempfile::tempdir().unwrap();
        write_files(&root.path().join("files"), present.iter().map(|number| number * 100));
        let queue = queue(root.path(), Access::MapRead);
        let expected = present.contains(&(offset / 100)).then_some(offset / 100 * 100);
        prop_assert_eq!(queue.find(offset).map(|file| file.file_from_offset()), expected);
    }
}
