//! Nothing, for a while by the guest's own clock: what the clock outside sees of it is the guest's clock error.

use serde::Deserialize;
use serde_json::json;
use virtoll_clock::{monotonic_ns, sleep_until_monotonic};
use virtoll_proto::Error;

use super::{Done, Outcome, Workload};

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// How long, by `CLOCK_MONOTONIC`.
    duration_ns: u64,
}

struct Slept;

impl Workload for Idle {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        sleep_until_monotonic(monotonic_ns().saturating_add(self.duration_ns));
        Ok(Box::new(Slept))
    }
}

impl Done for Slept {
    fn check(self: Box<Self>) -> Outcome {
        Outcome { result: json!({}), check: "idle".to_owned() }
    }
}
