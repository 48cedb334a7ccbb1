//! A bell that ends a wait for sockets: a pass's own, or an event loop's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes whoever waits for sockets, and for it.
#[derive(Debug)]
pub struct Bell(EventFd);

impl Bell {
    /// A silent one.
    ///
    /// # Errors
    /// Where the process has too many files open.
    pub fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    /// Rings until it is silenced.
    pub fn ring(&self) {
        // It fails only where it has rung more often than it can count, and then it rings.
        let _rings_already = self.0.write(1);
    }

    /// It rings no more.
    ///
    /// # Errors
    /// Where the system does not let it be read.
    pub fn silence(&self) -> io::Result<()> {
        match self.0.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until one of the sockets is ready, the bell rings or the time is up; the bell is silent then.
    pub(crate) fn wait<'fd>(
        &'fd self,
        sockets: impl IntoIterator<Item = (&'fd (dyn AsFd + 'fd), PollFlags)>,
        timeout: Duration,
    ) -> io::Result<()> {
        let mut fds = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        fds.extend(sockets.into_iter().map(|(socket, events)| PollFd::new(socket.as_fd(), events)));
        // A wait that is cut to whole milliseconds would become a spin at its end.
        let timeout = timeout + Duration::from_micros(999);
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.silence()
    }
}

impl AsRawFd for Bell {
    /// Can be read while it rings.
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
