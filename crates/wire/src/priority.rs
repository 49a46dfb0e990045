//! Keeps other work from taking the traffic threads' cores, as far as that is allowed.
//!
//! A thread's niceness holds among the processes of its session alone where the kernel groups tasks by session
//! (`sched_autogroup`), so the session's niceness is raised too, for the length of a trial.

use std::fs;
use std::path::PathBuf;

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
    file: PathBuf,
    before: Option<i32>,
}

impl SessionPriority {
    /// Raises it, where the kernel groups by session and permits it.
    pub fn raise() -> Self {
        Self::raise_by(AUTOGROUP.into())
    }

    fn raise_by(file: PathBuf) -> Self {
        let before = fs::read_to_string(&file).ok().as_deref().and_then(niceness);
        // Another trial of the session has raised it already, and sets it back.
        let before = before.filter(|before| *before != NICENESS);
        let raised = before.is_some() && fs::write(&file, NICENESS.to_string()).is_ok();
        Self { file, before: before.filter(|_| raised) }
    }
}

impl Drop for SessionPriority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Lowering is always allowed; should it fail, the session only stays preferred.
            let _ = fs::write(&self.file, before.to_string());
        }
    }
}

/// From `/autogroup-101 nice 0`.
fn niceness(text: &str) -> Option<i32> {
    text.trim().rsplit_once(" nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getpriority_process, setpriority_process};
    use std::thread;

    /// With an ordinary file in the kernel's place, which keeps what was written last.
    #[test]
    fn a_session_is_raised_once_and_set_back() {
        let file = std::env::temp_dir().join(format!("virtoll-autogroup-{}", std::process::id()));
        let written = || fs::read_to_string(&file).unwrap();
        for (line, raised, set_back) in [
            ("/autogroup-101 nice -5\n", "-20", "-5"),
            ("/autogroup-101 nice 0\n", "-20", "0"),
            // Another trial's: this one neither raises it nor sets it back.
            ("/autogroup-101 nice -20\n", "/autogroup-101 nice -20\n", "/autogroup-101 nice -20\n"),
            ("nothing that is known", "nothing that is known", "nothing that is known"),
        ] {
            fs::write(&file, line).unwrap();
            let priority = SessionPriority::raise_by(file.clone());
            assert_eq!(written(), raised);
            drop(priority);
            assert_eq!(written(), set_back);
        }
        fs::remove_file(&file).unwrap();
        drop(SessionPriority::raise_by(file.clone()));
        assert!(!file.exists(), "a kernel that does not group by session");
    }

    #[test]
    #[cfg_attr(miri, ignore = "setpriority(2)")]
    fn a_thread_is_as_nice_as_it_may_be() {
        let after = |change: fn()| {
            let thread = thread::spawn(move || {
                change();
                getpriority_process(None).unwrap()
            });
            thread.join().unwrap()
        };
        let wanted = after(|| {
            let _refused = setpriority_process(None, -20);
        });
        assert_eq!(after(prefer_this_thread), wanted);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sched_setattr(2)")]
    fn a_preferred_thread_has_the_shortest_slice() {
        let slice_ns = thread::spawn(|| {
            prefer_this_thread();
            sys::time_slice_ns().unwrap()
        });
        // Kernels before 6.12 keep none.
        assert!([0, 100_000].contains(&slice_ns.join().unwrap()));
    }

    #[test]
    fn the_kernels_line_is_read() {
        assert_eq!(niceness("/autogroup-101 nice -5\n"), Some(-5));
        assert_eq!(niceness(""), None);
    }
}
