//! Space ahead of the writer.

use std::path::Path;
use std::time::Duration;

use mqstore_core::commit_log::{AppendRefusal, CommitLog, Wait};
use mqstore_core::config::StoreConfig;
use mqstore_core::mmap::mapped_file::Access;

use crate::stores::{config, log_file, new_record};
use crate::{Log, append, log_with};

const MIB: u64 = 1 << 20;

fn log_of(root: &Path, mapped_file_size_commit_log: u64) -> Log {
    log_with(StoreConfig { mapped_file_size_commit_log, ..config(root) }, Access::MapWrite)
}

/// What the background does as far as it was asked to.
fn allocate(log: &CommitLog) {
    log.reserve_pass(Duration::ZERO).unwrap();
    log.make_next_pass(Duration::ZERO).unwrap();
    log.reserve_pass(Duration::ZERO).unwrap();
}

fn files_of(root: &Path) -> usize {
    std::fs::read_dir(root.join("commitlog")).unwrap().count()
}

#[test]
fn the_next_file_is_made_before_it_is_needed_and_goes_where_it_is_not() {
    let root = tempfile::tempdir().unwrap();
    let log = log_of(root.path(), 2 * MIB);
    append(&log, 0, b"");
    allocate(&log);
    assert_eq!(files_of(root.path()), 1);
    let body = vec![7; 100_000];
    while log.wrote_offset() < MIB + MIB / 2 {
        append(&log, 0, &body);
    }
    allocate(&log);
    assert_eq!(files_of(root.path()), 2);
    assert!(log.files().last().unwrap().contains(0), "the log does not reach into it yet");
    // The roll takes the file that is there, so that nobody has to wait.
    while log.files().files().len() == 1 {
        log.append(&new_record("t", 0, &body), Wait::Try { now_ms: 0 }).unwrap();
    }
    assert_eq!(log.min_offset(), Some(0));
    log.discard_prepared_file().unwrap();
    assert_eq!(files_of(root.path()), 2, "a file in use is no prepared one");
}

/// Its name and its size have to get to the disk, behind all that the disk was given to do: a put waited for half a second.
#[test]
fn the_next_file_is_made_long_before_it_is_needed_but_not_for_a_small_log() {
    let root = tempfile::tempdir().unwrap();
    let log = log_of(root.path(), 16 * MIB);
    let body = vec![7; 100_000];
    while log.wrote_offset() < 4 * MIB - 200_000 {
        append(&log, 0, &body);
        allocate(&log);
        assert_eq!(files_of(root.path()), 1, "{}", log.wrote_offset());
    }
    while log.wrote_offset() < 8 * MIB {
        append(&log, 0, &body);
        allocate(&log);
    }
    assert_eq!(files_of(root.path()), 2);
    while log.files().files().len() == 1 {
        append(&log, 0, &body);
        allocate(&log);
    }
    // It goes on to the file that was made, some way ahead, and the one behind that comes as soon.
    log.append(&new_record("t", 0, &vec![7; 2_000_000]), Wait::Try { now_ms: 0 }).unwrap();
    while log.wrote_offset() < 20 * MIB {
        append(&log, 0, &body);
        allocate(&log);
    }
    assert_eq!(files_of(root.path()), 3);
}

/// Whether it was made early, or only once all of the file before was reserved.
#[test]
fn the_next_file_has_room_for_what_is_appended_first() {
    for is_early in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let log = log_of(root.path(), 4 * MIB);
        let body = vec![7; 100_000];
        while log.wrote_offset() < 4 * MIB - 300_000 {
            append(&log, 0, &body);
            log.reserve_pass(Duration::ZERO).unwrap();
            if is_early {
                log.make_next_pass(Duration::ZERO).unwrap();
            }
        }
        log.make_next_pass(Duration::ZERO).unwrap();
        log.reserve_pass(Duration::ZERO).unwrap();
        log.append(&new_record("t", 0, &vec![7; 2_000_000]), Wait::Try { now_ms: 0 }).unwrap();
        assert_eq!(log.files().files().len(), 2);
    }
}

/// A file without a buffer is written directly, and the buffer of the one before comes back once that is committed.
#[test]
fn the_next_file_is_made_late_where_no_buffer_is_left_for_it() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_commit_log = 8 * MIB;
    config.transient_store_pool_enable = true;
    config.transient_store_pool_size = 1;
    let log = log_with(config, Access::MapWrite);
    let body = vec![7; 100_000];
    while log.wrote_offset() < 3 * MIB {
        append(&log, 0, &body);
        allocate(&log);
        assert_eq!(files_of(root.path()), 1, "{}", log.wrote_offset());
    }
    while log.files().files().len() == 1 && files_of(root.path()) == 1 {
        append(&log, 0, &body);
        allocate(&log);
    }
    assert_eq!(log.files().files().len(), 1, "it is made before it is needed all the same");
}

#[test]
fn no_file_is_made_behind_one_that_is_not_appended_to_any_more() {
    let root = tempfile::tempdir().unwrap();
    let log = log_of(root.path(), 2 * MIB);
    append(&log, 0, &vec![7; 1_000_000]);
    log.reserve_pass(Duration::ZERO).unwrap();
    log.discard_prepared_file().unwrap();
    allocate(&log);
    assert_eq!(files_of(root.path()), 1);
}

