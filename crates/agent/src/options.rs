//! The command line.

use std::fmt;

const MOST_PAIRS: u8 = 16;

/// Which part the agent plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// In a guest.
    Guest,
    /// On the host: the native baseline.
    Host,
    /// The network peer: generator, sink, timekeeper.
    Peer,
}

impl fmt::Display for Seat {
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
    /// Its seat.
    pub seat: Seat,
    /// `stdio`, `virtio-serial` or a path.
    pub channel: String,
    /// Remove the binary's own file at the start: it is a copy for this session alone.
    pub unlink_self: bool,
    /// Serve in a network namespace of its own that holds so many veth pairs.
    pub pairs: Option<u8>,
    /// Whether the other end holds back what has not been taken.
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

/// Reads the arguments after the program's name.
///
/// # Errors
/// A sentence that names the argument and the allowed values.
pub fn parse(arguments: &[String]) -> Result<Command, String> {
    let mut options = Options {
        seat: Seat::Guest,
        channel: "stdio".to_owned(),
        unlink_self: false,
        pairs: None,
        paced: false,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), None),
        };
        let mut value = || {
            value
                .or_else(|| rest.next().map(String::as_str))
                .ok_or_else(|| format!("{name} needs a value"))
        };
        match name {
            "--version" => return Ok(Command::Version),
            "--paced" => options.paced = true,
            "--seat" => options.seat = seat(value()?)?,
            "--unlink-self" => options.unlink_self = true,
            "--pairs" => {
                let given = value()?;
                let pairs = given.parse().ok().filter(|pairs| (1..=MOST_PAIRS).contains(pairs));
                options.pairs = Some(
                    pairs.ok_or_else(|| format!("--pairs is 1 to {MOST_PAIRS}, not {given:?}"))?,
                );
            }
            "--channel" => value()?.clone_into(&mut options.channel),
            _ => {
                return Err(format!(
                    "unknown argument {argument:?}; allowed: --seat guest|host|peer, \
                     --channel stdio|virtio-serial|PATH, --paced, --unlink-self, --pairs N, --version"
                ));
            }
        }
    }
    Ok(Command::Serve(options))
}

fn seat(name: &str) -> Result<Seat, String> {
    match name {
        "guest" => Ok(Seat::Guest),
        "host" => Ok(Seat::Host),
        "peer" => Ok(Seat::Peer),
        _ => Err(format!("--seat is guest, host or peer, not {name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Command, String> {
        parse(&arguments.iter().map(|argument| (*argument).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn both_spellings_and_the_defaults() {
        let plain = Options {
            seat: Seat::Guest,
            channel: "stdio".to_owned(),
            unlink_self: false,
            pairs: None,
            paced: false,
        };
        assert_eq!(parsed(&[]), Ok(Command::Serve(plain.clone())));
        let expected = Options { seat: Seat::Peer, channel: "/dev/x".to_owned(), ..plain.clone() };
        assert_eq!(parsed(&["--seat", "peer", "--channel=/dev/x"]), Ok(Command::Serve(expected)));
        let expected = Options { unlink_self: true, pairs: Some(2), paced: true, ..plain };
        assert_eq!(
            parsed(&["--unlink-self", "--pairs", "2", "--paced"]),
            Ok(Command::Serve(expected))
        );
        assert_eq!(parsed(&["--version"]), Ok(Command::Version));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parsed(&["--seat", "driver"]).unwrap_err().contains("driver"));
        assert!(parsed(&["--seat"]).unwrap_err().contains("--seat"));
        assert!(parsed(&["--pairs", "0"]).unwrap_err().contains("--pairs"));
        assert!(parsed(&["--sea"]).unwrap_err().contains("--sea"));
    }
}
