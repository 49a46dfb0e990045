//! Counters of an interface: `struct rtnl_link_stats64`, or the kernel's table in text.

use std::collections::HashMap;
use std::fs;
use std::io;

use super::{DUMP, Message, Netlink, attributes, u32_at};

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// `tcm_parent` of struct `tcmsg`, and `TC_H_ROOT`.
const PARENT: usize = 12;
const ROOT: u32 = u32::MAX;

/// The counters that frames can be lost by, and those that they pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the kernel's names
pub struct LinkStatistics {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub rx_over_errors: u64,
    pub rx_fifo_errors: u64,
    pub rx_missed_errors: u64,
    pub tx_fifo_errors: u64,
    pub rx_nohandler: u64,
    pub rx_otherhost_dropped: u64,
}

impl LinkStatistics {
    pub(super) fn read(value: &[u8]) -> Self {
        let at = |place: usize| {
            let bytes = value.get(place * 8..place * 8 + 8).and_then(|part| part.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Self {
            rx_packets: at(0),
            tx_packets: at(1),
            rx_bytes: at(2),
            tx_bytes: at(3),
            rx_errors: at(4),
            tx_errors: at(5),
            rx_dropped: at(6),
            tx_dropped: at(7),
            rx_over_errors: at(11),
            rx_fifo_errors: at(14),
            rx_missed_errors: at(15),
            tx_fifo_errors: at(18),
            rx_nohandler: at(23),
            rx_otherhost_dropped: at(24),
        }
    }

    /// The counters by name, in the kernel's order.
    pub fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("rx_packets", self.rx_packets),
            ("tx_packets", self.tx_packets),
            ("rx_bytes", self.rx_bytes),
            ("tx_bytes", self.tx_bytes),
            ("rx_errors", self.rx_errors),
            ("tx_errors", self.tx_errors),
            ("rx_dropped", self.rx_dropped),
            ("tx_dropped", self.tx_dropped),
            ("rx_over_errors", self.rx_over_errors),
            ("rx_fifo_errors", self.rx_fifo_errors),
            ("rx_missed_errors", self.rx_missed_errors),
            ("tx_fifo_errors", self.tx_fifo_errors),
            ("rx_nohandler", self.rx_nohandler),
            ("rx_otherhost_dropped", self.rx_otherhost_dropped),
        ]
    }
}

/// The counters of all interfaces from `/proc/net/dev`; none where it cannot be read.
pub(super) fn from_device_table() -> HashMap<String, LinkStatistics> {
    read_device_table(&fs::read_to_string("/proc/net/dev").unwrap_or_default())
}

/// Two lines of headings, then a line an interface: its name, eight counters received, eight sent.
pub(super) fn read_device_table(text: &str) -> HashMap<String, LinkStatistics> {
    let lines = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    let read = lines.map(|(name, numbers)| {
        let numbers: Vec<u64> =
            numbers.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
        let statistics = LinkStatistics {
            rx_bytes: at(0),
            rx_packets: at(1),
            rx_errors: at(2),
            rx_dropped: at(3),
            rx_fifo_errors: at(4),
            tx_bytes: at(8),
            tx_packets: at(9),
            tx_errors: at(10),
            tx_dropped: at(11),
            tx_fifo_errors: at(12),
            ..LinkStatistics::default()
        };
        (name.trim().to_owned(), statistics)
    });
    read.collect()
}

/// A queueing discipline and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDiscipline {
    /// The interface's number.
    pub interface: u32,
    /// `noqueue`, `fq_codel` and so on.
    pub kind: String,
    /// Whether it is the interface's own on sending: what its children dropped is in its count.
    pub root: bool,
    /// Frames that it dropped.
    pub dropped: u64,
    /// Times that it was full.
    pub overlimits: u64,
    /// Frames that it holds.
    pub backlog: u64,
}

impl Netlink {
    /// The queueing disciplines of all interfaces; none where the kernel has no such thing (gVisor's).
    ///
    /// # Errors
    /// The kernel's.
    pub fn queue_disciplines(&mut self) -> io::Result<Vec<QueueDiscipline>> {
        match self.request(Message::new(RTM_GETQDISC, DUMP, &[0; 20]), RTM_NEWQDISC) {
            Ok(bodies) => Ok(bodies.iter().filter_map(|body| read_queue(body)).collect()),
            Err(cause) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
            Err(cause) => Err(cause),
        }
    }
}

/// Attributes: 1 kind, 3 old statistics (struct `tc_stats`), of which dropped, overlimits and backlog are used.
pub(super) fn read_queue(body: &[u8]) -> Option<QueueDiscipline> {
    let mut queue = QueueDiscipline {
        interface: u32_at(body, 4)?,
        kind: String::new(),
        root: u32_at(body, PARENT)? == ROOT,
        dropped: 0,
        overlimits: 0,
        backlog: 0,
    };
    for (kind, value) in attributes(body.get(20..)?) {
        match kind {
            1 => String::from_utf8_lossy(value).trim_end_matches('\0').clone_into(&mut queue.kind),
            3 => {
                let counter = |place| u32_at(value, place).map_or(0, u64::from);
                (queue.dropped, queue.overlimits) = (counter(12), counter(16));
                queue.backlog = counter(28);
            }
            _ => {}
        }
    }
    Some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_table_is_read() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes packets ...\n    lo:       0       0    0    0\n\
                    eth0: 148 2 3 4 5 0 0 0 1480 20 30 40 50 0 0 0\n";
        let read = read_device_table(text);
        assert_eq!(read.len(), 2);
        assert_eq!(read["lo"], LinkStatistics::default());
        let expected = LinkStatistics {
            rx_bytes: 148,
            rx_packets: 2,
            rx_errors: 3,
            rx_dropped: 4,
            rx_fifo_errors: 5,
            tx_bytes: 1480,
            tx_packets: 20,
            tx_errors: 30,
            tx_dropped: 40,
            tx_fifo_errors: 50,
            ..LinkStatistics::default()
        };
        assert_eq!(read["eth0"], expected);
        assert!(read_device_table("").is_empty());
    }
}
