//! What the commands of `wire` print, as JSON or as the tables of `report`.

use std::collections::BTreeMap;

use serde::Serialize;
use virtoll_proto::reply::Word;
use virtoll_proto::reply::traffic::{ArrivedSource, SentSource, Traffic};

/// What `wire send` prints.
#[derive(Debug, Serialize)]
pub struct SendResult {
    pub backend: Word,
    pub backend_reason: Option<String>,
    pub sizes_bytes: Vec<usize>,
    pub sources: Vec<SentSource>,
    /// How its counters grew.
    pub interface: BTreeMap<Word, u64>,
}

/// What `wire receive` prints as JSON when it begins to count.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "open")]
pub struct OpenEvent<'a> {
    pub interface: &'a str,
    pub backend: &'a str,
}

/// What `wire receive` prints.
#[derive(Debug, Serialize)]
pub struct ReceiveResult {
    pub backend: Word,
    pub backend_reason: Option<String>,
    pub seen_frames: u64,
    pub foreign_frames: u64,
    pub late_trial_frames: u64,
    pub forged_frames: u64,
    pub kernel_dropped_frames: u64,
    /// The processors.
    pub ran_on: Vec<u32>,
    pub source: ArrivedSource,
    /// How its counters grew.
    pub interface: BTreeMap<Word, u64>,
}

/// What `wire calibrate` prints of a trial: what it returned, and what was asked for.
#[derive(Debug, Serialize)]
pub struct Calibration {
    #[serde(flatten)]
    pub reply: Traffic,
    pub rate_mbit: Option<f64>,
    pub rate_frames_per_second: Option<f64>,
    pub duration_ns: u64,
}
