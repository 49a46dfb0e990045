//! Why a `wire` command has no result.

use std::fmt;
use std::io;

use virtoll_wire::backend::Refused;

use crate::command_line::Failure;

/// Why generator or sink did not do what was asked for.
#[derive(Debug)]
pub enum WireError {
    /// An interface or several, by name, and what failed there.
    Interface(String, io::Error),
    /// A capture that cannot be written.
    Capture(String, io::Error),
    /// Frames for a capture that cannot be composed.
    Frames(String, io::Error),
    /// A result that cannot be written.
    Result(serde_json::Error),
}

impl WireError {
    /// What makes an error of the reason why an interface failed.
    pub fn on(interface: &str) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Interface(interface.to_owned(), cause)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name, cause) => write!(to, "{name}: {cause}"),
            Self::Capture(path, cause) => write!(to, "write {path}: {cause}"),
            Self::Frames(path, cause) => write!(to, "write frames for {path}: {cause}"),
            Self::Result(cause) => write!(to, "write the result: {cause}"),
        }
    }
}

impl From<Refused> for WireError {
    fn from(refused: Refused) -> Self {
        Self::Interface(refused.on, refused.cause)
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Work(error.to_string())
    }
}
