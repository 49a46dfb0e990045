//! Nothing, for a while by the guest's own clock: what the clock outside sees of it is the guest's clock error.

use virtoll_clock::{monotonic_ns, sleep_until_monotonic};
use virtoll_proto::Error;
use virtoll_proto::reply::Empty;
use virtoll_proto::reply::figures::Figures;
use virtoll_proto::request::jobs::Idle;

use super::{Done, Outcome, Workload};

struct Slept;

impl Workload for Idle {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        sleep_until_monotonic(monotonic_ns().saturating_add(self.duration_ns));
        Ok(Box::new(Slept))
    }
}

impl Done for Slept {
    fn check(self: Box<Self>) -> Outcome {
        Outcome { result: Figures::Idle(Empty {}), check: "idle".to_owned() }
    }
}
