//! Processes: fork, exit in the child, wait in the parent, one after the other (Suresh and Kannan 2014).

use serde::Deserialize;
use serde_json::json;
use virtoll_proto::Error;

use super::{Done, Outcome, Workload, sys};

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkWait {
    /// How many.
    processes: u64,
}

struct Counts {
    processes: u64,
    reaped: u64,
}

impl Workload for ForkWait {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let mut reaped = 0;
        for _ in 0..self.processes {
            let exited = sys::fork_and_wait().map_err(|cause| Error::system("forkwait", &cause))?;
            reaped += u64::from(exited);
        }
        Ok(Box::new(Counts { processes: self.processes, reaped }))
    }
}

impl Done for Counts {
    fn check(self: Box<Self>) -> Outcome {
        Outcome {
            result: json!({"processes": self.processes, "reaped": self.reaped}),
            check: self.reaped.to_string(),
        }
    }
}
