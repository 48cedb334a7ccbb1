//! Readers beside a writer.

use std::sync::Arc;

use crate::hooked::{Call, Hook, open_hooked};
use crate::stores::{LOG_FILE_SIZE, UNITS_IN_FILE, config, fill, numbers, open, read, try_open};
use mqstore_core::config::StoreConfig;
use mqstore_core::status::GetMessageStatus;
use mqstore_core::store::Mode;

#[test]
fn a_reader_sees_what_a_writer_adds() {
    for pread in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        fill(&writer, 0..3);
        let mut config = config(root.path());
        config.pread = pread;
        let reader = try_open(config, Mode::Read).unwrap();
        assert_eq!(numbers(&reader), [0, 1, 2]);
        for end in [10, 40, 90] {
            fill(&writer, numbers(&reader).len()..end);
            assert!(numbers(&reader).len() < end, "only a refresh shows it");
            reader.refresh().unwrap();
            assert_eq!(numbers(&reader), (0..end).collect::<Vec<_>>());
            if end == 40 {
                writer.reput().unwrap();
                writer.flush_everything().unwrap();
            }
        }
        assert_eq!(reader.refresh().unwrap(), 0);
        writer.close().unwrap();
        reader.refresh().unwrap();
        assert_eq!(numbers(&reader), (0..90).collect::<Vec<_>>());
    }
}

/// A power cut takes it from the log otherwise, and the reader's group passes over what gets its places then.
#[test]
fn what_a_reader_has_seen_of_the_log_is_brought_to_the_disk() {
    for pread in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let writer = open(root.path());
        fill(&writer, 0..90);
        let synced = Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = Arc::clone(&synced);
        let hook: Hook = Box::new(move |call, path| {
            if matches!(call, Call::Sync | Call::SyncDir) {
                noted.lock().unwrap().push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
            Ok(())
        });
        let mut config = config(root.path());
        config.pread = pread;
        let (reader, _) = open_hooked(config, Mode::Read, hook);
        let numbers = 0..reader.max_phy_offset().div_ceil(LOG_FILE_SIZE);
        let files: Vec<_> = numbers.map(|number| format!("{:020}", number * LOG_FILE_SIZE)).collect();
        assert!(files.len() > 2);
        let taken = || std::mem::take(&mut *synced.lock().unwrap());
        reader.sync_log_seen().unwrap();
        assert_eq!(taken(), [&["commitlog".to_owned()], &*files].concat());
        fill(&writer, 90..91);
        reader.sync_log_seen().unwrap();
        assert_eq!(taken(), [""; 0], "nothing more was seen");
        reader.refresh().unwrap();
        reader.sync_log_seen().unwrap();
        assert_eq!(taken(), ["commitlog", files.last().unwrap()]);
        writer.close().unwrap();
    }
}

#[test]
fn a_reader_goes_on_with_the_next_writer() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..3);
    writer.close().unwrap();
    let reader = read(root.path());
    let next = open(root.path());
    fill(&next, 3..30);
    reader.refresh().unwrap();
    assert_eq!(numbers(&reader), (0..30).collect::<Vec<_>>());
}

/// Nothing tells of the sizes of a store's files while it has none.
#[test]
fn a_reader_that_knows_no_sizes_follows_an_empty_store() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    let reader = try_open(StoreConfig::new(root.path()), Mode::Read).unwrap();
    for end in [1, 15, 90] {
        fill(&writer, numbers(&reader).len()..end);
        reader.refresh().unwrap();
        assert_eq!((numbers(&reader), reader.gaps()), ((0..end).collect(), Vec::new()));
        writer.reput().unwrap();
        writer.flush_everything().unwrap();
        reader.refresh().unwrap();
        assert_eq!(numbers(&reader), (0..end).collect::<Vec<_>>());
    }
}

#[test]
fn a_reader_lets_go_of_files_that_retention_took() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..60);
    let reader = read(root.path());
    let kept = reader.get_message("t", 0, 0, 1, None).unwrap();
    let files = writer.log().files().files();
    writer.log().files().delete(&files[..1]).unwrap();
    reader.refresh().unwrap();
    let found = numbers(&reader);
    assert!(found.len() < 60 && found.last() == Some(&59));
    let queue = reader.find_consume_queue("t", 0).unwrap();
    assert_eq!(queue.min_offset_in_queue(), found[0] as u64);
    assert_eq!(crate::stores::bodies_of(&kept), [format!("{:0>80}", 0)]);
}

