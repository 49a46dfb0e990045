//! The built-in workloads. Each parses its own parameters before the start mark and has a check value.

mod context_switch;
mod forkwait;
mod idle;
mod ipc_bandwidth;
mod kernel;
mod masr;
mod program;
mod routing_table;
mod series;
mod stream;
mod superpi;
mod sys;
mod tcp;
mod zfg;

use virtoll_proto::Error;
use virtoll_proto::reply::figures::Figures;
use virtoll_proto::request::Job;

use crate::sys::ChildSignals;

/// How many processes do a job at once, at most.
const MOST_WORKERS: u64 = 256;

/// What a job returns when its end mark has left.
pub struct Outcome {
    /// The job's own figures.
    pub result: Figures,
    /// Its check value.
    pub check: String,
}

/// A job that is done; making the check value is not part of it.
pub trait Done {
    /// The check value alone, which each repeat of a job that can be repeated has.
    fn value(&self) -> Option<String> {
        None
    }

    /// The figures and the check value.
    fn check(self: Box<Self>) -> Outcome;
}

/// A job that is ready to run.
pub trait Workload {
    /// Does the work: what is between the two marks.
    ///
    /// # Errors
    /// What made the work impossible.
    fn run(&self) -> Result<Box<dyn Done>, Error>;
}

/// Makes a job ready; `signals` report the end of a program.
///
/// # Errors
/// `bad-request` for a parameter outside its range, or the job's own.
pub fn ready(job: Job, signals: &ChildSignals) -> Result<Box<dyn Workload + '_>, Error> {
    Ok(match job {
        Job::SuperPi(wanted) => Box::new(superpi::checked(wanted)?),
        Job::Masr(wanted) => Box::new(masr::checked(wanted)?),
        Job::ForkWait(wanted) => Box::new(forkwait::ready(wanted)?),
        Job::Idle(wanted) => Box::new(wanted),
        Job::Kernel(wanted) => Box::new(kernel::ready(wanted)?),
        Job::ContextSwitch(wanted) => Box::new(context_switch::ready(wanted)?),
        Job::IpcBandwidth(wanted) => Box::new(ipc_bandwidth::ready(wanted)?),
        Job::Stream(wanted) => Box::new(stream::ready(wanted)?),
        Job::Zfg(wanted) => Box::new(zfg::checked(wanted)?),
        Job::Tcp(wanted) => Box::new(tcp::open(&wanted)?),
        Job::Program(wanted) => Box::new(program::Program::checked(wanted, signals)?),
        Job::RoutingTable(wanted) => Box::new(routing_table::checked(&wanted)?),
    })
}
