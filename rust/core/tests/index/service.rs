//! Files that follow each other.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mqstore_core::clock::ManualClock;
use mqstore_core::error::Error;
use mqstore_core::format::index::{INDEX_HEADER_SIZE, IndexHeader, IndexShape};
use mqstore_core::index::IndexService;
use mqstore_core::mmap::mapped_file::Access;

use crate::hooked::{Call, Hook, HookedFileSystem};
use crate::service;

fn names(index: &IndexService) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    index.files().iter().map(|file| name(file.path())).collect()
}

fn build(index: &IndexService, hashes: &[u32], offset: u64) -> bool {
    index.build_index(hashes.iter().copied(), offset, 1000 + offset.cast_signed()).unwrap();
    !index.take_filled().is_empty()
}

fn key_count(index: &IndexService) -> u32 {
    index.files().iter().map(|file| file.index_count() - 1).sum()
}

#[test]
fn a_message_is_indexed_once() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    assert_eq!(index.end_phy_offset(), None);
    build(&index, &[1, 2], 100);
    build(&index, &[1, 2], 100);
    build(&index, &[3], 50);
    assert_eq!((key_count(&index), index.end_phy_offset()), (2, Some(100)));
    build(&index, &[1, 2, 3], 100);
    assert_eq!(key_count(&index), 3, "of a message that was indexed in part the rest is");
    build(&index, &[], 200);
    assert_eq!((key_count(&index), index.end_phy_offset()), (3, Some(100)));
}

#[test]
fn a_full_file_is_handed_out_and_a_new_one_made() {
    let root = tempfile::tempdir().unwrap();
    let (index, clock) = service(root.path(), Access::MapWrite);
    for number in 0..18 {
        assert!(!build(&index, &[number], u64::from(number) * 10));
    }
    clock.set(2_000_000);
    // One key fits, two go into the next file; dispatched again it is found over both.
    assert!(build(&index, &[1, 2, 3], 500));
    assert_eq!(index.files().iter().map(|file| file.index_count()).collect::<Vec<_>>(), [20, 3]);
    assert!(!build(&index, &[1, 2, 3], 500));
    assert_eq!(key_count(&index), 21);
    let files = index.files();
    assert_eq!(files[1].header().begin_phy_offset, 500);
    assert!(names(&index)[0] < names(&index)[1]);
}

#[test]
fn a_full_file_has_its_header_before_the_next_one_is_there() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..19).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    let folder = root.path().join("index");
    let full = std::fs::File::open(folder.join(&names(&index)[0])).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::write(&folder, "in the next file's way").unwrap();
    index.build_index([1].into_iter(), 500, 1000).unwrap_err();
    let mut header = [0; INDEX_HEADER_SIZE];
    full.read_exact_at(&mut header, 0).unwrap();
    assert_eq!(IndexHeader::read(&header), Some(index.files()[0].header()));
}

#[test]
fn keys_of_a_message_that_fill_a_whole_file_are_indexed_once() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..18).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    let hashes: Vec<u32> = (100..125).collect();
    // As a crash leaves it: the last key of one file, all of the next, and nothing of the third.
    build(&index, &hashes[..20], 500);
    assert_eq!(index.files().iter().map(|file| file.index_count()).collect::<Vec<_>>(), [20, 20]);
    build(&index, &hashes, 500);
    assert_eq!(key_count(&index), 18 + 25);
}

/// As in 4.9.3: by it recovery tells a file that is made from one that is not, and its first entry counts its seconds from there.
#[test]
fn a_file_without_keys_says_where_the_one_before_ends() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..19).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    build(&index, &[], 500);
    let header = index.files()[1].header();
    assert_eq!((header.begin_phy_offset, header.end_phy_offset), (180, 180));
    assert_eq!((header.begin_timestamp, header.end_timestamp), (1180, 1180));
    build(&index, &[7], 5000);
    assert_eq!(index.files()[1].entry(1).unwrap().unwrap().time_diff, (1000 + 5000 - 1180) / 1000);
}

