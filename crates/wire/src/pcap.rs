//! Writes captured frames as a pcap file with nanoseconds, for tshark and the like.

use std::io::{self, Write};

use virtoll_clock::realtime_minus_monotonic_ns;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_ETHERNET: u32 = 1;
const LONGEST_BYTES: u32 = 65_535;

/// A frame that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// When it was seen, `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
    /// Its whole length in bytes.
    pub frame_bytes: u32,
    /// What was kept of it.
    pub bytes: Vec<u8>,
}

/// Writes a file; times of day are taken from the present difference of the clocks.
///
/// # Errors
/// The writer's.
pub fn write(output: &mut impl Write, packets: &[CapturedPacket]) -> io::Result<()> {
    let offset_ns = realtime_minus_monotonic_ns();
    let version = 2_u32 | 4 << 16;
    for word in [MAGIC_NANOSECONDS, version, 0, 0, LONGEST_BYTES, LINK_ETHERNET] {
        output.write_all(&word.to_le_bytes())?;
    }
    for packet in packets {
        let time_ns = (packet.monotonic_ns as i64 + offset_ns).max(0) as u64;
        let seconds = (time_ns / 1_000_000_000) as u32;
        let nanoseconds = (time_ns % 1_000_000_000) as u32;
        for word in [seconds, nanoseconds, packet.bytes.len() as u32, packet.frame_bytes] {
            output.write_all(&word.to_le_bytes())?;
        }
        output.write_all(&packet.bytes)?;
    }
    Ok(())
}
