//! What a store can do now.

use mqstore_core::running_flags::RunningFlags;

#[test]
fn bits_are_4_9_3s() {
    let flags = RunningFlags::default();
    assert!(flags.is_readable() && flags.is_writeable() && flags.is_cq_writeable());
    assert!(!flags.set_disk_full(true) && flags.set_disk_full(true));
    assert_eq!((flags.bits(), flags.is_writeable(), flags.is_cq_writeable()), (16, false, true));
    assert!(flags.set_disk_full(false) && flags.is_writeable());
    flags.set_readable(false);
    flags.set_writeable(false);
    assert_eq!((flags.bits(), flags.is_readable(), flags.is_cq_writeable()), (3, false, false));
    flags.set_readable(true);
    flags.set_writeable(true);
    flags.make_logics_queue_error();
    assert_eq!((flags.bits(), flags.is_writeable(), flags.is_cq_writeable()), (4, false, false));
    flags.make_index_file_error();
    assert_eq!(flags.bits(), 12);
}
