//! Keeps other work from taking the traffic threads' cores, as far as that is allowed.
//!
//! A thread's niceness holds among the processes of its session alone where the kernel groups tasks by session
//! (`sched_autogroup`), so the session's niceness is raised too, for the length of a trial.

use std::fs;

use crate::sys;

const NICENESS: i32 = -20;
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Raises the calling thread; what is not allowed is left as it is.
pub fn prefer_this_thread() {
    sys::prefer_thread(NICENESS);
}

/// The session's niceness, raised until this is dropped.
#[derive(Debug)]
pub struct SessionPriority {
    before: Option<i32>,
}

impl SessionPriority {
    /// Raises it, where the kernel groups by session and permits it.
    pub fn raise() -> Self {
        let before = fs::read_to_string(AUTOGROUP).ok().as_deref().and_then(niceness);
        // Another trial of the session has raised it already, and sets it back.
        let before = before.filter(|before| *before != NICENESS);
        let raised = before.is_some() && fs::write(AUTOGROUP, NICENESS.to_string()).is_ok();
        Self { before: before.filter(|_| raised) }
    }
}

impl Drop for SessionPriority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Lowering is always allowed; should it fail, the session only stays preferred.
            let _ = fs::write(AUTOGROUP, before.to_string());
        }
    }
}

/// From `/autogroup-101 nice 0`.
fn niceness(text: &str) -> Option<i32> {
    text.trim().rsplit_once(" nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::niceness;

    #[test]
    fn the_kernels_line_is_read() {
        assert_eq!(niceness("/autogroup-101 nice -5\n"), Some(-5));
        assert_eq!(niceness(""), None);
    }
}
