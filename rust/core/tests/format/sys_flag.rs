//! The bits of a flag.

use mqstore_core::format::sys_flag::{
    COMPRESSED, TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE, TRANSACTION_PREPARED_TYPE,
    TRANSACTION_ROLLBACK_TYPE, enters_consume_queue, enters_index, transaction_value,
};

#[test]
fn what_a_transactions_parts_enter() {
    let rules = [
        (TRANSACTION_NOT_TYPE, true, true),
        (TRANSACTION_PREPARED_TYPE, false, true),
        (TRANSACTION_COMMIT_TYPE, true, true),
        (TRANSACTION_ROLLBACK_TYPE, false, false),
    ];
    for (kind, queue, index) in rules {
        for others in [0, COMPRESSED, !TRANSACTION_ROLLBACK_TYPE] {
            let flag = kind | others;
            assert_eq!((enters_consume_queue(flag), enters_index(flag)), (queue, index), "{flag:#x}");
            assert_eq!(transaction_value(flag), kind);
        }
    }
}

#[test]
fn the_types_are_the_two_bits_of_java() {
    let types =
        [TRANSACTION_NOT_TYPE, TRANSACTION_PREPARED_TYPE, TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE];
    assert_eq!(types, [0, 4, 8, 12]);
}
