//! Routes by the hundred thousand: many requests in one message, and no answer but to the last.

use std::io;
use std::net::Ipv4Addr;

use super::{
    CREATE_ONLY, DUMP, HEADER_BYTES, Message, Netlink, REQUEST_AND_ACKNOWLEDGE, attributes,
};
use crate::routes::Prefix;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const AF_INET: u8 = 2;
const TABLE_MAIN: u8 = 254;
const UNICAST: u8 = 1;
/// Who set a route, so that no other is ever taken for one of a table's: a number that no routing daemon uses.
pub(crate) const TABLE_PROTOCOL: u8 = 214;
const ACKNOWLEDGE: u16 = 0x4;
/// Requests of one message. Were all of them refused, the answers would still have room in the socket's buffer.
const TOGETHER: usize = 128;
// Attributes of a route.
const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
const ROUTE_HEADER_BYTES: usize = 12;

/// An IPv4 unicast route of the main table, as far as it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub prefix: Prefix,
    /// Whether a table's loader set it.
    pub ours: bool,
}

fn message(kind: u16, flags: u16, prefix: Prefix, gateway: Option<Ipv4Addr>) -> Message {
    let header = [AF_INET, prefix.length, 0, 0, TABLE_MAIN, TABLE_PROTOCOL, 0, UNICAST, 0, 0, 0, 0];
    let message =
        Message::new(kind, flags, &header).attribute(RTA_DST, &prefix.network.to_be_bytes());
    match gateway {
        Some(gateway) => message.attribute(RTA_GATEWAY, &gateway.octets()),
        None => message,
    }
}

pub(super) fn read_route(body: &[u8]) -> Option<Route> {
    let header = body.get(..ROUTE_HEADER_BYTES)?;
    if header[0] != AF_INET || header[4] != TABLE_MAIN || header[7] != UNICAST {
        return None;
    }
    let network = attributes(&body[ROUTE_HEADER_BYTES..])
        .find(|(kind, _)| *kind == RTA_DST)
        .map_or(Some(0), |(_, value)| value.try_into().ok().map(u32::from_be_bytes))?;
    let prefix = Prefix { network, length: header[1] };
    Some(Route { prefix, ours: header[5] == TABLE_PROTOCOL })
}

impl Netlink {
    /// The routes of the main table.
    ///
    /// # Errors
    /// The kernel's.
    pub fn routes(&mut self) -> io::Result<Vec<Route>> {
        let mut routes = Vec::new();
        let query = Message::new(RTM_GETROUTE, DUMP, &[AF_INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.each(query, RTM_NEWROUTE, |body| routes.extend(read_route(body)))?;
        Ok(routes)
    }

    /// Sets routes by one gateway, marked as a table's; how many.
    ///
    /// # Errors
    /// The first refusal of the kernel, or that there is a route to such a prefix already.
    pub fn add_routes(
        &mut self,
        prefixes: impl Iterator<Item = Prefix>,
        gateway: Ipv4Addr,
    ) -> io::Result<u32> {
        let flags = CREATE_ONLY & !ACKNOWLEDGE;
        self.batches(prefixes.map(|prefix| message(RTM_NEWROUTE, flags, prefix, Some(gateway))))
    }

    /// Takes routes of a table away; how many.
    ///
    /// # Errors
    /// The first refusal of the kernel.
    pub fn delete_routes(&mut self, prefixes: impl Iterator<Item = Prefix>) -> io::Result<u32> {
        let flags = REQUEST_AND_ACKNOWLEDGE & !ACKNOWLEDGE;
        self.batches(prefixes.map(|prefix| message(RTM_DELROUTE, flags, prefix, None)))
    }

    fn batches(&mut self, messages: impl Iterator<Item = Message>) -> io::Result<u32> {
        let mut messages = messages.peekable();
        let (mut count, mut together) = (0, Vec::with_capacity(TOGETHER * 64));
        while messages.peek().is_some() {
            together.clear();
            let first = self.sequence + 1;
            let mut last_at = 0;
            for message in messages.by_ref().take(TOGETHER) {
                self.sequence += 1;
                last_at = together.len();
                together.extend_from_slice(&message.finish(self.sequence));
                count += 1;
            }
            let last = &mut together[last_at..last_at + HEADER_BYTES];
            last[6] |= ACKNOWLEDGE as u8;
            self.answered(&together, first)?;
        }
        Ok(count)
    }
}
