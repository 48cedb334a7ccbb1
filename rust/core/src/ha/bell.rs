//! Waiting for sockets, with a bell that ends the wait.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Wakes a pass that waits for sockets.
#[derive(Debug)]
pub(super) struct Bell(EventFd);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    pub(super) fn ring(&self) {
        // It fails only where it has rung more often than it can count, and then it rings.
        let _rings_already = self.0.write(1);
    }

    /// Waits until one of the sockets is ready, the bell rings or the time is up; the bell is silent
    /// then.
    pub(super) fn wait<'fd>(
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
        match self.0.read() {
            Ok(_) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
