//! Index files of any bytes: their shape, their chains, look-ups in them.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mqstore_core::clock::ManualClock;
use mqstore_core::format::index::{IndexHeader, IndexShape};
use mqstore_core::fs::OsFileSystem;
use mqstore_core::index::infer::infer_shape;
use mqstore_core::index::{IndexService, KeyQuery};
use mqstore_core::mmap::mapped_file::Access;

const SHAPE: IndexShape = IndexShape { hash_slot_num: 5, index_num: 12 };

fuzz_target!(|bytes: &[u8]| {
    let _any = IndexHeader::read(bytes);
    if let Some(shape) = infer_shape(bytes) {
        assert_eq!(shape.file_size(), bytes.len());
    }
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("index");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("20260101000000000"), bytes).expect("a file");
    for access in [Access::Read, Access::MapRead, Access::MapWrite] {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let index = IndexService::new(Arc::new(OsFileSystem), clock, folder.clone(), SHAPE, access);
        if index.load(false).is_err() {
            return;
        }
        let query = KeyQuery { topic: b"t", key: b"k", max_num: 100, begin: 0, end: i64::MAX };
        let found = index.query(&query, |_| Ok(Some(()))).expect("hints of any kind");
        assert!(found.len() <= 12.max(bytes.len() / 20));
        let _answers = index.query_offset_compat(&query, 64);
        let offset = index.end_phy_offset().unwrap_or(0).saturating_add(100) >> 1;
        index.build_index([1, 2, 3].into_iter(), offset, 1000).expect("room for keys");
        index.flush().expect("a disk");
    }
});
