//! `run`: a built-in workload between two marks.

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
}

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
    Idle(jobs::Idle),
    Tcp(jobs::Tcp),
    /// What is run, as `exec` takes it.
    Program(Exec),
    RoutingTable(jobs::RoutingTable),
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
}

impl TryFrom<Fields> for Run {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let (name, parameters) = (Value::from(fields.job.clone()), fields.parameters.into());
        let job = Map::from_iter([("job".to_owned(), name), ("parameters".to_owned(), parameters)]);
        let job = super::read(job).map_err(|cause| format!("{}: {cause}", fields.job))?;
        Ok(Self { job, marks: fields.marks })
    }
}
