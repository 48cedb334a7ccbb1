//! A process that is forked: the system tells the engine before and behind it, whoever does it and without the GIL.

#![allow(unsafe_code)] // no crate wraps what the system offers

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

use mqstore_core::{lock_files, own_sockets};
use pyo3::PyResult;

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
}

static REGISTERED: OnceLock<c_int> = OnceLock::new();

extern "C" fn before() {
    lock_files::before_fork();
    own_sockets::before_fork();
}

extern "C" fn in_parent() {
    own_sockets::after_fork(None::<fn(RawFd)>);
    lock_files::after_fork(false);
}

extern "C" fn in_child() {
    own_sockets::after_fork(File::open("/dev/null").ok().map(|nothing| {
        move |socket| {
            // SAFETY: both are open. Who has the socket's number goes on to have it, for what is nothing now.
            unsafe { dup2(nothing.as_raw_fd(), socket) };
        }
    }));
    lock_files::after_fork(true);
}

/// Has the engine told of forks.
pub fn prepare() -> PyResult<()> {
    // SAFETY: the functions live as long as the process, of which Python unloads no module. They wait for no lock that is
    // held for long, or by who waits for the GIL.
    let register = || unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    match *REGISTERED.get_or_init(register) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error).into()),
    }
}
