//! `counters`: every place of this namespace where a frame is counted or lost, so that a loss can be located.

use std::collections::BTreeMap;
use std::fs;

use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::reply::counters::{self as reply, InterfaceCounters, Named, Softnet};
use virtoll_proto::request::Counters;
use virtoll_wire::netlink::{Link, Netlink, QueueDiscipline};

use crate::processors::Processors;

pub mod driver;

/// The column of `/proc/net/softnet_stat` that is the line's processor.
const SOFTNET_PROCESSOR: usize = 12;
/// Counters by protocol.
type Protocols = BTreeMap<String, Named<i64>>;

const PROTOCOLS: [&str; 4] = ["Ip", "Icmp", "Udp", "IpExt"];

/// Carries the request out.
///
/// # Errors
/// `bad-request` for an interface that is not there, `system` if netlink fails.
pub fn collect(request: &Counters) -> Result<reply::Counters, Error> {
    let system = |cause: std::io::Error| Error::system("read counters by netlink", &cause);
    let read_at_ns = monotonic_ns();
    let mut netlink = Netlink::open().map_err(system)?;
    let links = netlink.links().map_err(system)?;
    let queues = netlink.queue_disciplines().map_err(system)?;
    for wanted in &request.interfaces {
        if !links.iter().any(|link| link.name == *wanted) {
            return Err(Error::bad_request(format!("no interface {wanted}")));
        }
    }
    let wanted =
        |link: &&Link| request.interfaces.is_empty() || request.interfaces.contains(&link.name);
    Ok(reply::Counters {
        monotonic_ns: read_at_ns,
        interfaces: links.iter().filter(wanted).map(|link| interface(link, &queues)).collect(),
        softnet: read("/proc/thread-self/net/softnet_stat").map(|text| softnet(&text)),
        snmp: snmp(),
        snmp6: read("/proc/thread-self/net/snmp6").map(|text| protocols_6(&text)),
        processors: Processors::read().since_boot(),
    })
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// What the protocols count; those that were added later (`IpExt`: packets without a route) are in another file.
fn snmp() -> Option<Protocols> {
    let own = read("/proc/thread-self/net/snmp")?;
    Some(protocols(&(own + &read("/proc/thread-self/net/netstat").unwrap_or_default())))
}

fn interface(link: &Link, queues: &[QueueDiscipline]) -> InterfaceCounters {
    let queues = queues.iter().filter(|queue| queue.interface == link.index);
    let queue = |queue: &QueueDiscipline| reply::QueueDiscipline {
        kind: queue.kind.clone(),
        root: queue.root,
        dropped: queue.dropped,
        overlimits: queue.overlimits,
        backlog: queue.backlog,
    };
    InterfaceCounters {
        name: link.name.clone(),
        index: link.index,
        mac: link.mac.map(|mac| mac.to_string()),
        statistics: link
            .statistics
            .named()
            .into_iter()
            .map(|(name, count)| (name.into(), count))
            .collect(),
        queue_disciplines: queues.map(queue).collect(),
        driver_statistics: driver::statistics(&link.name),
    }
}

/// One line a processor, hexadecimal; older kernels have fewer columns.
fn softnet(text: &str) -> Vec<Softnet> {
    let line = |(number, line): (usize, &str)| {
        let words: Vec<Option<u64>> =
            line.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16).ok()).collect();
        let column = |place: usize| words.get(place).copied().flatten();
        Softnet {
            cpu: column(SOFTNET_PROCESSOR).unwrap_or(number as u64),
            processed: column(0),
            dropped: column(1),
            time_squeeze: column(2),
            received_rps: column(9),
            flow_limit: column(10),
            backlog: column(11),
        }
    };
    text.lines().enumerate().map(line).collect()
}

/// Pairs of lines: names, then numbers.
fn protocols(text: &str) -> Protocols {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Protocols::new();
    for [names, numbers] in lines.as_chunks::<2>().0 {
        let Some((protocol, names)) = names.split_once(':') else { continue };
        let Some((_, numbers)) = numbers.split_once(':') else { continue };
        if !PROTOCOLS.contains(&protocol) {
            continue;
        }
        let pairs = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
        let pairs =
            pairs.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
        all.insert(protocol.to_owned(), pairs.collect());
    }
    all
}

