//! Puts that wait for a slave: whoever is confirmed is told, and everybody when replication ends.

use std::sync::Arc;
use std::time::Instant;

use mqstore_core::ha::{Awaited, Confirmed, GroupTransfer, Transferred};

use crate::{FOREVER, run, thread};

/// What a slave confirms over the connection of this number.
const fn up_to(connection: u64, to: u64) -> Confirmed {
    Confirmed { connection, claimed_from: 0, sent_from: 0, to }
}

#[test]
fn a_put_is_told_of_its_confirmation() {
    run(|| {
        let transfer = Arc::new(GroupTransfer::default());
        thread::scope(|scope| {
            let putters = [10, 20].map(|offset| {
                let transfer = &transfer;
                scope.spawn(move || transfer.wait(&Awaited::Records(5..offset), Instant::now() + FOREVER))
            });
            // Two slaves, of which one is behind.
            let behind = Arc::clone(&transfer);
            scope.spawn(move || [5, 10, 15].map(|offset| behind.notify_transfer_some(up_to(1, offset))));
            for offset in [5, 20] {
                transfer.notify_transfer_some(up_to(2, offset));
            }
            for putter in putters {
                assert_eq!(putter.join().unwrap(), Transferred::Yes);
            }
        });
        assert_eq!(transfer.push2_slave_max_offset(), 20);
    });
}

#[test]
fn nobody_waits_for_a_replication_that_ended() {
    run(|| {
        let transfer = Arc::new(GroupTransfer::default());
        thread::scope(|scope| {
            let putters = [10, 20].map(|offset| {
                let transfer = &transfer;
                scope.spawn(move || transfer.wait(&Awaited::LogUpTo(offset), Instant::now() + FOREVER))
            });
            transfer.notify_transfer_some(up_to(1, 10));
            transfer.end();
            let [first, second] = putters.map(|putter| putter.join().unwrap());
            assert_eq!((first, second), (Transferred::Yes, Transferred::Never));
        });
    });
}
