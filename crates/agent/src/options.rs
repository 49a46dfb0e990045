//! The command line.

use std::fmt;

use lexopt::Parser;
use lexopt::prelude::{Long, ValueExt};

use crate::command_line::{number, spelling};

const MOST_PAIRS: u8 = 16;

/// Which part the agent plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In a guest.
    Guest,
    /// On the host: the native baseline.
    Host,
    /// The network peer: generator, sink, timekeeper.
    Peer,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Guest => "guest",
            Self::Host => "host",
            Self::Peer => "peer",
        })
    }
}

/// How an ordinary process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its role.
    pub role: Role,
    /// `stdio`, `virtio-serial` or a path.
    pub channel: String,
    /// Remove the binary's own file at the start: it is a copy for this session alone.
    pub unlink_self: bool,
    /// Serve in a new network namespace with N veth pairs.
    pub pairs: Option<u8>,
    /// Whether the other end holds back what was not acknowledged.
    pub paced: bool,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `--version`.
    Version,
    /// Serve.
    Serve(Options),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            role: Role::Guest,
            channel: "stdio".to_owned(),
            unlink_self: false,
            pairs: None,
            paced: false,
        }
    }
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// A sentence that names the argument and the allowed values.
pub fn parse(arguments: &[String]) -> Result<Command, lexopt::Error> {
    let mut options = Options::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        let name = spelling(&argument);
        match argument {
            Long("version") => return Ok(Command::Version),
            Long("paced") => options.paced = true,
            Long("unlink-self") => options.unlink_self = true,
            Long("role") => options.role = role(&parser.value()?.string()?)?,
            Long("channel") => options.channel = parser.value()?.string()?,
            Long("pairs") => options.pairs = Some(pairs(&parser.value()?.string()?)?),
            _ => return Err(OptionError::Unknown(name).into()),
        }
    }
    Ok(Command::Serve(options))
}

fn role(name: &str) -> Result<Role, OptionError> {
    match name {
        "guest" => Ok(Role::Guest),
        "host" => Ok(Role::Host),
        "peer" => Ok(Role::Peer),
        _ => Err(OptionError::Role(name.to_owned())),
    }
}

fn pairs(text: &str) -> Result<u8, OptionError> {
    number(text)
        .filter(|pairs| (1..=MOST_PAIRS).contains(pairs))
        .ok_or_else(|| OptionError::Pairs(text.to_owned()))
}

/// An argument that is not allowed, as it was written.
#[derive(Debug)]
enum OptionError {
    Unknown(String),
    Role(String),
    Pairs(String),
}

impl fmt::Display for OptionError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                to,
                "unknown argument {name:?}; allowed: --role guest|host|peer, \
                 --channel stdio|virtio-serial|PATH, --paced, --unlink-self, --pairs N, --version"
            ),
            Self::Role(name) => write!(to, "--role is guest, host or peer, not {name:?}"),
            Self::Pairs(text) => write!(to, "--pairs is 1 to {MOST_PAIRS}, not {text:?}"),
        }
    }
}

impl std::error::Error for OptionError {}

impl From<OptionError> for lexopt::Error {
    fn from(error: OptionError) -> Self {
        Self::Custom(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["--role", "guest", "host", "--pairs", "=", "--version", "enter", "wire", "--", "-h"])) {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let _ = parse(&words);
        }
    }

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
            .map_err(|cause| cause.to_string())
    }

    #[test]
    fn both_spellings_and_the_defaults() {
        let plain = Options::default();
        assert_eq!(parsed(&[]), Ok(Command::Serve(plain.clone())));
        let expected = Options { role: Role::Peer, channel: "/dev/x".to_owned(), ..plain.clone() };
        assert_eq!(parsed(&["--role", "peer", "--channel=/dev/x"]), Ok(Command::Serve(expected)));
        let expected = Options { unlink_self: true, pairs: Some(2), paced: true, ..plain };
        assert_eq!(
            parsed(&["--unlink-self", "--pairs", "2", "--paced"]),
            Ok(Command::Serve(expected))
        );
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parsed(&["--role", "driver"]).unwrap_err().contains("driver"));
        assert!(parsed(&["--role"]).unwrap_err().contains("--role"));
        assert!(parsed(&["--pairs", "0"]).unwrap_err().contains("--pairs"));
        assert!(parsed(&["--sea"]).unwrap_err().contains("--sea"));
        assert!(parsed(&["--paced=no"]).unwrap_err().contains("--paced"));
        assert!(parsed(&["serve"]).unwrap_err().contains("serve"));
    }
}
