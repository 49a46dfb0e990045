//! Any line as each of the agent's answers: nothing panics, and what is read is written back with the same meaning.

use serde::Serialize;
use serde::de::DeserializeOwned;
use virtoll_proto::reply::{self, counters, facts, figures, to_line, traffic};
use virtoll_proto::{Answer, Event};

fn check<T: DeserializeOwned + Serialize>(line: &[u8]) {
    let Ok(message) = serde_json::from_slice::<T>(line) else { return };
    let written = to_line(&message);
    let read: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(to_line(&read), written);
}

const CHECKS: [fn(&[u8]); 25] = [
    check::<Answer>,
    check::<Event>,
    check::<reply::Hello>,
    check::<reply::Clocks>,
    check::<facts::Facts>,
    check::<reply::Network>,
    check::<reply::Run>,
    check::<reply::Exec>,
    check::<reply::Spawn>,
    check::<reply::Progress>,
    check::<reply::End>,
    check::<reply::Marks>,
    check::<reply::PathDelay>,
    check::<traffic::Traffic>,
    check::<reply::SinkOpen>,
    check::<traffic::SinkFinish>,
    check::<traffic::Send>,
    check::<counters::Counters>,
    check::<reply::Data>,
    check::<traffic::HttpLoad>,
    check::<reply::Serve>,
    check::<reply::ServeFinish>,
    check::<reply::Empty>,
    check::<figures::Figures>,
    check::<reply::HandOver>,
];

/// Panics where it does not hold for this input.
pub fn holds(input: &[u8]) {
    let Some((kind, line)) = input.split_first() else { return };
    CHECKS[usize::from(*kind) % CHECKS.len()](line);
}
