//! `serve`, `serve-finish`: the far end of what a guest does over TCP.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Which end of a connection: the one that opened it, or the one that it was opened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The guest that is measured.
    Opener,
    /// The peer, or another guest.
    Listener,
}

/// What two ends do with each other over TCP; both are given the same. Several connections have each its part of the
/// whole.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Exchange {
    /// One end sends bytes, the other one says at the end how many arrived.
    Stream {
        /// Who sends.
        active: Side,
        /// How many bytes.
        bytes: u64,
        /// How many are handed to the kernel at once.
        message_bytes: u32,
        /// How many connections at once.
        #[serde(default = "one")]
        connections: u32,
    },
    /// One end asks and the other one answers, one transaction after the other.
    RequestResponse {
        /// Who asks.
        active: Side,
        /// How often.
        transactions: u64,
        /// The size of a request.
        request_bytes: u32,
        /// The size of an answer.
        response_bytes: u32,
        /// How many connections at once.
        #[serde(default = "one")]
        connections: u32,
    },
}

impl Exchange {
    /// What there is to do in all: bytes, or transactions.
    pub const fn amount(&self) -> u64 {
        match self {
            Self::Stream { bytes, .. } => *bytes,
            Self::RequestResponse { transactions, .. } => *transactions,
        }
    }

    /// By how many connections.
    pub const fn connections(&self) -> u32 {
        match self {
            Self::Stream { connections, .. } | Self::RequestResponse { connections, .. } => {
                *connections
            }
        }
    }
}

/// `serve`: listen for the connections of one exchange, and do it with the client that opens them, while the session
/// goes on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The address to listen at.
    pub address: Ipv4Addr,
    /// The port; 0 for any that is free.
    #[serde(default)]
    pub port: u16,
    /// The CPU that the serving threads are pinned to.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// What is done.
    pub exchange: Exchange,
    /// How long a connection, or a byte on it, is waited for.
    pub timeout_ns: u64,
}

/// `serve-finish`: what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServeFinish {
    /// How long its end is waited for.
    pub timeout_ns: u64,
}

const fn one() -> u32 {
    1
}
