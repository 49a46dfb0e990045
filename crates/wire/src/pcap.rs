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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word(file: &mut &[u8]) -> u32 {
        let (word, rest) = file.split_first_chunk().expect("a word");
        *file = rest;
        u32::from_le_bytes(*word)
    }

    proptest! {
        #[test]
        fn a_plain_reader_finds_every_frame_and_its_time(
            frames in prop::collection::vec((0_u64..1 << 50, any::<u16>(), prop::collection::vec(any::<u8>(), 0..80)), 0..10),
        ) {
            let packets: Vec<_> = frames.into_iter().map(|(monotonic_ns, more, bytes)| {
                CapturedPacket { monotonic_ns, frame_bytes: bytes.len() as u32 + u32::from(more), bytes }
            }).collect();
            let mut written = Vec::new();
            write(&mut written, &packets).unwrap();
            let mut file = written.as_slice();
            let head: Vec<u32> = (0..6).map(|_| word(&mut file)).collect();
            prop_assert_eq!(head, [MAGIC_NANOSECONDS, 2 | 4 << 16, 0, 0, LONGEST_BYTES, LINK_ETHERNET]);
            let mut offset_ns = None;
            for packet in &packets {
                let (seconds, nanoseconds) = (word(&mut file), word(&mut file));
                prop_assert!(nanoseconds < 1_000_000_000);
                let (kept, whole) = (word(&mut file) as usize, word(&mut file));
                prop_assert_eq!((&file[..kept], whole), (packet.bytes.as_slice(), packet.frame_bytes));
                file = &file[kept..];
                let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(nanoseconds);
                let between_ns = time_ns.wrapping_sub(packet.monotonic_ns);
                prop_assert_eq!(*offset_ns.get_or_insert(between_ns), between_ns);
            }
            prop_assert!(file.is_empty());
        }
    }
}
