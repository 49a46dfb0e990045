//! `http-load`: requests to a web server at a fixed rate.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// `http-load`: an open loop, whose requests leave when they are due and not when an answer has come.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HttpLoad {
    /// The server's address and port.
    pub target: SocketAddr,
    /// What is asked for, from its slash on.
    pub path: String,
    /// How many requests in all.
    pub requests: u64,
    /// How many become due a second.
    pub rate_requests_per_second: f64,
    /// Whether a connection is used again.
    pub keep_alive: bool,
    /// The most connections that are open at once.
    pub connections: u32,
    /// A request is given up so long after it was due.
    pub timeout_ns: u64,
    /// The core of the thread that sends and receives.
    #[serde(default)]
    pub cpu: Option<u32>,
}
