//! Children: PID 1 inherits every orphan and must reap it, without taking the exit status of its own children.
//!
//! There is no reaper thread to race with. SIGCHLD stays blocked and is read from a descriptor by the one loop that
//! waits; own children are waited for by number, and orphans are reaped between requests, each looked at before it is
//! taken. The children of `forkwait` are waited for by number within the request.

use std::io;

use crate::sys::{self, ChildSignals};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status, if it exited.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// Reaps every child that ended; tells how those among `own` ended.
///
/// # Errors
/// The wait's.
pub fn reap(signals: &ChildSignals, own: &[u32]) -> io::Result<Vec<(u32, Ended)>> {
    signals.clear();
    let mut told = Vec::new();
    while let Some(pid) = sys::ended_child()? {
        let ended = sys::take_child(pid)?;
        if own.contains(&pid) {
            told.push((pid, ended));
        }
    }
    Ok(told)
}
