//! `run`: a built-in workload between two marks.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Exec, MarkLink, jobs};

/// `run`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Fields")]
pub struct Run {
    /// The workload.
    #[serde(flatten)]
    pub job: Job,
    /// Where the marks go; null for the channel alone.
    pub marks: Option<MarkLink>,
    /// How often the job runs between the marks.
    #[serde(skip_serializing_if = "is_once")]
    pub repeats: NonZeroU32,
    /// How long the guest sleeps between the start mark and the job.
    #[serde(skip_serializing_if = "is_zero")]
    pub pause_ns: u64,
    /// How long after the request it sends the start mark, so that several guests begin at one moment.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_once(repeats: &NonZeroU32) -> bool {
    *repeats == ONCE
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(length_ns: &u64) -> bool {
    *length_ns == 0
}

const ONCE: NonZeroU32 = NonZeroU32::MIN;

/// A built-in workload with its parameters, by the name in `job`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "job", content = "parameters", rename_all = "kebab-case")]
#[allow(missing_docs)] // each is a section of docs/protocol.md
pub enum Job {
    #[serde(rename = "superpi")]
    SuperPi(jobs::SuperPi),
    Masr(jobs::Masr),
    Stream(jobs::Stream),
    Zfg(jobs::Zfg),
    #[serde(rename = "forkwait")]
    ForkWait(jobs::ForkWait),
    Kernel(jobs::Kernel),
    ContextSwitch(jobs::ContextSwitch),
    IpcBandwidth(jobs::IpcBandwidth),
    Idle(jobs::Idle),
    Tcp(jobs::Tcp),
    /// What is run, as `exec` takes it.
    Program(Exec),
    RoutingTable(jobs::RoutingTable),
}

impl Job {
    /// Whether it may run several times in a row: it begins each time as it began the first time.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::SuperPi(_)
            | Self::Masr(_)
            | Self::ForkWait(_)
            | Self::Kernel(_)
            | Self::ContextSwitch(_)
            | Self::IpcBandwidth(_)
            | Self::Idle(_) => true,
            Self::Stream(_)
            | Self::Zfg(_)
            | Self::Tcp(_)
            | Self::Program(_)
            | Self::RoutingTable(_) => false,
        }
    }
}

/// The fields of the request: serde refuses no unknown field beside a flattened one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    job: String,
    #[serde(default)]
    parameters: Map<String, Value>,
    #[serde(default)]
    marks: Option<MarkLink>,
    #[serde(default = "once")]
    repeats: NonZeroU32,
    #[serde(default)]
    pause_ns: u64,
    #[serde(default)]
    delay_ns: u64,
}

fn once() -> NonZeroU32 {
    ONCE
}

impl TryFrom<Fields> for Run {
    type Error = RunError;

    fn try_from(fields: Fields) -> Result<Self, RunError> {
        let (name, parameters) = (Value::from(fields.job.clone()), fields.parameters.into());
        let job = Map::from_iter([("job".to_owned(), name), ("parameters".to_owned(), parameters)]);
        let job: Job = match super::read(job) {
            Ok(job) => job,
            Err(cause) => return Err(RunError::Job(fields.job, cause)),
        };
        if fields.repeats != ONCE && !job.is_repeatable() {
            return Err(RunError::Repeats(fields.job));
        }
        let Fields { marks, repeats, pause_ns, delay_ns, .. } = fields;
        Ok(Self { job, marks, repeats, pause_ns, delay_ns })
    }
}

/// Why a job cannot be run as the request says; each has the job's name.
#[derive(Debug)]
enum RunError {
    Job(String, serde_json::Error),
    Repeats(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job, cause) => write!(to, "{job}: {cause}"),
            Self::Repeats(job) => write!(to, "repeats: the job {job} runs once between its marks"),
        }
    }
}