/// What came and went again while nobody looked is more than a queue's blanks would fill.
#[test]
fn a_reader_goes_on_behind_what_it_has_never_seen() {
    const MANY: usize = 2500;
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..60);
    let reader = read(root.path());
    assert_eq!(numbers(&reader).len(), 60);
    for life in 1..4 {
        fill(&writer, life * MANY..(life + 1) * MANY);
        let files = writer.log().files().files();
        writer.log().files().delete(&files[..files.len() - 2]).unwrap();
        reader.refresh().unwrap();
        let queue = reader.find_consume_queue("t", 0).unwrap();
        assert_eq!(queue.max_offset_in_queue(), (60 + life * MANY) as u64);
        assert_eq!((reader.rejected_count(), reader.gaps()), (0, Vec::new()));
        let found = numbers(&reader);
        assert!(!found.is_empty() && found.len() < MANY);
        assert_eq!(found, ((life + 1) * MANY - found.len()..(life + 1) * MANY).collect::<Vec<_>>());
        assert_eq!(queue.min_offset_in_queue(), (60 + found[0] - MANY) as u64);
    }
}

#[test]
fn what_is_removed_before_it_is_first_read_is_gone() {
    let middle = UNITS_IN_FILE * 3;
    for (file, first, status) in [
        (format!("commitlog/{:020}", 0), 0, GetMessageStatus::MessageWasRemoving),
        (format!("consumequeue/t/0/{:020}", middle * 20), middle, GetMessageStatus::OffsetFoundNull),
    ] {
        for pread in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let writer = open(root.path());
            fill(&writer, 0..200);
            writer.close().unwrap();
            let mut config = config(root.path());
            config.pread = pread;
            let reader = try_open(config, Mode::Read).unwrap();
            std::fs::remove_file(root.path().join(&file)).unwrap();
            let got = reader.get_message("t", 0, first.cast_signed(), 1, None).unwrap();
            assert_eq!((got.status, got.messages.len()), (status, 0), "{file} {pread}");
            let found = numbers(&reader);
            let missing = usize::try_from(first).unwrap();
            assert!(!found.contains(&missing) && found.ends_with(&[198, 199]), "{found:?}");
            assert_eq!(reader.rejected_count(), 0);
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_is_no_file() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..200);
    writer.close().unwrap();
    let files = writer.log().files().files();
    for file in [&files[0], &files[files.len() / 2]] {
        let content = std::fs::read(file.path()).unwrap();
        std::fs::remove_file(file.path()).unwrap();
        std::os::unix::fs::symlink(root.path().join("nowhere"), file.path()).unwrap();
        let found = numbers(&read(root.path()));
        assert!(!found.is_empty() && found.len() < 200, "{found:?}");
        std::fs::remove_file(file.path()).unwrap();
        std::fs::write(file.path(), content).unwrap();
    }
    assert_eq!(numbers(&read(root.path())).len(), 200);
}

/// Such a folder is no store's, and by the name that it is told by it is not there.
#[test]
fn folders_whose_names_are_no_text_are_left_alone() {
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    fill(&store, 0..3);
    store.close().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff\x9btopic");
    let folders =
        ["commitlog", "consumequeue", "consumequeue/t", "index"].map(|of| root.path().join(of).join(name));
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder.join("0")).unwrap());
    std::fs::write(folders[1].join("0/00000000000000000000"), [0; 200]).unwrap();
    assert_eq!(numbers(&read(root.path())), [0, 1, 2]);
    std::fs::remove_dir_all(&folders[0]).unwrap();
    let store = open(root.path());
    fill(&store, 3..4);
    assert_eq!(numbers(&store), [0, 1, 2, 3]);
    assert!(folders[1].join("0").is_dir());
}

#[test]
fn a_reader_follows_a_queue_that_is_removed_and_used_again() {
    let root = tempfile::tempdir().unwrap();
    let writer = open(root.path());
    fill(&writer, 0..5);
    let reader = read(root.path());
    for life in 1..4 {
        writer.reput().unwrap();
        writer.destroy_queue(&writer.find_consume_queue("t", 0).unwrap()).unwrap();
        if life == 2 {
            reader.refresh().unwrap();
            assert_eq!(numbers(&reader), [0_usize; 0]);
        }
        let expected: Vec<_> = (life * 10..life * 10 + 15).collect();
        fill(&writer, life * 10..life * 10 + 15);
        reader.refresh().unwrap();
        assert_eq!(numbers(&reader), expected);
        fill(&writer, 99..100);
        reader.refresh().unwrap();
        assert_eq!(numbers(&reader), [&expected[..], &[99]].concat());
        assert_eq!(reader.rejected_count(), 0);
    }
}
