//! Breaking off what takes long.
//!
//! Who calls the engine can say how a thread finds out that it is to stop, and what goes through a whole
//! log or all queues asks now and then. What is broken off ends as it does where a file cannot be read.

use std::cell::RefCell;

use crate::error::{Error, Result};

type IsAsked = Box<dyn FnMut() -> bool>;

thread_local! {
    static IS_ASKED: RefCell<Option<IsAsked>> = const { RefCell::new(None) };
}

/// Puts back what was there before, also where what runs panics.
struct Before(Option<IsAsked>);

impl Drop for Before {
    fn drop(&mut self) {
        IS_ASKED.replace(self.0.take());
    }
}

/// Runs something that ends with [`Error::Interrupted`] soon after `is_asked` gives `true`.
pub fn until<T>(is_asked: impl FnMut() -> bool + 'static, run: impl FnOnce() -> T) -> T {
    let _before = Before(IS_ASKED.replace(Some(Box::new(is_asked))));
    run()
}

/// # Errors
/// [`Error::Interrupted`] where this thread is to break off what it does.
pub(crate) fn check() -> Result<()> {
    // It is taken out while it is called: it may call the engine.
    let Some(mut is_asked) = IS_ASKED.take() else { return Ok(()) };
    let interrupted = is_asked();
    IS_ASKED.replace(Some(is_asked));
    if interrupted { Err(Error::Interrupted) } else { Ok(()) }
}
