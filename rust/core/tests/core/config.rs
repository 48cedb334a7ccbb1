//! The engine's options.

use mqstore_core::config::StoreConfig;
use mqstore_core::error::Error;
use mqstore_core::format::index::IndexShape;
use mqstore_core::store::Mode;

use crate::stores::try_open;

#[test]
fn the_defaults_are_4_9_3s() {
    let config = StoreConfig::new("/store");
    assert_eq!(config.mapped_file_size_commit_log, 1 << 30);
    assert_eq!(config.mapped_file_size_consume_queue, 6_000_000);
    assert_eq!(config.max_message_size, 4 << 20);
    assert_eq!(config.index_shape.file_size(), 420_000_040);
    assert_eq!((config.max_transfer_in_memory.bytes, config.max_transfer_in_memory.count), (262_144, 32));
    assert_eq!((config.max_transfer_on_disk.bytes, config.max_transfer_on_disk.count), (65_536, 8));
    config.validate().unwrap();
    assert_eq!(config.store_path_consume_queue().to_str(), Some("/store/consumequeue"));
    assert!(
        config.is_commit_log_path("/store/commitlog".as_ref()) && !config.is_commit_log_path("/x".as_ref())
    );
}

#[test]
fn values_that_would_break_the_files_are_refused_before_anything_is_made() {
    type Change = fn(&mut StoreConfig);
    let bad: [(&str, Change); 9] = [
        ("mappedFileSizeCommitLog=98", |config| config.mapped_file_size_commit_log = 98),
        ("mappedFileSizeCommitLog=2147483648", |config| config.mapped_file_size_commit_log = 1 << 31),
        ("mappedFileSizeConsumeQueue=0", |config| config.mapped_file_size_consume_queue = 0),
        ("mappedFileSizeConsumeQueue=30", |config| config.mapped_file_size_consume_queue = 30),
        ("mappedFileSizeConsumeQueue=2147483660", |config| {
            config.mapped_file_size_consume_queue = 2_147_483_660;
        }),
        ("mappedFileSizeConsumeQueueExt=63", |config| {
            config.enable_consume_queue_ext = true;
            config.mapped_file_size_consume_queue_ext = 63;
        }),
        ("maxHashSlotNum=0", |config| config.index_shape.hash_slot_num = 0),
        ("maxIndexNum=1", |config| config.index_shape.index_num = 1),
        ("maxIndexNum=107374182", |config| {
            config.index_shape = IndexShape { hash_slot_num: 5_000_000, index_num: 107_374_182 };
        }),
    ];
    for (option, change) in bad {
        let root = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(root.path().join("store"));
        change(&mut config);
        let error = try_open(config, Mode::ReadWrite).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Option { .. }));
        assert!(error.to_string().starts_with(&format!("option {option}: ")), "{error}");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_least_values_work() {
    let mut config = StoreConfig::new("/store");
    config.mapped_file_size_commit_log = 99;
    config.mapped_file_size_consume_queue = 20;
    config.index_shape = IndexShape { hash_slot_num: 1, index_num: 2 };
    config.validate().unwrap();
}

#[test]
fn delayed_messages_are_due_by_their_level() {
    let mut config = StoreConfig::new("/store");
    config.delay_levels_ms = vec![1000, 5000];
    assert_eq!(config.max_delay_level(), 2);
    let due = [1, 2, 3, 0, i32::MIN + 1].map(|level| config.deliver_timestamp(level, 100));
    assert_eq!(due, [1100, 5100, 1100, 1100, 1100], "an unknown level is one second, as in 4.9.3");
    assert_eq!(config.deliver_timestamp(1, i64::MAX), i64::MAX);
}
