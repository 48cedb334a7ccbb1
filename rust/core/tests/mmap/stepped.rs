//! What of some bytes is in a mapping at each instruction of the process that writes them there.
#![allow(unsafe_code)] // a process is forked

use mqstore_core::mmap::region::Region;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::region::region;

/// A record has more bytes.
const STEP: usize = 64;
/// Bytes that are like none of the mapping's.
const BYTES: [u8; 5000] = [7; 5000];

/// Begins a process that writes between two stops, and waits for the first.
fn begin(write: impl FnOnce() -> bool) -> Pid {
    // SAFETY: the child allocates nothing and takes no lock of a thread that it does not have: it stops, writes, stops and ends.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Stopped(child, Signal::SIGSTOP));
            // A test that fails leaves no process.
            ptrace::setoptions(child, ptrace::Options::PTRACE_O_EXITKILL).unwrap();
            child
        }
        ForkResult::Child => {
            let is_written = ptrace::traceme().is_ok()
                && raise(Signal::SIGSTOP).is_ok()
                && write()
                && raise(Signal::SIGSTOP).is_ok();
            // SAFETY: it ends at once, and nothing of the parent's that it has a copy of is given back.
            unsafe { nix::libc::_exit(i32::from(!is_written)) }
        }
    }
}

/// Lets it go on for one instruction; `false` where it has come to its second stop.
fn step(child: Pid) -> bool {
    ptrace::step(child, None).unwrap();
    match waitpid(child, None).unwrap() {
        WaitStatus::Stopped(_, Signal::SIGTRAP) => true,
        WaitStatus::Stopped(_, Signal::SIGSTOP) => false,
        status => panic!("{status:?}"),
    }
}

/// How many bytes are written, in their order but for those of one step.
fn written_count(region: &Region, at: usize, len: usize) -> usize {
    let bytes = region.bytes(at, len).unwrap();
    let end = bytes.iter().rposition(|byte| *byte == BYTES[0]).map_or(0, |last| last + 1);
    let whole_steps = end.saturating_sub(1) / STEP * STEP;
    assert!(!bytes[..whole_steps].contains(&1), "of {len} bytes {end} are written, with a hole before them");
    end
}

/// Small records of one call that were copied all at once stood whole behind a hole where the process was killed.
#[test]
fn what_is_written_in_order_has_no_hole_at_any_instruction() {
    for (at, len) in [(0, 200), (1, 300), (100, 700), (4001, 5000)] {
        let (_root, region) = region(16_384, true);
        let child = begin(|| region.write_in_order(at, &BYTES[..len]));
        let mut counts = vec![0];
        while step(child) {
            let count = written_count(&region, at, len);
            if counts.last() != Some(&count) {
                counts.push(count);
            }
        }
        assert!(counts.len() > len / STEP && counts.is_sorted() && counts.last() == Some(&len), "{counts:?}");
        ptrace::cont(child, None).unwrap();
        assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
    }
}
