//! Small files replaced as a whole.

use mqstore_core::config_file::{read, replace};

use crate::stores::fs;

#[test]
fn the_content_before_is_kept_beside() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("config/topics.json");
    assert_eq!(read(&*fs(), &path).unwrap(), None);
    replace(&*fs(), &path, b"first").unwrap();
    assert_eq!(read(&*fs(), &path).unwrap().as_deref(), Some(&b"first"[..]));
    assert!(!root.path().join("config/topics.json.bak").exists());
    replace(&*fs(), &path, b"second, longer").unwrap();
    replace(&*fs(), &path, b"3").unwrap();
    assert_eq!(read(&*fs(), &path).unwrap().as_deref(), Some(&b"3"[..]));
    let bak = root.path().join("config/topics.json.bak");
    assert_eq!(std::fs::read(bak).unwrap(), b"second, longer");
    assert_eq!(std::fs::read_dir(root.path().join("config")).unwrap().count(), 2, "nothing else is left");
}

#[test]
fn an_empty_file_is_not_worth_keeping() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    std::fs::write(&path, "").unwrap();
    replace(&*fs(), &path, b"x").unwrap();
    assert!(!root.path().join("f.bak").exists());
    assert!(read(&*fs(), root.path()).is_err(), "a folder is no file");
}
