//! `traffic`, its two halves, and `counters`: the packet path.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `traffic`: one traffic trial.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// The trial's number, in every frame.
    pub trial: u16,
    /// Ethernet header to the end of the payload, without FCS.
    pub frame_size_bytes: u32,
    /// A mix of sizes instead.
    #[serde(default)]
    pub mix: Vec<MixPart>,
    /// How long the sources send.
    pub duration_ns: u64,
    /// What sends.
    pub backend: Backend,
    /// The sources.
    pub sources: Vec<Source>,
    /// Where the frames arrive.
    pub sink: Sink,
    /// The sink is quiet when nothing arrived for so long, and every offered frame has arrived.
    pub quiet_ns: u64,
    /// The same where offered frames are missing; null for `quiet_ns`, and no less than that.
    #[serde(default)]
    pub residual_ns: Option<u64>,
    /// The longest wait for quiet.
    pub drain_limit_ns: u64,
    /// Frames of a batch of live frames; null for the smallest that holds the rate.
    #[serde(default)]
    pub batch_frames: Option<u32>,
    /// A frame that is later than this is not sent; null for 20 ms.
    #[serde(default)]
    pub catch_up_ns: Option<u64>,
    /// Paced sources wake every so many ns, send what is due and sleep; null: each frame at its own time, at which they
    /// spin. A sender that sleeps leaves its core's idle time to what else runs there.
    #[serde(default)]
    pub wake_ns: Option<u64>,
    /// The sources send flat out in turn, each for a burst, with live frames; null: all at once. `duration_ns` is then the
    /// time of one source's bursts.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Processors whose idle time is read before the first frame and after the last, for `traffic` alone.
    #[serde(default)]
    pub idle_of: Vec<u32>,
    /// How much later the first frame of `send` is due; null for at once. Several agents that are asked one after
    /// another begin together so.
    #[serde(default)]
    pub delay_ns: Option<u64>,
    /// Whether the answer holds the histograms' buckets.
    #[serde(default)]
    pub histograms: bool,
    /// Keep the first frames that arrive as a pcap file.
    #[serde(default)]
    pub capture: Option<Capture>,
}

/// The secret of a source in a trial: 32 hexadecimal digits. It is not shown where a request is printed.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameKey(pub [u8; 16]);

impl TryFrom<String> for FrameKey {
    type Error = &'static str;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        digits.parse()
    }
}

impl FromStr for FrameKey {
    type Err = &'static str;

    fn from_str(digits: &str) -> Result<Self, Self::Err> {
        let known = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = known.then(|| u128::from_str_radix(digits, 16).ok()).flatten();
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or("a key must have 32 hexadecimal digits")
    }
}

impl From<FrameKey> for String {
    fn from(key: FrameKey) -> Self {
        format!("{:032x}", u128::from_be_bytes(key.0))
    }
}

impl fmt::Debug for FrameKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FrameKey(..)")
    }
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MixPart {
    /// Frame size in bytes.
    pub frame_size_bytes: u32,
    /// How often it comes, relative to the others.
    pub weight: u32,
}

/// How sources take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// How long each sends.
    pub burst_ns: u64,
    /// How long nobody sends after it.
    pub pause_ns: u64,
    /// How many bursts each source has.
    pub count: u64,
}

/// A pcap file of the first frames that arrive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Where to write it.
    pub path: String,
    /// How many frames.
    pub frames: u32,
}

/// A way to send frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The first of the next three that the host allows.
    #[default]
    Auto,
    /// An XDP program on frames of the kernel.
    LiveFrames,
    /// `AF_XDP` sockets.
    AfXdp,
    /// Packet sockets.
    AfPacket,
    /// UDP sockets, through the own stack of who sends; the interface must have the source's address.
    Udp,
}

/// A way to count frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinkBackend {
    /// The first of the following that the host allows.
    #[default]
    Auto,
    /// An XDP program.
    Xdp,
    /// A packet socket with a ring.
    Tpacket,
}

impl fmt::Display for Backend {
    /// Its name in the protocol.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

impl fmt::Display for SinkBackend {
    /// Its name in the protocol.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// One source of `traffic`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its number in every frame; null for its place in the request. For `send` alone, where the other sources are
    /// other agents'.
    #[serde(default)]
    pub number: Option<u8>,
    /// Its secret in this trial; null where this agent may draw one, which `sink-open` and `send` cannot.
    #[serde(default)]
    pub key: Option<FrameKey>,
    /// The interface that its frames leave by.
    pub interface: String,
    /// Link addresses.
    pub source_mac: String,
    /// The next hop's link address.
    pub destination_mac: String,
    /// A VLAN tag's number; null for none.
    #[serde(default)]
    pub vlan: Option<u16>,
    /// IP source address.
    pub source_address: IpAddr,
    /// IP destination address, of the same family.
    pub destination_address: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// How many source ports, from `source_port` on.
    #[serde(default = "one")]
    pub flows: u16,
    /// Destinations spread over a table of routes, in turn; null for `destination_address` alone.
    #[serde(default)]
    pub destinations: Option<Destinations>,
    /// Target rate; null for flat out.
    #[serde(default)]
    pub rate_frames_per_second: Option<f64>,
    /// The core of the sending thread.
    #[serde(default)]
    pub cpu: Option<u32>,
}

/// Addresses that lie in the prefixes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Destinations {
    /// How many.
    pub count: u32,
    /// The size of the table.
    pub routes: u32,
    /// What it is made from.
    pub seed: u64,
}

const fn one() -> u16 {
    1
}

/// The sink of `traffic`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// The interfaces that frames arrive on.
    pub interfaces: Vec<String>,
    /// What counts.
    #[serde(default)]
    pub backend: SinkBackend,
    /// The core of the receiving thread.
    #[serde(default)]
    pub cpu: Option<u32>,
}

/// `sink-finish`: the sources' totals.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SinkFinish {
    /// By source, in the order of the request.
    pub sources: Vec<SourceTold>,
}

/// The counts of one source that the sink's books are closed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SourceTold {
    /// Frames that it was to send.
    pub intended_frames: u64,
    /// Frames that left.
    pub offered_frames: u64,
    /// Frames that did not.
    pub unsent_frames: u64,
}

/// `counters`: where frames pass and get lost in this namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The interfaces; none for all.
    #[serde(default)]
    pub interfaces: Vec<String>,
}
