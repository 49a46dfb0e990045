//! A network namespace of the process's own with veth pairs in it: generator and sink with nothing between them.

use std::fs;
use std::io;

use virtoll_wire::MacAddress;
use virtoll_wire::netlink::Netlink;

mod sys;

const MTU: u32 = 1_600;

/// The two ends of a pair, by its number: what is sent into the first arrives at the second.
pub fn names(pair: u8) -> (String, String) {
    (format!("pair{pair}out"), format!("pair{pair}in"))
}

/// Their link addresses.
fn addresses(pair: u8) -> (MacAddress, MacAddress) {
    let address = |end: u8| MacAddress([0x02, 0x76, 0x74, 0x03, end, pair]);
    (address(0), address(1))
}

/// Enters the namespace, which is gone when the process ends, and makes the pairs; all ends are on.
///
/// # Errors
/// No right to make a namespace, or a kernel without veth.
pub fn make_pairs(count: u8) -> io::Result<()> {
    sys::own_network()?;
    // The kernel's own IPv6 messages would be foreign frames.
    for kind in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{kind}/disable_ipv6");
        let _ = fs::write(path, "1");
    }
    let mut netlink = Netlink::open()?;
    for pair in 0..count {
        let (one, other) = names(pair);
        netlink.add_veth((&one, addresses(pair).0), (&other, addresses(pair).1), MTU)?;
        for name in [one, other] {
            let index = netlink.link_named(&name)?.index;
            netlink.set_up(index, true)?;
        }
    }
    Ok(())
}
