//! The built-in workloads. Each parses its own parameters before the start mark and has a check value.

mod context_switch;
mod forkwait;
mod idle;
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

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use virtoll_proto::{Error, request};

use crate::sys::ChildSignals;

/// What a job returns when its end mark has left.
pub struct Outcome {
    /// The job's own figures.
    pub result: Value,
    /// Its check value.
    pub check: String,
}

impl Outcome {
    /// An outcome with the job's figures.
    pub fn new(figures: impl Serialize, check: String) -> Self {
        Self { result: serde_json::to_value(figures).unwrap_or_default(), check }
    }
}

/// A job that is done; making the check value is not part of it.
pub trait Done {
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

/// The job of that name with its parameters; `signals` report the end of a program.
///
/// # Errors
/// `bad-request` for an unknown name or parameter, or a value outside its range.
pub fn parse<'a>(
    name: &str,
    parameters: Map<String, Value>,
    signals: &'a ChildSignals,
) -> Result<Box<dyn Workload + 'a>, Error> {
    Ok(match name {
        "superpi" => Box::new(read::<superpi::SuperPi>(name, parameters)?.checked()?),
        "masr" => Box::new(read::<masr::Masr>(name, parameters)?.checked()?),
        "forkwait" => Box::new(read::<forkwait::ForkWait>(name, parameters)?),
        "idle" => Box::new(read::<idle::Idle>(name, parameters)?),
        "kernel" => Box::new(read::<kernel::Kernel>(name, parameters)?.ready()?),
        "context-switch" => {
            Box::new(read::<context_switch::ContextSwitch>(name, parameters)?.ready()?)
        }
        "stream" => Box::new(read::<stream::Stream>(name, parameters)?.ready()?),
        "zfg" => Box::new(read::<zfg::Zfg>(name, parameters)?.checked()?),
        "tcp" => Box::new(read::<tcp::Tcp>(name, parameters)?.open()?),
        "program" => Box::new(program::Program::checked(read(name, parameters)?, signals)?),
        "routing-table" => {
            Box::new(read::<routing_table::RoutingTable>(name, parameters)?.checked()?)
        }
        _ => {
            return Err(Error::bad_request(format!(
                "no job {name:?}; there are superpi, masr, stream, zfg, forkwait, kernel, context-switch, idle, tcp, program and routing-table"
            )));
        }
    })
}

fn read<T: DeserializeOwned>(name: &str, parameters: Map<String, Value>) -> Result<T, Error> {
    request::read(parameters).map_err(|cause| Error::bad_request(format!("{name}: {cause}")))
}
