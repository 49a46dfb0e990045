//! A driver's own counters, as `ethtool -S` shows them: veth's rings and XDP drops, virtio's and e1000's queues.

use virtoll_proto::reply::counters::Named;

use crate::facts::ethtool_words;

const GET_NAMES: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_NAME_COUNTS: u32 = 0x37;
const STATISTICS_SET: u32 = 1;
const NAME_BYTES: usize = 32;
const MOST: usize = 4096;

/// The counters by name; none where the driver has none.
pub fn statistics(interface: &str) -> Option<Named<u64>> {
    Some(read(|words| ethtool_words(interface, words))?.into_iter().collect())
}

/// `ask` has the driver answer a query in its own words.
fn read(ask: impl Fn(&mut [u32]) -> Option<()>) -> Option<Vec<(String, u64)>> {
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, and a count for each bit that stays set.
    let mut counts = [GET_NAME_COUNTS, 0, 1 << STATISTICS_SET, 0, 0];
    ask(&mut counts)?;
    let count = counts[4] as usize;
    if counts[2] == 0 || count == 0 || count > MOST {
        return None;
    }
    // struct ethtool_gstrings and ethtool_stats; both with room to spare, should a counter be added meanwhile.
    let mut names = vec![0_u32; 3 + (count + 16) * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[GET_NAMES, STATISTICS_SET, count as u32]);
    ask(&mut names)?;
    let mut values = vec![0_u32; 2 + (count + 16) * 2];
    values[..2].copy_from_slice(&[GET_STATISTICS, count as u32]);
    ask(&mut values)?;
    let names: Vec<u8> = names[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = |place: usize| {
        let bytes = &names[place * NAME_BYTES..(place + 1) * NAME_BYTES];
        String::from_utf8_lossy(bytes).split('\0').next().unwrap_or_default().trim().to_owned()
    };
    let value = |place: usize| {
        let (low, high) = (values[2 + place * 2], values[3 + place * 2]);
        let (low, high) = (low.to_ne_bytes(), high.to_ne_bytes());
        u64::from_ne_bytes([low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]])
    };
    Some((0..count).map(|place| (name(place), value(place))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(words: &mut [u32], bytes: &[u8]) {
        for (word, four) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_ne_bytes(*four);
        }
    }

    /// Answers as the kernel does for a driver with these counters; `known` says whether it has any statistics at all.
    fn driver(known: bool, counters: &[(&[u8], u64)]) -> impl Fn(&mut [u32]) -> Option<()> {
        move |words| {
            match *words {
                [GET_NAME_COUNTS, 0, mask, 0, ref mut count] => {
                    assert_eq!(mask, 2, "the set of statistics");
                    *count = counters.len() as u32;
                    words[2] = if known { mask } else { 0 };
                }
                [GET_NAMES, STATISTICS_SET, count, ref mut names @ ..] => {
                    assert_eq!(count as usize, counters.len());
                    for (place, (name, _)) in names.chunks_exact_mut(8).zip(counters) {
                        let mut bytes = [0; NAME_BYTES];
                        bytes[..name.len()].copy_from_slice(name);
                        write(place, &bytes);
                    }
                }
                [GET_STATISTICS, count, ref mut values @ ..] => {
                    assert_eq!(count as usize, counters.len());
                    for (place, (_, value)) in values.chunks_exact_mut(2).zip(counters) {
                        write(place, &value.to_ne_bytes());
                    }
                }
                _ => panic!("another query: {words:?}"),
            }
            Some(())
        }
    }

    #[test]
    fn each_counter_has_its_name_and_its_64_bits() {
        let counters: [(&[u8], u64); 3] =
            [(b"rx_xdp_drops", 3), (b" tx ", 1 << 32 | 7), (&[b'a'; NAME_BYTES], u64::MAX)];
        let wanted = [("rx_xdp_drops", 3), ("tx", 1 << 32 | 7), (&*"a".repeat(32), u64::MAX)];
        assert_eq!(
            read(driver(true, &counters)),
            Some(wanted.map(|(name, value)| (name.to_owned(), value)).to_vec())
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn a_driver_has_no_counters_or_a_number_that_can_be() {
        let counters = |count| vec![(&b"queue"[..], 5); count];
        let found = |known, count| read(driver(known, &counters(count))).map(|all| all.len());
        assert_eq!(found(true, 0), None);
        assert_eq!(found(false, 1), None);
        assert_eq!(found(true, 1), Some(1));
        assert_eq!(found(true, 4_096), Some(4_096));
        assert_eq!(found(true, 4_097), None);
        assert_eq!(read(|_| None), None);
        assert_eq!(statistics("nowhere"), None);
    }

    /// The kernel does not check how much room there is: what a driver added since it was asked must fit too.
    #[test]
    fn there_is_room_for_counters_that_are_added_meanwhile() {
        let answer = |words: &mut [u32]| {
            match words[0] {
                GET_NAME_COUNTS => words[4] = 2,
                GET_NAMES => assert!(words.len() >= 3 + 18 * 8),
                _ => assert!(words.len() >= 2 + 18 * 2),
            }
            Some(())
        };
        assert_eq!(read(answer).map(|all| all.len()), Some(2));
    }
}
