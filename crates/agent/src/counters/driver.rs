//! A driver's own counters, as `ethtool -S` shows them: veth's rings and XDP drops, virtio's and e1000's queues.

use virtoll_proto::reply::counters::Named;

use crate::facts::ethtool_words as ethtool;

const GET_NAMES: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_NAME_COUNTS: u32 = 0x37;
const STATISTICS_SET: u32 = 1;
const NAME_BYTES: usize = 32;
const MOST: usize = 4096;

/// The counters by name; none where the driver has none.
pub fn statistics(interface: &str) -> Option<Named<u64>> {
    Some(read(interface)?.into_iter().collect())
}

fn read(interface: &str) -> Option<Vec<(String, u64)>> {
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, and a count for each bit that stays set.
    let mut counts = [GET_NAME_COUNTS, 0, 1 << STATISTICS_SET, 0, 0];
    ethtool(interface, &mut counts)?;
    let count = counts[4] as usize;
    if counts[2] == 0 || count == 0 || count > MOST {
        return None;
    }
    // struct ethtool_gstrings and ethtool_stats; both with room to spare, should a counter be added meanwhile.
    let mut names = vec![0_u32; 3 + (count + 16) * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[GET_NAMES, STATISTICS_SET, count as u32]);
    ethtool(interface, &mut names)?;
    let mut values = vec![0_u32; 2 + (count + 16) * 2];
    values[..2].copy_from_slice(&[GET_STATISTICS, count as u32]);
    ethtool(interface, &mut values)?;
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