/// What is there of it in the last file is not all that other files end with.
#[test]
fn the_rest_of_a_message_s_keys_is_indexed_behind_a_full_file() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..19).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    build(&index, &[18], 180);
    assert_eq!(index.files().len(), 1, "a further file is for the next message to make");
    build(&index, &[1, 2], 500);
    build(&index, &[1, 2, 3], 500);
    assert_eq!(index.files().iter().map(|file| file.index_count()).collect::<Vec<_>>(), [20, 4]);
}

#[test]
fn names_go_on_when_the_clock_does_not() {
    let root = tempfile::tempdir().unwrap();
    let (index, clock) = service(root.path(), Access::MapWrite);
    for number in 0..60 {
        clock.set(1_000_000 - i64::from(number));
        build(&index, &[number], u64::from(number) * 10);
    }
    let found = names(&index);
    assert_eq!(found.len(), 4);
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
    assert!(found.iter().all(|name| name.len() == 17));
    index.flush().unwrap();
    let (again, _) = service(root.path(), Access::MapWrite);
    assert_eq!((names(&again), key_count(&again)), (found, 60));
}

#[test]
fn expired_files_go_but_for_the_newest() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..60).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    assert_eq!(index.delete_expired_file(180).unwrap(), 0, "its last message is still there");
    assert_eq!(index.delete_expired_file(181).unwrap(), 1);
    assert_eq!(index.delete_expired_file(u64::MAX >> 1).unwrap(), 2);
    assert_eq!(names(&index).len(), 1);
    assert_eq!(std::fs::read_dir(root.path().join("index")).unwrap().count(), 1);
}

/// Nobody would remove the others later.
#[test]
fn a_file_that_cannot_be_removed_keeps_no_other_one() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..60).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    let first = index.files()[0].path().to_owned();
    std::fs::remove_file(&first).unwrap();
    std::fs::create_dir(&first).unwrap();
    assert!(matches!(index.delete_expired_file(u64::MAX >> 1), Err(Error::Io { path, .. }) if path == first));
    assert_eq!(names(&index).len(), 1);
    assert_eq!(file_count(root.path()), 2);
}

#[test]
fn what_is_no_index_file_is_named_and_left() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("index");
    std::fs::create_dir_all(folder.join("20260101000000000")).unwrap();
    std::fs::write(folder.join("notes"), "mine").unwrap();
    std::fs::write(folder.join("20260101000000001"), "short").unwrap();
    let clock = Arc::new(mqstore_core::clock::SystemClock);
    let index = IndexService::new(crate::stores::fs(), clock, folder.clone(), crate::SHAPE, Access::MapWrite);
    let faults = index.load(false).unwrap().faults;
    let found: Vec<_> = faults.iter().map(|stray| stray.found.as_str()).collect();
    assert_eq!(
        found[..],
        ["a folder", "5 bytes, and no numbers that fit what is in them", "a file of another name"]
    );
    build(&index, &[1], 0);
    assert_eq!(key_count(&index), 1);
    assert_eq!(std::fs::read(folder.join("notes")).unwrap(), b"mine");
}

#[test]
fn a_name_that_a_useless_file_has_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    build(&index, &[1], 0);
    let taken = names(&index).remove(0);
    drop(index);
    std::fs::write(root.path().join("index").join(&taken), "useless").unwrap();
    let clock = Arc::new(ManualClock::at(1_000_000));
    let folder = root.path().join("index");
    let index = IndexService::new(crate::stores::fs(), clock, folder.clone(), crate::SHAPE, Access::MapWrite);
    assert_eq!(index.load(false).unwrap().faults.len(), 1);
    build(&index, &[1], 100);
    assert!(key_count(&index) == 1 && names(&index)[0] > taken);
    assert_eq!(std::fs::read(folder.join(taken)).unwrap(), b"useless");
}

