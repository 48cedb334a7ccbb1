//! Blocks of files that were read, the ones used last, up to a number of bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Bytes of a block: what is read where nothing says that more of it is wanted.
pub(super) const BLOCK_SIZE: usize = 16 << 10;

/// A file's number and a block's.
type Place = (u64, u64);

/// Blocks of any number of files.
#[derive(Debug)]
pub struct BlockCache {
    max_bytes: usize,
    next_file: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    blocks: HashMap<Place, (Arc<[u8]>, u64)>,
    /// By when they were used last.
    by_use: BTreeMap<u64, Place>,
    uses: u64,
    bytes: usize,
}

impl BlockCache {
    /// A cache of at most so many bytes.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, next_file: AtomicU64::new(0), held: Mutex::default() }
    }

    /// A number that no other file has.
    pub(super) fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, file: u64, block: u64) -> Option<Arc<[u8]>> {
        let held = &mut *self.held.lock();
        let (bytes, used) = held.blocks.get_mut(&(file, block))?;
        let place = held.by_use.remove(used)?;
        held.uses += 1;
        *used = held.uses;
        held.by_use.insert(held.uses, place);
        Some(Arc::clone(bytes))
    }

    pub(super) fn put(&self, file: u64, block: u64, bytes: Arc<[u8]>) {
        let held = &mut *self.held.lock();
        held.uses += 1;
        held.bytes += bytes.len();
        held.by_use.insert(held.uses, (file, block));
        if let Some((before, used)) = held.blocks.insert((file, block), (bytes, held.uses)) {
            held.bytes -= before.len();
            held.by_use.remove(&used);
        }
        while held.bytes > self.max_bytes {
            let Some((_, oldest)) = held.by_use.pop_first() else { break };
            if let Some((gone, _)) = held.blocks.remove(&oldest) {
                held.bytes -= gone.len();
            }
        }
    }
}
