//! Sockets that a forked process lets go of.
//!
//! A connection ends, and a port is free, once all who have the socket let go. A process that is killed shuts nothing down: who is
//! at the other end would wait for as long as a child of it lives. While a process is forked nobody is between opening a
//! socket and noting it here, or between forgetting and closing it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::socket::{Shutdown, shutdown};

/// The standard library's lock itself, as that of `lock_files`, and for the same reasons.
static SOCKETS: Mutex<Sockets> = Mutex::new(Sockets { fork_count: 0, open: BTreeSet::new() });

thread_local! {
    /// What the thread that forks the process holds meanwhile.
    static FORKING: RefCell<Option<MutexGuard<'static, Sockets>>> = const { RefCell::new(None) };
}

struct Sockets {
    fork_count: u64,
    open: BTreeSet<RawFd>,
}

fn sockets() -> MutexGuard<'static, Sockets> {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket of this process alone.
#[derive(Debug)]
pub struct OwnSocket<S: AsRawFd> {
    socket: S,
    opened_by: u32,
}

impl<S: AsRawFd> OwnSocket<S> {
    /// Opens a socket; `open` is called once more where the process was forked meanwhile.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open(mut open: impl FnMut() -> io::Result<S>) -> io::Result<Self> {
        Self::open_with(|| Ok((open()?, ()))).map(|(socket, ())| socket)
    }

    /// As [`OwnSocket::open`], with what there is to say of it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open_with<T>(mut open: impl FnMut() -> io::Result<(S, T)>) -> io::Result<(Self, T)> {
        loop {
            // It may take long, which no fork is to wait for.
            let fork_count = sockets().fork_count;
            let (socket, known) = open()?;
            let mut sockets = sockets();
            // The process that was forked in between has it for as long as it lives: nobody is to wait for that one.
            if sockets.fork_count == fork_count {
                sockets.open.insert(socket.as_raw_fd());
                return Ok((Self { socket, opened_by: std::process::id() }, known));
            }
            drop(sockets);
            let _it_has_ended = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

impl<S: AsRawFd> Deref for OwnSocket<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S: AsRawFd + AsFd> AsFd for OwnSocket<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S: AsRawFd> Drop for OwnSocket<S> {
    fn drop(&mut self) {
        let mut sockets = sockets();
        // Not just closed: a process that is being started has it for a moment. One that was forked by who told nobody has it
        // too, and must not end what is the other's.
        if sockets.open.remove(&self.socket.as_raw_fd()) && self.opened_by == std::process::id() {
            let _it_has_ended = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

/// Comes right before this thread forks the process.
pub fn before_fork() {
    FORKING.set(Some(sockets()));
}

/// Comes right behind it, in both processes. `let_go` has a descriptor stand for something else in the child, where whoever
/// has the socket closes it in the end.
pub fn after_fork(let_go: Option<impl Fn(RawFd)>) {
    let Some(mut sockets) = FORKING.take() else { return };
    sockets.fork_count += 1;
    if let Some(let_go) = let_go {
        std::mem::take(&mut sockets.open).into_iter().for_each(let_go);
    }
}
