//! `spawn`, `progress` and `end`: a program that runs beside the requests, a server for one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `spawn`: starts a program and does not wait for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// What it is called until it is ended.
    pub name: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment; null for the agent's own.
    #[serde(default)]
    pub env: Option<BTreeMap<String, String>>,
    /// Its working directory.
    #[serde(default)]
    pub directory: Option<String>,
    /// The file that takes what it writes, made anew.
    pub output: String,
    /// How often its CPU time is read while it runs; null for never.
    #[serde(default)]
    pub sample_ns: Option<u64>,
}

/// `progress`: what it has used so far.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Which one.
    pub name: String,
}

/// `end`: ends it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Which one.
    pub name: String,
    /// How long it may take to leave by itself.
    pub timeout_ns: u64,
    /// The most bytes that are returned of the end of its output.
    pub limit_bytes: u64,
}