#[test]
fn a_prepared_file_that_was_not_used_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_commit_log = 2 * MIB;
    config.transient_store_pool_enable = true;
    config.transient_store_pool_size = 2;
    let log = log_with(config, Access::MapWrite);
    let body = vec![7; 1_900_000];
    append(&log, 0, &body);
    append(&log, 0, b"");
    allocate(&log);
    assert!(log_file(root.path(), 2 * MIB).exists());
    assert_eq!(log.remain_transient_store_buffer_count(), 0);
    log.discard_prepared_file().unwrap();
    assert!(!log_file(root.path(), 2 * MIB).exists());
    assert_eq!(log.remain_transient_store_buffer_count(), 1, "its buffer is another file's again");
    log.discard_prepared_file().unwrap();
    append(&log, 0, &body);
    assert!(log_file(root.path(), 2 * MIB).exists(), "it is made when it is needed");
}

#[test]
fn nothing_is_done_where_nobody_asked() {
    let root = tempfile::tempdir().unwrap();
    let log = log_with(config(root.path()), Access::MapWrite);
    allocate(&log);
    assert!(!root.path().join("commitlog").exists());
    std::thread::scope(|scope| {
        let reserves = scope.spawn(|| log.reserve_pass(Duration::MAX).unwrap());
        let makes = scope.spawn(|| log.make_next_pass(Duration::MAX).unwrap());
        log.wake_allocator();
        reserves.join().unwrap();
        makes.join().unwrap();
    });
}

#[test]
fn warmed_files_have_all_their_blocks() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.warm_mapped_file_enable = true;
    config.mapped_file_size_commit_log = 4 * MIB;
    let log = log_with(config, Access::MapWrite);
    append(&log, 0, b"");
    let found = log.files().first().unwrap().handle().unwrap().metadata().unwrap();
    assert!(found.allocated >= 4 * MIB, "{} of {} bytes have blocks", found.allocated, found.len);
    allocate(&log);
    assert_eq!(files_of(root.path()), 2, "the one behind it is warmed as well, beside what is put");
    append(&log, 0, &vec![0; 4_194_150]);
    allocate(&log);
    assert_eq!(log.files().files().len(), 2);
    assert_eq!(files_of(root.path()), 3);
}

#[test]
fn a_folder_that_cannot_be_made_is_a_refusal() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "").unwrap();
    let mut config = config(root.path());
    config.store_path_commit_log = vec![root.path().join("file").join("commitlog")];
    let options = mqstore_core::mmap::file_queue::FileQueueOptions {
        paths: config.store_path_commit_log.clone(),
        read_only_paths: Vec::new(),
        file_size: 4096,
        access: Access::MapWrite,
        budget: None,
    };
    let files = mqstore_core::mmap::file_queue::FileQueue::new(
        crate::stores::fs(),
        options,
        &mqstore_core::mmap::file_queue::Listing::default(),
    );
    let clock = std::sync::Arc::new(mqstore_core::clock::SystemClock);
    let log = CommitLog::new(std::sync::Arc::new(config), clock, files).unwrap();
    let refusal = log.append(&new_record("t", 0, b""), Wait::Block).unwrap_err();
    assert!(matches!(refusal, AppendRefusal::NoSpace(_)));
    assert!(refusal.to_string().contains("make the folder"), "{refusal}");
    assert_eq!(log.wrote_offset(), 0);
}

/// Where the mappings of a file lie in it whose pages come into memory one by one, and of those where they come with
/// others.
#[cfg(target_os = "linux")]
fn alone_and_together(path: &Path) -> [Vec<(u64, u64)>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    let mut range = None;
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let place = usize::from(!flags.split(' ').any(|flag| flag == "rr"));
            found[place].extend(range.take());
        } else if line.ends_with(path.to_str().unwrap()) {
            let mut words = line.split_whitespace();
            let (begin, end) = words.next().unwrap().split_once('-').unwrap();
            let at = u64::from_str_radix(words.nth(1).unwrap(), 16).unwrap();
            let [begin, end] = [begin, end].map(|address| u64::from_str_radix(address, 16).unwrap());
            range = Some((at, at + end - begin));
        }
    }
    found
}

/// A flush of one record wrote up to two megabytes where each page came with others.
#[cfg(target_os = "linux")]
#[test]
fn what_is_written_comes_into_memory_page_by_page_and_what_is_full_does_not() {
    let root = tempfile::tempdir().unwrap();
    let mut config = config(root.path());
    config.mapped_file_size_commit_log = 2 * MIB;
    let body = vec![7; 100_000];
    let log = log_with(config.clone(), Access::MapWrite);
    let first = log_file(root.path(), 0);
    append(&log, 0, &body);
    assert_eq!(alone_and_together(&first), [vec![(0, 2 * MIB)], vec![]]);
    let end = log.wrote_offset();
    drop(log);

    let log = log_with(config, Access::MapWrite);
    log.set_end(end, 0);
    append(&log, 0, &body);
    let page = end / 4096 * 4096;
    assert_eq!(alone_and_together(&first), [vec![(page, 2 * MIB)], vec![(0, page)]]);

    while log.files().files().len() == 1 {
        append(&log, 0, &body);
    }
    assert_eq!(alone_and_together(&first), [vec![], vec![(0, 2 * MIB)]]);
    assert_eq!(alone_and_together(&log_file(root.path(), 2 * MIB)), [vec![(0, 2 * MIB)], vec![]]);
}
