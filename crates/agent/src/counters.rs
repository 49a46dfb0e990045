//! `counters`: every place of this namespace where a frame is counted or lost, so that a loss can be located.

use std::fs;

use serde_json::{Map, Value, json};
use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::request::Counters;
use virtoll_wire::netlink::{Link, Netlink, QueueDiscipline};

use crate::processors::Processors;

pub mod driver;

/// The columns of `/proc/net/softnet_stat` that are reported; the last is the line's processor.
const SOFTNET: [(&str, usize); 6] = [
    ("processed", 0),
    ("dropped", 1),
    ("time_squeeze", 2),
    ("received_rps", 9),
    ("flow_limit", 10),
    ("backlog", 11),
];
const SOFTNET_PROCESSOR: usize = 12;
const PROTOCOLS: [&str; 4] = ["Ip", "Icmp", "Udp", "IpExt"];

/// Carries the request out.
///
/// # Errors
/// `bad-request` for an interface that is not there, `system` if netlink fails.
pub fn collect(request: &Counters) -> Result<Value, Error> {
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
    let interfaces: Vec<Value> =
        links.iter().filter(wanted).map(|link| interface(link, &queues)).collect();
    Ok(json!({
        "monotonic_ns": read_at_ns,
        "interfaces": interfaces,
        "softnet": read("/proc/thread-self/net/softnet_stat").map(|text| softnet(&text)),
        "snmp": snmp(),
        "snmp6": read("/proc/thread-self/net/snmp6").map(|text| protocols_6(&text)),
        "processors": Processors::read().since_boot(),
    }))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// What the protocols count; those that were added later (`IpExt`: packets without a route) are in another file.
fn snmp() -> Option<Value> {
    let own = read("/proc/thread-self/net/snmp")?;
    Some(protocols(&(own + &read("/proc/thread-self/net/netstat").unwrap_or_default())))
}

fn interface(link: &Link, queues: &[QueueDiscipline]) -> Value {
    let statistics: Map<String, Value> = link
        .statistics
        .named()
        .iter()
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect();
    let queues: Vec<Value> = queues
        .iter()
        .filter(|queue| queue.interface == link.index)
        .map(|queue| {
            json!({
                "kind": queue.kind,
                "root": queue.root,
                "dropped": queue.dropped,
                "overlimits": queue.overlimits,
                "backlog": queue.backlog,
            })
        })
        .collect();
    json!({
        "name": link.name,
        "index": link.index,
        "mac": link.mac.map(|mac| mac.to_string()),
        "statistics": statistics,
        "queue_disciplines": queues,
        "driver_statistics": driver::statistics(&link.name),
    })
}

/// One line a processor, hexadecimal; older kernels have fewer columns.
fn softnet(text: &str) -> Vec<Value> {
    let line = |(number, line): (usize, &str)| {
        let words: Vec<Option<u64>> =
            line.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16).ok()).collect();
        let column = |place: usize| words.get(place).copied().flatten();
        let mut told = json!({"cpu": column(SOFTNET_PROCESSOR).unwrap_or(number as u64)});
        for (name, place) in SOFTNET {
            told[name] = json!(column(place));
        }
        told
    };
    text.lines().enumerate().map(line).collect()
}

/// Pairs of lines: names, then numbers.
fn protocols(text: &str) -> Value {
    let lines: Vec<&str> = text.lines().collect();
    let mut told = Map::new();
    for [names, numbers] in lines.as_chunks::<2>().0 {
        let Some((protocol, names)) = names.split_once(':') else { continue };
        let Some((_, numbers)) = numbers.split_once(':') else { continue };
        if !PROTOCOLS.contains(&protocol) {
            continue;
        }
        let pairs = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
        let pairs = pairs.filter_map(|(name, number)| {
            number.parse::<i64>().ok().map(|number| (name.to_owned(), json!(number)))
        });
        told.insert(protocol.to_owned(), Value::Object(pairs.collect()));
    }
    Value::Object(told)
}

/// One counter a line, of which those of IP and UDP are reported.
fn protocols_6(text: &str) -> Value {
    let line = |line: &str| {
        let (name, number) = line.split_once(char::is_whitespace)?;
        let ours = name.starts_with("Ip6") || name.starts_with("Udp6");
        ours.then_some(())?;
        Some((name.to_owned(), json!(number.trim().parse::<u64>().ok()?)))
    };
    Value::Object(text.lines().filter_map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softnet_of_an_old_and_a_new_kernel() {
        let new =
            "0000000a 00000001 00000002 0 0 0 0 0 0 00000003 00000004 00000005 00000007 0 0\n";
        let told = &softnet(new)[0];
        assert_eq!(
            (&told["cpu"], &told["processed"], &told["dropped"]),
            (&json!(7), &json!(10), &json!(1))
        );
        let told = &softnet("00000010 00000000 00000000\n")[0];
        assert_eq!(
            (&told["cpu"], &told["processed"], &told["backlog"]),
            (&json!(0), &json!(16), &Value::Null)
        );
    }

    #[test]
    fn protocols_are_pairs_of_lines() {
        let text = "Ip: Forwarding InDiscards\nIp: 1 5\nTcp: MaxConn\nTcp: -1\nUdp: InErrors\nUdp: 2\nIpExt: InNoRoutes\nIpExt: 7\n";
        assert_eq!(
            protocols(text),
            json!({"Ip": {"Forwarding": 1, "InDiscards": 5}, "Udp": {"InErrors": 2}, "IpExt": {"InNoRoutes": 7}})
        );
        assert_eq!(
            protocols_6("Ip6InReceives  \t 4\nIcmp6InMsgs 9\n"),
            json!({"Ip6InReceives": 4})
        );
    }
}
