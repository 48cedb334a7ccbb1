//! One file.

use std::sync::Arc;

use mqstore_core::error::Error;
use mqstore_core::mmap::mapped_file::{Access, FileSizes, MappedFile};

use crate::{fs, queue, write_files};

fn file_with(content: &[u8], present: u64, access: Access) -> (tempfile::TempDir, Arc<MappedFile>) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    std::fs::write(&path, content).unwrap();
    let sizes = FileSizes { file: 100, present };
    (root, MappedFile::new(fs(), path, 500, sizes, access, None))
}

#[test]
fn slices_are_the_same_mapped_and_read() {
    let content: Vec<u8> = (0..100).collect();
    for access in [Access::MapRead, Access::MapWrite, Access::Read] {
        let (_root, file) = file_with(&content, 100, access);
        assert_eq!(&file.slice(10, 5).unwrap()[..], [10, 11, 12, 13, 14]);
        assert_eq!(file.slice(95, 50).unwrap().len(), 5, "to the end at the most");
        assert!(file.slice(100, 1).unwrap().is_empty() && file.slice(u64::MAX, u64::MAX).unwrap().is_empty());
        assert_eq!(file.slice(10, 5).unwrap().region().is_some(), access != Access::Read);
        assert!(file.contains(500) && file.contains(599) && !file.contains(499) && !file.contains(600));
    }
}

#[test]
fn a_short_file_gives_what_is_there() {
    for access in [Access::MapRead, Access::Read] {
        let (_root, file) = file_with(&[7; 40], 40, access);
        assert_eq!((file.file_size(), file.present_size(), file.end_offset()), (100, 40, 600));
        assert_eq!(file.slice(30, 50).unwrap().len(), 10);
        assert!(file.slice(40, 1).unwrap().is_empty());
    }
}

#[test]
fn a_file_that_was_cut_off_since_is_an_error_and_no_crash() {
    for access in [Access::MapRead, Access::MapWrite] {
        let (_root, file) = file_with(&[7; 40], 100, access);
        assert!(matches!(file.slice(0, 1), Err(Error::Io { operation: "map", .. })));
    }
    let (_root, file) = file_with(&[7; 40], 100, Access::Read);
    assert_eq!(file.slice(30, 10).unwrap().len(), 10);
    let error = file.slice(30, 50).unwrap_err().to_string();
    assert!(error.contains("100 bytes") && error.contains("40 bytes"), "{error}");
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let (root, file) = file_with(b"", 100, Access::MapRead);
    std::fs::remove_file(file.path()).unwrap();
    let error = file.slice(0, 1).unwrap_err().to_string();
    assert!(error.starts_with(&format!("open {}", root.path().join("file").display())), "{error}");
}

#[test]
fn what_follows_a_place_is_zeroed_on_the_disk() {
    let root = tempfile::tempdir().unwrap();
    write_files(&root.path().join("files"), [100]);
    let file = queue(root.path(), Access::MapWrite).first().unwrap();
    assert_eq!(file.zero_from(60).unwrap(), Some(100));
    assert_eq!(file.zero_from(60).unwrap(), None, "there is nothing any more");
    assert_eq!(file.zero_from(100).unwrap(), None);
    let expected = [[1; 60].as_slice(), &[0; 40]].concat();
    assert_eq!(std::fs::read(file.path()).unwrap(), expected);
    assert_eq!(&file.slice(0, 100).unwrap()[..], expected);
}

#[test]
fn zeroing_finds_data_behind_holes() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    let size = 8 << 20;
    let handle = std::fs::File::create(&path).unwrap();
    handle.set_len(size).unwrap();
    for at in [1, 4090, 9000, 70_000, 5 << 20] {
        std::os::unix::fs::FileExt::write_all_at(&handle, b"far behind", at).unwrap();
    }
    let sizes = FileSizes { file: size, present: size };
    let file = MappedFile::new(fs(), path.clone(), 0, sizes, Access::MapWrite, None);
    assert_eq!(file.zero_from(1).unwrap(), Some((5 << 20) + 10));
    assert!(std::fs::read(path).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn a_closed_file_is_opened_again_by_use_and_a_deleted_one_is_not() {
    let (_root, file) = file_with(&[7; 100], 100, Access::MapRead);
    let slice = file.slice(0, 1).unwrap();
    file.close();
    assert_eq!((file.held_count(), slice[0]), (0, 7));
    assert_eq!(file.slice(1, 1).unwrap()[0], 7);
    file.delete().unwrap();
    assert!(file.slice(1, 1).is_err());
    file.delete().unwrap();
    assert_eq!(file.last_modified_timestamp().unwrap(), 0);
}
