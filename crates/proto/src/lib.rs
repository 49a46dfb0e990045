//! The protocol between the agent and the control plane: JSON lines on a byte stream.
//!
//! `docs/protocol.md` is the contract; this crate is its Rust form. Main types: [`Request`] (a checked line from
//! the controller), [`Answer`] and [`Event`] (lines to it), [`LineBuffer`] (bytes to lines, bounded).
//! Nothing here opens a file or a socket, and no input makes it panic.

mod base64_bytes;
pub mod line;
pub mod reply;
pub mod request;

pub use line::{LineBuffer, LineTooLong, MAXIMUM_LINE_BYTES};
pub use reply::{Answer, Edge, Error, ErrorKind, Event, Ready};
pub use request::{Operation, Refusal, Request};

/// The protocol's version; both sides must have the same number.
pub const PROTOCOL: u32 = 6;

/// Checks the controller's version against [`PROTOCOL`].
///
/// # Errors
/// `protocol-mismatch`, in one sentence that names both versions and the remedy.
pub fn check_version(controller: u32, agent_version: &str) -> Result<(), Error> {
    if controller == PROTOCOL {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ProtocolMismatch,
        format!(
            "the controller speaks protocol {controller} and this agent (version {agent_version}) speaks \
             protocol {PROTOCOL}: rebuild the agent with `make agent`"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_by_both_numbers() {
        assert_eq!(check_version(PROTOCOL, "0.1.0"), Ok(()));
        for other in [PROTOCOL - 1, PROTOCOL + 1] {
            let error = check_version(other, "0.1.0").unwrap_err();
            assert_eq!(error.kind, ErrorKind::ProtocolMismatch);
            let sentence = error.to_string();
            for part in [&format!("protocol {other}"), &format!("protocol {PROTOCOL}"), "0.1.0"] {
                assert!(sentence.contains(part), "{sentence}");
            }
        }
    }
}
