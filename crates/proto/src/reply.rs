//! What the agent sends: answers and events.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub mod counters;
pub mod facts;
pub mod figures;
mod operations;
pub mod traffic;

pub use figures::{GuestTimes, Run, ServeFinish};
pub use operations::{
    Clocks, Data, Empty, End, Exec, HandOver, HandOverReading, Hello, InterfaceState, Mark, Marks,
    Network, PathDelay, Progress, Serve, SinkOpen, Spawn, TcpInformation,
};

/// A word of the agent's or the kernel's: a constant where it is written, text where it is read.
pub type Word = Cow<'static, str>;

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// Malformed, an unknown operation, an unknown or missing field.
    BadRequest,
    /// The two sides do not speak the same version.
    ProtocolMismatch,
    /// This role or kernel cannot do it.
    Unsupported,
    /// A system call failed; the message names it and its errno.
    System,
    /// Something is larger than allowed.
    Limit,
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Error {
    /// The class of the failure.
    pub kind: ErrorKind,
    /// One sentence that says what failed and on what.
    pub message: String,
}

impl Error {
    /// An error of `kind` with its sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A failed system call: its name, what it was tried on, and errno.
    pub fn system(what: impl fmt::Display, cause: &std::io::Error) -> Self {
        Self::new(ErrorKind::System, format!("{what}: {cause}"))
    }

    /// A request that cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, message)
    }

    /// An operation that this role or kernel cannot carry out.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The answer to one request; `id` is null where the request's could not be read.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Answer {
    /// The request's number.
    pub id: Option<u64>,
    /// The result or the error.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The two forms of an answer.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was carried out.
    Ok(Value),
    /// It was not.
    Error(Error),
}

impl Answer {
    /// Wraps a result.
    pub fn new(id: Option<u64>, result: Result<Value, Error>) -> Self {
        let outcome = match result {
            Ok(value) => Outcome::Ok(value),
            Err(error) => Outcome::Error(error),
        };
        Self { id, outcome }
    }
}

/// The edge of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Edge {
    /// Just before the job.
    Start,
    /// Just after it.
    End,
}

/// What the agent is, sent at its start and as the answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ready {
    /// The protocol's version.
    pub protocol: u32,
    /// The agent's version.
    pub version: String,
    /// 12 hex digits of the sources' hash.
    pub build: String,
    /// `guest`, `host` or `peer`.
    pub role: String,
    /// The agent's process number in its own namespace.
    pub pid: u32,
    /// When the agent's program began, by `CLOCK_MONOTONIC` of its own kernel.
    pub started_monotonic_ns: u64,
    /// The same moment as time since that kernel's boot.
    pub started_boottime_ns: u64,
    /// When it said so for the first time, by `CLOCK_MONOTONIC`.
    pub ready_monotonic_ns: u64,
}

/// A line that the agent sends unasked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The agent listens.
    Ready(Ready),
    /// A job's edge.
    Mark {
        /// The number of the `run` request.
        id: u64,
        /// Which edge.
        edge: Edge,
        /// The guest's monotonic clock at the edge.
        guest_monotonic_ns: u64,
    },
    /// A request is not whole yet; on a paced channel only.
    Taken {
        /// All that has been read since the channel was opened.
        bytes: u64,
    },
    /// Output of the terminal's process.
    Terminal {
        /// The bytes, base64 on the wire.
        #[serde(with = "crate::base64_bytes")]
        data: Vec<u8>,
    },
    /// The terminal's process ended.
    TerminalExit {
        /// Its exit status, if it exited.
        status: Option<i32>,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
}

/// One line of any message, with its end.
///
/// # Panics
/// Never: the messages hold no map with keys other than text.
pub fn to_line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_else(|_| b"{}".to_vec());
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_kind_and_its_sentence() {
        let cause = std::io::Error::other("no such device");
        let errors = [
            (Error::bad_request("no"), ErrorKind::BadRequest, "no"),
            (Error::unsupported("not here"), ErrorKind::Unsupported, "not here"),
            (Error::system("open in0", &cause), ErrorKind::System, "open in0: no such device"),
        ];
        for (error, kind, sentence) in errors {
            assert_eq!((error.kind, error.to_string().as_str()), (kind, sentence));
        }
    }

    #[test]
    fn messages_have_the_documented_form() {
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        let ok = Answer::new(Some(7), Ok(serde_json::json!({"a": 1})));
        assert_eq!(text(to_line(&ok)), "{\"id\":7,\"ok\":{\"a\":1}}\n");
        let error = Answer::new(None, Err(Error::bad_request("no")));
        assert_eq!(
            text(to_line(&error)),
            "{\"id\":null,\"error\":{\"kind\":\"bad-request\",\"message\":\"no\"}}\n"
        );
        let mark = Event::Mark { id: 3, edge: Edge::Start, guest_monotonic_ns: 5 };
        assert_eq!(
            text(to_line(&mark)),
            "{\"event\":\"mark\",\"id\":3,\"edge\":\"start\",\"guest_monotonic_ns\":5}\n"
        );
        let exit = Event::TerminalExit { status: Some(0), signal: None };
        assert_eq!(
            text(to_line(&exit)),
            "{\"event\":\"terminal-exit\",\"status\":0,\"signal\":null}\n"
        );
    }
}