#[test]
fn a_store_that_is_only_read_indexes_in_memory() {
    let root = tempfile::tempdir().unwrap();
    {
        let (index, _) = service(root.path(), Access::MapWrite);
        (0..25).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
        index.flush().unwrap();
    }
    let before = crate::stores::tree(root.path());
    let (index, _) = service(root.path(), Access::MapRead);
    index.write_header();
    index.flush().unwrap();
    build(&index, &[7, 8], 300);
    index.write_header();
    index.flush().unwrap();
    assert_eq!((index.files().len(), index.end_phy_offset()), (3, Some(300)));
    assert_eq!(crate::stores::tree(root.path()), before);
}

/// What a reader with other options finds: a file whose entries its header does not count yet, one that is only just made,
/// and one that is by the reader's options.
#[test]
fn files_that_are_written_meanwhile_have_the_shape_of_those_before() {
    let root = tempfile::tempdir().unwrap();
    let (index, clock) = service(root.path(), Access::MapWrite);
    (0..19).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
    clock.set(2_000_000);
    build(&index, &[1, 2, 3], 500);
    let len = index.files()[0].shape().file_size();
    std::fs::write(root.path().join("index").join("20991231235959999"), vec![0; len]).unwrap();
    let other = IndexShape { hash_slot_num: 50, index_num: 200 };
    std::fs::write(root.path().join("index").join("29991231235959999"), vec![0; other.file_size()]).unwrap();
    let fs = crate::stores::fs();
    let reader = IndexService::new(fs, clock, root.path().join("index"), other, Access::Read);
    assert_eq!(reader.load(true).unwrap().faults.len(), 0);
    let shapes: Vec<_> = reader.files().iter().map(|file| file.shape()).collect();
    assert_eq!(shapes[..3], vec![index.files()[0].shape(); 3]);
    assert_eq!(shapes[3..], [other]);
    assert_eq!(reader.load(false).unwrap().faults.len(), 1, "nobody is about to write to it");
}

/// A first file of other options that has no keys, or not even a header, is none of a reader's before it has some.
#[test]
fn a_first_file_without_keys_is_left_out_beside_its_writer() {
    let root = tempfile::tempdir().unwrap();
    let (index, clock) = service(root.path(), Access::MapWrite);
    let other = IndexShape { hash_slot_num: 50, index_num: 200 };
    let reader = || {
        IndexService::new(crate::stores::fs(), clock.clone(), root.path().join("index"), other, Access::Read)
    };
    let outcome = |is_live| {
        let reader = reader();
        let faults = reader.load(is_live).unwrap().faults.len();
        (faults, reader.files().len(), reader.first_half_made())
    };
    build(&index, &[1], 10);
    let file = index.files()[0].path().to_path_buf();
    assert_eq!(outcome(true), (0, 1, None));
    let bytes = std::fs::read(&file).unwrap();
    let made = IndexHeader { index_count: 1, ..IndexHeader::default() }.to_bytes();
    // Of one without a header, which a crash has left, the next writer makes another.
    for (header, at_rest) in [(made, (0, 1, None)), ([0; 40], (0, 0, Some(0)))] {
        let mut bytes = vec![0; bytes.len()];
        bytes[..40].copy_from_slice(&header);
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(outcome(true), (0, 0, None));
        assert_eq!(outcome(false), at_rest);
    }
}

/// One over a file system with a function that is called before some of its calls.
fn hooked(root: &Path, access: Access, hook: Hook) -> IndexService {
    let (fs, clock) = (Arc::new(HookedFileSystem::new(hook)), Arc::new(ManualClock::at(1_000_000)));
    IndexService::new(fs, clock, root.join("index"), crate::SHAPE, access)
}

fn file_count(root: &Path) -> usize {
    std::fs::read_dir(root.join("index")).unwrap().count()
}

