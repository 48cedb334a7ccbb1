//! Recovery of a whole directory: the input says how the files of a small store are damaged.
//!
//! Whatever is done to them: opening to read changes nothing and serves only bodies that were put;
//! opening to write either changes nothing but what it says, or gives a store that takes a message,
//! closes, and has all its messages when it is opened again.
#![no_main]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use mqstore_core::clock::ManualClock;
use mqstore_core::commit_log::Wait;
use mqstore_core::config::{OnDamage, StoreConfig, WalkedParts};
use mqstore_core::format::host::Host;
use mqstore_core::format::index::IndexShape;
use mqstore_core::fs::OsFileSystem;
use mqstore_core::format::message::decode_record;
use mqstore_core::store::{Mode, NewMessage, Properties, PutStep, Store};

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        mapped_file_size_commit_log: 1024,
        mapped_file_size_consume_queue: 100,
        index_shape: IndexShape { hash_slot_num: 3, index_num: 8 },
        walked_parts: WalkedParts { size: 256, thread_count: 2, derived_size: 1 << 12, keys_aside_size: 0 },
        ..StoreConfig::new(root)
    }
}

fn open(config: StoreConfig, mode: Mode) -> Option<Arc<Store>> {
    Store::open(config, Arc::new(OsFileSystem), Arc::new(ManualClock::at(1_000_000)), mode).ok()
}

fn put(store: &Store, body: &str) {
    let host = Host { ip: [127, 0, 0, 1].into(), port: 1 };
    let properties = format!("KEYS\x01{body}");
    let message = NewMessage {
        topic: b"t",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: body.as_bytes(),
        properties: Properties::Raw(properties.as_bytes()),
    };
    assert!(matches!(store.put_message(&message, Wait::Block), PutStep::Done(_)), "{body}");
}

fn bodies(store: &Store) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), 0);
    while let Ok(got) = store.get_message("t", 0, next, 32, None) {
        if got.next_begin_offset <= next {
            break;
        }
        next = got.next_begin_offset;
        let body =
            |record: &[u8]| decode_record(record).map(|found| String::from_utf8_lossy(found.body).into());
        found.extend(got.messages.iter().filter_map(|message| body(message.bytes())));
    }
    found
}

fn read_files(root: &Path) -> Files {
    let (mut found, mut folders) = (Files::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let (Ok(name), Ok(content)) = (path.strip_prefix(root), std::fs::read(&path)) {
                found.insert(name.into(), content);
            }
        }
    }
    found
}

fn write_files(root: &Path, files: &Files) {
    for (name, content) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }
}

/// A store of twenty messages in three log files.
fn sound() -> &'static Files {
    static SOUND: OnceLock<Files> = OnceLock::new();
    SOUND.get_or_init(|| {
        let root = tempfile::tempdir().expect("a folder");
        let store = open(config(root.path()), Mode::ReadWrite).expect("a new store");
        (0..20).for_each(|number| put(&store, &format!("body {number}")));
        store.close().expect("a disk");
        read_files(root.path())
    })
}

/// Six bytes say what is done: to which file, what, where (two bytes), with which value, how long.
fn damage(files: &mut Files, bytes: &[u8]) {
    for step in bytes.chunks_exact(6) {
        let [file, what, high, low, value, len] = step else { return };
        let Some(name) = files.keys().nth(usize::from(*file) % files.len().max(1)).cloned() else { return };
        let Some(content) = files.get_mut(&name) else { return };
        let at = usize::from(u16::from_be_bytes([*high, *low])) % content.len().max(1);
        let end = (at + usize::from(*len) * 8).min(content.len());
        match what % 7 {
            0 => content.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value),
            1 => content[at..end].fill(*value),
            2 => content.truncate(at),
            3 => _ = files.remove(&name),
            4 => content.copy_within(..end - at, at),
            5 => content.resize(content.len() + usize::from(*len), *value),
            _ => _ = files.insert("abort".into(), Vec::new()),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut files = sound().clone();
    damage(&mut files, bytes);
    let root = tempfile::tempdir().expect("a folder");
    write_files(root.path(), &files);
    let is_known =
        |body: &String| body.strip_prefix("body ").is_some_and(|number| number.parse::<u8>().is_ok());
    if let Some(reader) = open(config(root.path()), Mode::Read) {
        assert!(bodies(&reader).iter().all(is_known), "{:?}", bodies(&reader));
    }
    assert_eq!(read_files(root.path()), files, "reading changes nothing");
    let mut config_of_writer = config(root.path());
    config_of_writer.on_damage = if how % 2 == 0 { OnDamage::Raise } else { OnDamage::Truncate };
    let Some(writer) = open(config_of_writer, Mode::ReadWrite) else {
        assert_eq!(read_files(root.path()), files, "a refusal changes nothing");
        return;
    };
    put(&writer, "body 99");
    let before = bodies(&writer);
    assert!(before.iter().all(is_known) && before.last().is_some_and(|last| last == "body 99"), "{before:?}");
    writer.close().expect("a disk");
    let again = open(config(root.path()), Mode::ReadWrite).expect("what was closed opens");
    let after = bodies(&again);
    // Units that were garbage in the middle of a queue may have been made anew meanwhile.
    assert!(before.iter().all(|body| after.contains(body)), "{before:?} {after:?}");
});
