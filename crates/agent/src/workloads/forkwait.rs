//! Processes: fork, exit in the child, wait in the parent, one after the other (Suresh and Kannan 2014).
//!
//! Several workers are processes of their own, each with its part: threads would share one address space, whose lock
//! each fork takes.

use std::io;

use virtoll_proto::Error;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::ForkWait;

use super::{Done, MOST_WORKERS, Outcome, Workload, sys};

/// Checks what is wanted.
///
/// # Errors
/// `bad-request` for no worker, too many, or more than processes.
pub fn ready(wanted: ForkWait) -> Result<ForkWait, Error> {
    if wanted.workers == 1 || (2..=MOST_WORKERS.min(wanted.processes)).contains(&wanted.workers) {
        return Ok(wanted);
    }
    Err(Error::bad_request(format!(
        "forkwait: workers must be 1 to {MOST_WORKERS}, and at most the processes"
    )))
}

impl Workload for ForkWait {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let reaped = if self.workers == 1 {
            reap(self.processes)
        } else {
            reap_by_workers(self.processes, self.workers)
        };
        let reaped = reaped.map_err(|cause| Error::system("forkwait", &cause))?;
        Ok(Box::new(figures::ForkWait { processes: self.processes, reaped }))
    }
}

/// How many of so many children were waited for and ended well.
fn reap(processes: u64) -> io::Result<u64> {
    let mut reaped = 0;
    for _ in 0..processes {
        reaped += u64::from(sys::fork_and_wait()?);
    }
    Ok(reaped)
}

/// The same by workers at once; one of which a child is missing counts as none of its part.
fn reap_by_workers(processes: u64, workers: u64) -> io::Result<u64> {
    let mut started = Vec::new();
    let mut refused = None;
    for place in 0..workers {
        let part = processes / workers + u64::from(place < processes % workers);
        match sys::fork(|| i32::from(reap(part).ok() != Some(part))) {
            Ok(worker) => started.push((worker, part)),
            Err(cause) => {
                refused = Some(cause);
                break;
            }
        }
    }
    let mut reaped = 0;
    for (worker, part) in started {
        if sys::wait_for(worker)? {
            reaped += part;
        }
    }
    refused.map_or(Ok(reaped), Err)
}

impl Done for figures::ForkWait {
    fn value(&self) -> Option<String> {
        Some(self.reaped.to_string())
    }

    fn check(self: Box<Self>) -> Outcome {
        Outcome { result: Figures::ForkWait(*self), check: self.reaped.to_string() }
    }
}
