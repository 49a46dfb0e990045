//! The parts that all command lines of the program share. `lexopt` splits the words into options and values.

use std::process::ExitCode;
use std::str::FromStr;

use lexopt::{Arg, Parser, ValueExt};

/// Why a command has no result, in one sentence.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// The command itself failed.
    Work(String),
}

impl Failure {
    /// Prints the sentence to standard error; the exit code, which is 2 for a wrong command line and else 1.
    pub fn report(self) -> ExitCode {
        let (sentence, code) = match self {
            Self::Usage(sentence) => (sentence, ExitCode::from(2)),
            Self::Work(sentence) => (sentence, ExitCode::FAILURE),
        };
        eprintln!("virtoll-agent: {sentence}");
        code
    }

    /// The same with the command's name before the sentence.
    #[must_use]
    pub fn of(self, command: &str) -> Self {
        match self {
            Self::Usage(sentence) => Self::Usage(format!("{command}: {sentence}")),
            Self::Work(sentence) => Self::Work(format!("{command}: {sentence}")),
        }
    }
}

impl From<lexopt::Error> for Failure {
    fn from(cause: lexopt::Error) -> Self {
        Self::Usage(cause.to_string())
    }
}

impl From<String> for Failure {
    fn from(sentence: String) -> Self {
        Self::Work(sentence)
    }
}

/// An argument as the user wrote it, without the value of an option.
pub fn spelling(argument: &Arg<'_>) -> String {
    match argument {
        Arg::Long(name) => format!("--{name}"),
        Arg::Short(letter) => format!("-{letter}"),
        Arg::Value(value) => value.to_string_lossy().into_owned(),
    }
}

/// The value of the option `name`, which the parser has just returned.
///
/// # Errors
/// There is none, or `read` refuses it.
pub fn value<T>(
    parser: &mut Parser,
    name: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, lexopt::Error> {
    let text = parser.value()?.string()?;
    read(&text).ok_or_else(|| format!("{name} cannot be {text:?}; see --help").into())
}

/// A number from its text.
pub fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}