/// One counter a line, of which those of IP and UDP are reported.
fn protocols_6(text: &str) -> Named<u64> {
    let line = |line: &str| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        let ours = name.starts_with("Ip6") || name.starts_with("Udp6");
        ours.then_some(())?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;
    use serde_json::json;
    use virtoll_wire::netlink::LinkStatistics;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["Ip:", "Udp:", "InErrors", "Ip6InReceives", "00000001", ":"])) {
            let _ = (softnet(&text), protocols(&text), protocols_6(&text));
        }
    }

    #[test]
    fn softnet_of_an_old_and_a_new_kernel() {
        let new =
            "0000000a 00000001 00000002 0 0 0 0 0 0 00000003 00000004 00000005 00000007 0 0\n";
        let line = softnet(new)[0];
        assert_eq!((line.cpu, line.processed, line.dropped), (7, Some(10), Some(1)));
        assert_eq!(
            (line.time_squeeze, line.received_rps, line.flow_limit, line.backlog),
            (Some(2), Some(3), Some(4), Some(5))
        );
        let line = softnet("00000010 00000000 00000000\n")[0];
        assert_eq!((line.cpu, line.processed, line.backlog), (0, Some(16), None));
    }

    /// What this process's own network namespace has, which has a loopback interface as each does.
    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn all_places_are_read_and_of_the_interfaces_those_that_were_named() {
        let named = |names: &[&str]| {
            let interfaces = names.iter().copied().map(str::to_owned).collect();
            collect(&Counters { interfaces })
        };
        let all = named(&[]).unwrap();
        assert!(all.interfaces.iter().any(|one| one.name == "lo"));
        let one = named(&["lo"]).unwrap();
        assert_eq!(one.interfaces.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["lo"]);
        let refused = named(&["lo", "nowhere"]).unwrap_err();
        assert!(refused.to_string().contains("no interface nowhere"), "{refused}");
        let lines = |file: &str| fs::read_to_string(file).map(|text| text.lines().count()).ok();
        assert_eq!(all.softnet.map(|all| all.len()), lines("/proc/thread-self/net/softnet_stat"));
        let kept: Vec<String> = all.snmp.unwrap().into_keys().collect();
        assert_eq!(kept, ["Icmp", "Ip", "IpExt", "Udp"]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn an_interface_has_its_own_queues_alone() {
        let link = |index, name: &str| Link {
            index,
            name: name.to_owned(),
            mac: None,
            mtu: 1_500,
            up: true,
            carrier: true,
            operation_state: "up",
            vlan: None,
            statistics: LinkStatistics { rx_packets: 5, ..LinkStatistics::default() },
        };
        let queue = |interface, dropped| QueueDiscipline {
            interface,
            kind: "fq".to_owned(),
            root: true,
            dropped,
            overlimits: 1,
            backlog: 2,
        };
        let queues = [queue(7, 10), queue(8, 20), queue(7, 30)];
        let told = interface(&link(7, "not-there"), &queues);
        let dropped: Vec<u64> = told.queue_disciplines.iter().map(|one| one.dropped).collect();
        assert_eq!((told.index, dropped), (7, vec![10, 30]));
        assert_eq!(told.statistics["rx_packets"], 5);
        assert!(interface(&link(9, "not-there"), &queues).queue_disciplines.is_empty());
    }

    #[test]
    fn protocols_are_pairs_of_lines() {
        let text = "Ip: Forwarding InDiscards\nIp: 1 5\nTcp: MaxConn\nTcp: -1\nUdp: InErrors\nUdp: 2\nIpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(
            json!(protocols(text)),
            json!({"Ip": {"Forwarding": 1, "InDiscards": 5}, "Udp": {"InErrors": 2}, "IpExt": {"InNoRoutes": 7}})
        );
        assert_eq!(
            json!(protocols_6("Ip6InReceives  \t 4\nIcmp6InMsgs 9\n")),
            json!({"Ip6InReceives": 4})
        );
    }
}
