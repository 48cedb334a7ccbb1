//! A store of which units are not known to be on the disk, and a writer that makes them anew.

use std::path::Path;

use mqstore_core::lock::StoreLock;
use mqstore_core::published::Withheld;

use super::{Opened, fill, fs, open, patch};

/// Fifty messages, the nth stored at the time n, of whose units the first thirteen are known to be on the disk.
pub fn write_fifty(root: &Path) -> Opened {
    let writer = open(root);
    for number in 0..50 {
        if number == 13 {
            writer.reput().unwrap();
            writer.flush_everything().unwrap();
        }
        writer.clock.set(number);
        let number = usize::try_from(number).unwrap();
        fill(&writer, number..number + 1);
    }
    writer.reput().unwrap();
    writer.flush_consume_queues(0).unwrap();
    writer
}

/// What a writer is about to do with [`write_fifty`]'s store: it has zeroed the units that were not known to be on the
/// disk, and makes them anew next.
pub fn begin_recovery(root: &Path) -> (StoreLock, Withheld) {
    let own_dir = root.join("mqstore");
    let lock = StoreLock::take(&*fs(), &root.join("lock"), &own_dir).unwrap();
    let withheld = Withheld::begin(&*fs(), &own_dir).unwrap();
    let queue = root.join("consumequeue/t/0");
    patch(&queue.join("00000000000000000200"), 60, |bytes| bytes.fill(0));
    for later in [400, 600, 800] {
        std::fs::remove_file(queue.join(format!("{later:020}"))).unwrap();
    }
    (lock, withheld)
}
