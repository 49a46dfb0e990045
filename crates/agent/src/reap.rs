//! Children: PID 1 inherits every orphan and must reap it, without taking the exit status of its own children.
//!
//! There is no reaper thread to race with. SIGCHLD stays blocked and is read from a descriptor by the one loop that
//! waits; own children are waited for by number, and orphans are reaped between requests, each looked at before it is
//! taken. The children of `forkwait` are waited for by number within the request.

use std::io;

use crate::sys::{self, ChildSignals, Ended};

/// Reaps every child that has ended; their numbers and how they ended.
///
/// # Errors
/// The wait's.
pub fn reap(signals: &ChildSignals) -> io::Result<Vec<(u32, Ended)>> {
    signals.clear();
    let mut reported = Vec::new();
    while let Some(pid) = sys::ended_child()? {
        reported.push((pid, sys::take_child(pid)?));
    }
    Ok(reported)
}
