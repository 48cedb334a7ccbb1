//! Memory for the largest column of a batch, used again.
//!
//! What is given back to the allocator goes back to the kernel where it is large, and the zeros that the
//! kernel fills it with before the next batch cost three times what copying the bodies costs.

use std::sync::{Arc, Weak};

use arrow_buffer::Buffer;
use bytes::Bytes;

use crate::sync::Mutex;

/// Most pieces that wait to be used again: more batches are hardly under way at once.
const MOST_KEPT: usize = 8;

/// Memory that batches of one reader had, and that is free again.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Free>);

type Free = Mutex<Vec<Vec<u8>>>;

impl Memory {
    /// Some that is empty, with room for so many bytes if that can be had.
    pub(super) fn take(&self, len: usize) -> Vec<u8> {
        let mut bytes = self.0.lock().pop().unwrap_or_default();
        // What a damaged unit says can be more than there is: it grows otherwise.
        let _best_effort = bytes.try_reserve_exact(len);
        bytes
    }

    /// What a batch holds for as long as it is there.
    pub(super) fn lend(&self, bytes: Vec<u8>) -> Buffer {
        Bytes::from_owner(Lent { bytes, free: Arc::downgrade(&self.0) }).into()
    }
}

struct Lent {
    bytes: Vec<u8>,
    /// Of a reader that may be gone before its batches are.
    free: Weak<Free>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(free) = self.free.upgrade() else { return };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut free = free.lock();
        if free.len() < MOST_KEPT {
            free.push(bytes);
        }
    }
}
