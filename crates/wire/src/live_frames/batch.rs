//! The smallest batch that holds a rate.
//!
//! A larger batch saves the kernel's work between batches, and clumps frames. So the time of a turn of the loop that
//! sends nothing is measured once a process for each batch size; the rule takes the smallest batch of which
//! [`TURNS_A_GAP`] turns fit into the gap between two frames.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use virtoll_clock::monotonic_ns;

use super::{GENERATOR, LARGEST_BATCH};
use crate::bpf::run_live;
use crate::frame::MINIMUM_FRAME_BYTES;

/// How many idle turns must fit into a gap: one of them sends, which takes longer.
pub(crate) const TURNS_A_GAP: f64 = 8.0;
/// A short and a long call: their difference leaves out what a call itself costs.
const TURNS: [u32; 2] = [4_096, 36_864];
const TRIES: usize = 5;
const LOOPBACK: u32 = 1;

/// The batch for a rate, that of all sources of a loop together.
///
/// # Errors
/// The kernel's refusal to run the program.
pub(crate) fn smallest_that_holds(frames_per_second: f64) -> io::Result<u32> {
    let gap_ns = 1e9 / frames_per_second;
    let holds = |turn: &&(u32, f64)| turn.1 * TURNS_A_GAP <= gap_ns;
    Ok(turns()?.iter().find(holds).map_or(LARGEST_BATCH, |turn| turn.0))
}

/// Nanoseconds of an idle turn by batch size, measured once.
pub(crate) fn turns() -> io::Result<&'static [(u32, f64)]> {
    static MEASURED: OnceLock<Vec<(u32, f64)>> = OnceLock::new();
    if let Some(turns) = MEASURED.get() {
        return Ok(turns);
    }
    let turns = measure()?;
    Ok(MEASURED.get_or_init(|| turns))
}

fn measure() -> io::Result<Vec<(u32, f64)>> {
    // The data is empty: no frame is ever due, and every turn gives its frame back.
    let state = super::state::State::idle(GENERATOR)?;
    let program = super::load("paced_4", &state, &[LOOPBACK], &[])?;
    let frame = [0; MINIMUM_FRAME_BYTES];
    let sizes = (0..).map(|power| 1 << power).take_while(|batch| *batch <= LARGEST_BATCH);
    sizes
        .map(|batch| {
            let time = |turns: u32| {
                let before = monotonic_ns();
                run_live(program.as_fd(), &frame, turns, batch)?;
                Ok::<u64, io::Error>(monotonic_ns() - before)
            };
            let mut shortest = [u64::MAX; 2];
            for _ in 0..TRIES {
                for (shortest, turns) in shortest.iter_mut().zip(TURNS) {
                    *shortest = (*shortest).min(time(turns)?);
                }
            }
            let difference = shortest[1].saturating_sub(shortest[0]);
            Ok((batch, difference as f64 / f64::from(TURNS[1] - TURNS[0])))
        })
        .collect()
}
