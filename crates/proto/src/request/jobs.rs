//! The parameters of the built-in workloads. `docs/protocol.md` specifies them.
#![allow(missing_docs)] // the fields are those of docs/protocol.md

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Exchange;

/// `superpi`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SuperPi {
    /// Decimals after the point.
    pub digits: u64,
}

/// `masr`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Masr {
    /// How much memory, a multiple of 8.
    pub size_bytes: u64,
}

/// `stream`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Of each of the three arrays.
    pub elements: u64,
    pub rounds: usize,
    pub threads: usize,
}

/// `zfg`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Zfg {
    /// The folder that the files are made in.
    pub path: PathBuf,
    /// Size of the file of zeros.
    pub size_bytes: u64,
    /// How often it is written.
    pub rounds: u32,
    /// How much else is written between two rounds.
    pub dump_bytes: u64,
    /// Whether a round ends with `fsync`.
    pub synced: bool,
}

/// `forkwait`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForkWait {
    /// How many.
    pub processes: u64,
    /// How many processes create them at once, each its part.
    #[serde(default = "one")]
    pub workers: u64,
}

/// `kernel`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    pub operation: KernelOperation,
    /// How many, a multiple of `batch_operations`.
    pub operations: u64,
    /// How many are timed together.
    pub batch_operations: u64,
    /// How many processes do all of them at once.
    #[serde(default = "one")]
    pub workers: u64,
}

/// What `kernel` repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelOperation {
    NullCall,
    Read,
    Write,
    Stat,
    Fstat,
    OpenClose,
    SignalInstall,
    SignalHandle,
    Pipe,
    ForkExit,
    ForkExec,
    ForkSh,
}

/// `context-switch`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSwitch {
    /// How many are in the ring, the agent among them.
    pub processes: usize,
    /// What each sums at its turn, a multiple of 8.
    pub working_set_bytes: u64,
    /// How often the token goes round.
    pub laps: u64,
    /// How many rings do all of it at once.
    #[serde(default = "one")]
    pub workers: u64,
}

/// `ipc-bandwidth`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IpcBandwidth {
    pub channel: IpcChannel,
    /// How much is sent, a multiple of `chunk_bytes`.
    pub size_bytes: u64,
    /// How much is handed over at once, a multiple of 8.
    pub chunk_bytes: u64,
    /// How many pairs of processes move all of it at once.
    #[serde(default = "one")]
    pub workers: u64,
}

/// What `ipc-bandwidth` sends through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IpcChannel {
    Pipe,
    UnixStream,
    TcpLoopback,
    SharedMemory,
}

/// `idle`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// How long, by `CLOCK_MONOTONIC`.
    pub duration_ns: u64,
}

/// `tcp`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// Address of the server.
    pub address: Ipv4Addr,
    /// At which port.
    pub port: u16,
    /// What is done; the server was given the same.
    pub exchange: Exchange,
    /// How long the connection, or a byte on it, is waited for.
    pub timeout_ns: u64,
}

/// `routing-table`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingTable {
    /// The size of the table; 0 takes a table away.
    pub routes: u32,
    /// What it is made from.
    #[serde(default)]
    pub seed: u64,
    /// The gateway of all routes; needed for a table.
    #[serde(default)]
    pub via: Option<Ipv4Addr>,
}

const fn one() -> u64 {
    1
}
