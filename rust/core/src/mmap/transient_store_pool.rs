//! Locked memory that messages are written to first, before they are committed to their file.
//!
//! With `transientStorePoolEnable` a put touches no page of the file system's cache; a commit pass
//! writes the memory to the file, and readers see what is committed. Source: `TransientStorePool`.

use std::sync::Arc;

use super::region::Region;
use crate::error::{Error, Result};
use crate::num;
use crate::sync::Mutex;

/// Buffers of a log file's size.
#[derive(Debug)]
pub struct TransientStorePool {
    available: Mutex<Vec<Arc<Region>>>,
}

impl TransientStorePool {
    /// Takes the memory and locks it. Memory that the process may not lock is used all the same, as
    /// in 4.9.3.
    ///
    /// # Errors
    /// Where the memory can't be had.
    pub fn new(pool_size: usize, file_size: u64) -> Result<Arc<Self>> {
        let buffers = (0..pool_size)
            .map(|_| {
                let region =
                    Region::anonymous(num::index(file_size)).map_err(Error::io("allocate", "memory"))?;
                let _best_effort = region.lock();
                Ok(Arc::new(region))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(Self { available: Mutex::new(buffers) }))
    }

    /// Buffers that nobody uses.
    #[must_use]
    pub fn available_buffer_count(&self) -> usize {
        self.available.lock().len()
    }

    /// A buffer for a file, or `None` when all are in use.
    #[must_use]
    pub fn borrow_buffer(&self) -> Option<Arc<Region>> {
        self.available.lock().pop()
    }

    /// Lets go of the buffers that nobody uses: there are none from then on.
    pub(crate) fn let_go(&self) {
        *self.available.lock() = Vec::new();
    }

    /// Gives back a buffer whose content is committed.
    pub fn return_buffer(&self, buffer: Arc<Region>) {
        self.available.lock().push(buffer);
    }
}