/// Left there it would be a file that nobody has, and have the name of the next attempt.
#[test]
fn a_file_whose_folder_is_not_brought_to_the_disk_is_no_file() {
    let root = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&refuses);
    let index = hooked(
        root.path(),
        Access::MapWrite,
        Box::new(move |call, path| match call {
            Call::SyncDir if path.ends_with("index") && asked.load(Ordering::Relaxed) => {
                Err(ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }),
    );
    index.build_index([1].into_iter(), 100, 1000).unwrap_err();
    assert_eq!((index.files().len(), file_count(root.path())), (0, 0));
    refuses.store(false, Ordering::Relaxed);
    build(&index, &[1], 100);
    assert_eq!((key_count(&index), file_count(root.path())), (1, 1));
}

/// Back after a power cut they would be believed.
#[test]
fn files_that_a_crash_left_half_made_go_and_are_gone_from_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let (index, clock) = service(root.path(), Access::MapWrite);
    for number in 0..40 {
        clock.set(1_000_000 + i64::from(number));
        build(&index, &[number], u64::from(number) * 10);
    }
    index.flush().unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&syncs);
    let index = hooked(
        root.path(),
        Access::MapWrite,
        Box::new(move |call, _| {
            counted.fetch_add(usize::from(matches!(call, Call::SyncDir)), Ordering::Relaxed);
            Ok(())
        }),
    );
    let trimmed = |dropped: &[_]| {
        let before = syncs.load(Ordering::Relaxed);
        index.trim(dropped).unwrap();
        (index.files().len(), file_count(root.path()), syncs.load(Ordering::Relaxed) - before)
    };
    index.load(false).unwrap();
    assert_eq!((index.first_half_made(), trimmed(&[])), (None, (3, 3, 0)));
    let names = names(&index);
    // One before the newest, and one behind it.
    for name in [format!("{}", names[1].parse::<u64>().unwrap() + 1), "20991231235959999".into()] {
        std::fs::write(root.path().join("index").join(name), "").unwrap();
    }
    index.load(false).unwrap();
    assert_eq!(index.first_half_made(), Some(2));
    assert_eq!(trimmed(&[]), (3, 3, 1));
    assert_eq!((index.first_half_made(), trimmed(&[])), (None, (3, 3, 0)));
    let newest = index.files()[2].clone();
    assert_eq!(trimmed(&[newest]), (2, 2, 1));
    let (again, _) = service(root.path(), Access::MapWrite);
    assert_eq!(key_count(&again), 38);
}

/// The writer of an index removes a file beside a reader, which has listed it; nobody does so beside the writer.
#[test]
fn a_file_that_goes_before_it_is_opened_is_missing_for_who_reads() {
    for (access, is_removed, opens) in
        [(Access::MapRead, true, true), (Access::MapRead, false, false), (Access::MapWrite, true, false)]
    {
        let root = tempfile::tempdir().unwrap();
        let (index, _) = service(root.path(), Access::MapWrite);
        (0..40).for_each(|number| _ = build(&index, &[number], u64::from(number) * 10));
        let second = index.files()[1].path().to_owned();
        let index = hooked(
            root.path(),
            access,
            Box::new(move |call, path| {
                if !matches!(call, Call::Open) || path != second {
                    return Ok(());
                }
                if is_removed { std::fs::remove_file(path) } else { Err(ErrorKind::PermissionDenied.into()) }
            }),
        );
        let outcome = index.load(false);
        assert_eq!(outcome.is_ok(), opens, "{access:?}, removed {is_removed}: {outcome:?}");
        assert_eq!(index.files().len(), if opens { 2 } else { 0 });
    }
}

#[test]
fn files_that_are_forgotten_stay_on_the_disk() {
    let root = tempfile::tempdir().unwrap();
    let (index, _) = service(root.path(), Access::MapWrite);
    (0..40).for_each(|number| _ = index.build_index([number].into_iter(), u64::from(number) * 10, 1000));
    index.forget(&index.files());
    assert_eq!((index.files().len(), file_count(root.path())), (0, 3));
    assert_eq!(index.take_filled().len(), 2);
}
