//! A program of the image, from its start to its end: for tools whose work is the workload.

use virtoll_proto::Error;
use virtoll_proto::reply::figures::Figures;
use virtoll_proto::request::Exec;

use super::{Done, Outcome, Workload};
use crate::exec::{self, Finished};
use crate::sys::ChildSignals;

/// What is run, as `exec` takes it.
pub struct Program<'a> {
    request: Exec,
    signals: &'a ChildSignals,
}

impl<'a> Program<'a> {
    /// Checks what can be checked before the start mark.
    ///
    /// # Errors
    /// `bad-request` for an empty `argv`.
    pub fn checked(request: Exec, signals: &'a ChildSignals) -> Result<Self, Error> {
        exec::command(&request.argv)?;
        Ok(Self { request, signals })
    }
}

impl Workload for Program<'_> {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        Ok(Box::new(exec::follow(&self.request, self.signals)?))
    }
}

impl Done for Finished {
    fn check(self: Box<Self>) -> Outcome {
        let check = self.output_sha256();
        Outcome { result: Figures::Program(self.answer()), check }
    }
}
