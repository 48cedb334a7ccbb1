//! The bound on open files.

use std::path::Path;
use std::sync::Arc;

use mqstore_core::mmap::file_queue::FileQueueOptions;
use mqstore_core::mmap::map_budget::MapBudget;
use mqstore_core::mmap::mapped_file::Access;

use crate::{budgeted, options, queue_with, write_files};

#[test]
fn no_more_files_are_open_than_the_budget_has() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("files"), (0..50).map(|number| number * 100));
    let budget = MapBudget::new(5);
    let queue = budgeted(root.path(), &budget);
    let files = queue.files();
    let mut slices = Vec::new();
    for round in 0..3 {
        for file in files.iter() {
            slices.push(file.slice(round, 1).unwrap());
            file.region().unwrap();
            slices.push(file.slice(round, 1).unwrap());
            assert!(budget.open_count() <= 5);
        }
    }
    let mapped = files.iter().filter(|file| file.held_count() > 0).count();
    assert!((1..=5).contains(&mapped), "{mapped} files are mapped");
    // What was given out stays, whatever was closed since.
    for (at, slice) in slices.iter().enumerate() {
        assert_eq!(usize::from(slice[0]), at / 2 % 50);
    }
}

#[test]
fn a_file_that_is_used_again_and_again_is_spared() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("files"), (0..50).map(|number| number * 100));
    let budget = MapBudget::new(4);
    let queue = budgeted(root.path(), &budget);
    let files = queue.files();
    let hot = files.first().unwrap();
    let region = hot.region().unwrap();
    for cold in files.iter().skip(1) {
        hot.slice(0, 1).unwrap();
        cold.slice(0, 1).unwrap();
    }
    assert!(Arc::ptr_eq(&region, &hot.region().unwrap()), "it was never closed");
}

/// It is long, and much of it is read.
#[test]
fn a_file_of_a_log_is_mapped_at_its_first_read() {
    let root = tempfile::tempdir().unwrap();
    let options = FileQueueOptions {
        budget: Some(MapBudget::of_log()),
        file_size: 100_000,
        ..options(root.path(), Access::MapWrite)
    };
    let file = queue_with(options).create(0).unwrap();
    let slice = file.slice(0, 1).unwrap();
    assert_eq!(file.held_count(), 1, "by {slice:?}");
}

/// Most of many files are closed again after a read or two, for which no mapping is worth its cost.
#[test]
fn a_file_of_many_is_mapped_once_it_was_read_often_or_much() {
    let root = tempfile::tempdir().unwrap();
    let size = 100_000;
    let budget = Some(MapBudget::new(1));
    let options = FileQueueOptions { budget, file_size: size, ..options(root.path(), Access::MapWrite) };
    let queue = queue_with(options);
    let [often, much] = [0, size].map(|from| queue.create(from).unwrap());
    often.handle().unwrap().write_at(b"message", 50_000).unwrap();
    let mut is_mapped = Vec::new();
    for _ in 0..2 {
        is_mapped.extend((0..10).map(|_| {
            let slice = often.slice(50_000, 7).unwrap();
            assert_eq!(&*slice, b"message");
            often.held_count() > 0
        }));
        let slice = much.slice(0, size).unwrap();
        assert_eq!((slice.len(), much.held_count()), (100_000, 1), "it is mapped, and the other one closed");
    }
    assert_eq!(is_mapped, [[false; 8].as_slice(), &[true; 2], &[false; 8], &[true; 2]].concat());
}

/// Retention takes a file's name away while somebody reads it.
#[test]
fn a_file_without_a_name_is_not_closed() {
    let root = tempfile::tempdir().unwrap();
    let budget = MapBudget::new(1);
    let options =
        FileQueueOptions { budget: Some(Arc::clone(&budget)), ..options(root.path(), Access::MapWrite) };
    let queue = queue_with(options);
    let files = [0, 100, 200].map(|from| queue.create(from).unwrap());
    files[0].handle().unwrap().write_at(b"message", 50).unwrap();
    files[0].unlink().unwrap();
    for _ in 0..3 {
        files[1..].iter().for_each(|file| _ = file.region().unwrap());
    }
    assert_eq!(&*files[0].slice(50, 7).unwrap(), b"message");
}

#[test]
fn a_file_that_is_removed_behind_a_look_up_is_gone_and_no_error() {
    let root = tempfile::tempdir().unwrap();
    let queue = queue_with(options(root.path(), Access::MapWrite));
    let file = queue.create(0).unwrap();
    assert!(file.slice_if_there(0, 7).unwrap().is_some());
    file.delete().unwrap();
    assert!(file.slice_if_there(0, 7).unwrap().is_none());
    let vanished = queue.create(100).unwrap();
    vanished.close();
    std::fs::remove_file(vanished.path()).unwrap();
    assert!(vanished.slice_if_there(0, 7).is_err(), "nobody but the writer may take its files away");
}

#[test]
fn a_budget_of_none_is_one_of_one() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("files"), [0, 100]);
    let budget = MapBudget::new(0);
    let queue = budgeted(root.path(), &budget);
    for file in queue.files().iter() {
        file.slice(0, 1).unwrap();
    }
    assert_eq!(budget.open_count(), 1);
}

#[test]
fn files_that_are_made_count_too() {
    let root = tempfile::tempdir().unwrap();
    let budget = MapBudget::new(5);
    let options =
        FileQueueOptions { budget: Some(Arc::clone(&budget)), ..options(root.path(), Access::MapWrite) };
    let queue = queue_with(options);
    for number in 0..20 {
        queue.push(queue.create(number * 100).unwrap());
        assert_eq!(budget.open_count(), usize::try_from(number + 1).unwrap().min(5));
    }
}

/// What the system knows of this process's mapping of a file.
fn flags_of_mapping(path: &Path) -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let of_file = maps.split_once(path.to_str().unwrap()).unwrap().1;
    of_file.lines().find_map(|line| line.strip_prefix("VmFlags:")).unwrap().to_owned()
}

#[test]
fn a_short_file_of_many_is_not_read_ahead_into_its_hole() {
    let root = tempfile::tempdir().unwrap();
    let size = 1 << 20;
    let budget = Some(MapBudget::new(5));
    let options = FileQueueOptions { budget, file_size: size, ..options(root.path(), Access::MapWrite) };
    let queue = queue_with(options);
    for (from, written, is_alone) in [(0, 10, true), (size, 1 << 19, false)] {
        let file = queue.create(from).unwrap();
        file.handle().unwrap().write_at(&vec![7; written], 0).unwrap();
        file.region().unwrap();
        assert_eq!(flags_of_mapping(file.path()).contains(" rr"), is_alone, "{written} bytes are written");
    }
}
