//! What `--help` prints.

/// Of `wire`.
pub const HELP: &str = "\
virtoll-agent wire: a traffic generator and a counting sink for test frames

  wire send       sends UDP test frames at an exact rate or as fast as possible
  wire receive    counts test frames: loss, duplicates, reordering, one-way delay
  wire calibrate  measures generator and sink with nothing between them
  wire forward    is a router of test frames that does known harm to them

Each has --help. Loss is exact: every frame carries a sequence number. One-way delay needs sender
and receiver on one machine (one clock). Run as root for the fast back ends (live-frames, xdp);
af-xdp, af-packet and tpacket work with CAP_NET_RAW alone.
";

/// Of `wire send`.
pub const HELP_SEND: &str = "\
virtoll-agent wire send --interface IF --destination-mac MAC --source IP --destination IP [options]

  --rate-mbit N       frame bits per second / 10^6, FCS included, without preamble and gap
  --rate-frames N     frames per second (neither: flat out, as fast as possible)
  --size BYTES        frame size, Ethernet header to FCS, 64..1518 (64)
  --mix S:W,S:W,...   several sizes with weights; --imix is 64:7,594:4,1518:1
  --duration SECONDS  (1)
  --source-mac MAC    (the interface's own)
  --ports S:D         UDP ports (5000:6000)        --flows N   source ports from S on (1)
  --vlan ID           one VLAN tag                 --trial N   number in every frame (1)
  --key HEX           32 digits, the secret of both ends by which frames are tagged (zeros)
  --backend NAME      auto, live-frames, af-xdp, af-packet (auto: the first that works), udp
  --batch N           frames of a batch of live-frames (the smallest that holds the rate)
  --catch-up MS       a frame that is later than this is not sent (20)
  --cpu N             core of the sending thread
  --pcap FILE         writes the first frames as the XDP program builds them (--pcap-frames N, 100)
  --json              prints all counters as JSON

IPv6 addresses give IPv6 frames. What could not be sent is counted as unsent; the rate is never
stretched. Without --key anybody can write frames that the sink counts. live-frames into a veth pair needs an XDP program or GRO at its other end
(ethtool -K PEER gro on). Example, 100 Mbit/s for 10 s:

  virtoll-agent wire send --interface eth1 --destination-mac 02:00:00:00:00:02 \\
    --source 10.1.0.1 --destination 10.2.0.1 --rate-mbit 100 --duration 10
";

/// Of `wire receive`.
pub const HELP_RECEIVE: &str = "\
virtoll-agent wire receive --interface IF [options]

  --duration SECONDS  how long (1)
  --ports S:D         the sender's (5000:6000)     --trial N  the sender's (1)
  --key HEX           the sender's (zeros): a frame with another tag is forged, and not counted
  --sink NAME         auto, xdp, tpacket (auto: xdp where it loads)
  --any               counts every frame of any kind and drops it (xdp only)
  --pcap FILE         keeps the first frames (--pcap-frames N, 100)
  --json              prints all counters as JSON

Once it counts it says so, for scripts that start a sender then: a line that begins with \"open\"
on standard error, or with --json {\"event\":\"open\",...} as the first of two lines of output.

With xdp, test frames go no further than the sink; all others reach the stack as usual.
Lost is counted up to the largest sequence number that arrived: frames that are lost at the
very end are not known here. Compare with the sender's offered frames.
";

/// Of `wire calibrate`.
pub const HELP_CALIBRATE: &str = "\
virtoll-agent wire calibrate [options]

Sends over a veth pair in a network namespace of its own, which is gone afterwards, straight
into the sink, flat out and at a rate, for each size and back end: the ceiling, the exactness of
the rate, the evenness of the gaps and the instrument's own delay.

  --sizes A,B,...     frame sizes (64,500,1000,1500)
  --rates A,B,...     Mbit/s (10,100,300,1000)
  --flat-out          no rates, only as fast as possible
  --duration SECONDS  of each trial (1)
  --backend NAME      one back end alone (all that work)
  --cpu N             core of the sending thread
  --json              prints one JSON object a line
";

/// Of `wire forward`.
pub const HELP_FORWARD: &str = "\
virtoll-agent wire forward --from IF --to IF --source-mac MAC --destination-mac MAC [options]

  --source-mac, --destination-mac MAC   link addresses of the frames that leave
  --drop-every N        every Nth test frame is not sent on
  --duplicate-every N   every Nth is sent twice
  --swap-every N        every Nth is sent after the next one: one reordered frame each
  --delay-us US         each goes on so many microseconds after it was read

It forwards untagged IPv4 test frames and nothing else, until it is told to end (SIGTERM). It counts
the frames that it takes from 1; a frame that is dropped is neither duplicated nor swapped, and one
that is duplicated is not swapped. It leaves the IP header as it is. The kernel must not forward the
same frames: leave net.ipv4.ip_forward at 0. Once it takes frames it prints a line that begins with
\"open\" on standard error; at its end it prints as JSON what became of the frames. Those that the
kernel had no room for are missed_frames.
";

#[cfg(test)]
mod tests {
    use super::*;
    use virtoll_wire::frame::IMIX;

    #[test]
    fn the_help_tells_the_imix_that_is_sent() {
        let reported = IMIX.map(|(size, weight)| format!("{size}:{weight}")).join(",");
        assert!(HELP_SEND.contains(&format!("--imix is {reported}")), "{reported}");
    }
}
