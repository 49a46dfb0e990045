//! Processes: fork, exit in the child, wait in the parent, one after the other (Suresh and Kannan 2014).

use virtoll_proto::Error;
use virtoll_proto::reply::figures::{self, Figures};
use virtoll_proto::request::jobs::ForkWait;

use super::{Done, Outcome, Workload, sys};

impl Workload for ForkWait {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let mut reaped = 0;
        for _ in 0..self.processes {
            let exited = sys::fork_and_wait().map_err(|cause| Error::system("forkwait", &cause))?;
            reaped += u64::from(exited);
        }
        Ok(Box::new(figures::ForkWait { processes: self.processes, reaped }))
    }
}

impl Done for figures::ForkWait {
    fn check(self: Box<Self>) -> Outcome {
        Outcome { result: Figures::ForkWait(*self), check: self.reaped.to_string() }
    }
}
