//! Fills the kernel's routing table, or takes what was filled in away again, by route netlink.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

use virtoll_proto::reply::figures::{self, Figures, RouterMemory, RoutingTrie};
use virtoll_proto::request::jobs::RoutingTable;
use virtoll_proto::{Error, ErrorKind};
use virtoll_wire::netlink::{Netlink, Route};
use virtoll_wire::routes::{MOST_ROUTES, Prefix, Table};

use super::{Done, Outcome, Workload};

const MEMORY: &str = "/proc/meminfo";
const TRIE: &str = "/proc/net/fib_triestat";
const MEMORY_FIELDS: [&str; 5] = ["MemTotal", "MemAvailable", "Slab", "SReclaimable", "SUnreclaim"];

/// A checked job: what it finds at its start is not part of what is timed.
pub struct Checked {
    wanted: Option<(Table, Ipv4Addr, u32)>,
    found: Vec<Prefix>,
    memory: RouterMemory,
}

struct Loaded {
    wanted_routes: u32,
    changed_routes: u32,
    memory: RouterMemory,
}

/// Checks the parameters, and that the table can be set beside the routes that are there.
///
/// # Errors
/// `bad-request` for a size out of range or no gateway, `unsupported` for a router that has routes of its own which
/// the table would take the traffic from, `system` for routes that cannot be read.
pub fn checked(request: &RoutingTable) -> Result<Checked, Error> {
    let wanted = match (request.routes, Table::new(request.routes, request.seed), request.via) {
        (0, ..) => None,
        (routes, Some(table), Some(via)) => Some((table, via, routes)),
        (_, _, None) => return Err(Error::bad_request("routing-table: via is missing")),
        (..) => {
            return Err(Error::bad_request(format!(
                "routing-table: routes must be 0 to {MOST_ROUTES}"
            )));
        }
    };
    let known = routes()?;
    if wanted.is_some()
        && let Some(own) = known.iter().find(|one| !one.ours && one.prefix.may_be_covered())
    {
        return Err(Error::unsupported(format!(
            "it has a route of its own to {}/{}, and a table would take over what it leads to; use a guest whose \
             routes lead to its links alone",
            Ipv4Addr::from_bits(own.prefix.network),
            own.prefix.length
        )));
    }
    let found = known.iter().filter(|one| one.ours).map(|one| one.prefix).collect();
    Ok(Checked { wanted, found, memory: memory() })
}

impl Workload for Checked {
    fn run(&self) -> Result<Box<dyn Done>, Error> {
        let mut netlink = open()?;
        // One that a guest died over is never added to.
        let removed = netlink
            .delete_routes(self.found.iter().copied())
            .map_err(|cause| Error::system("take routes away by netlink", &cause))?;
        let (wanted_routes, changed_routes) = match self.wanted {
            None => (0, removed),
            Some((table, via, routes)) => {
                tells_who_set_a_route(&mut netlink, table, via)?;
                let added = netlink.add_routes(table.prefixes(), via);
                if added.is_err() {
                    // What was set before the refusal would stay behind.
                    remove_ours(&mut netlink);
                }
                (routes, added.map_err(|cause| refused(via, &cause))?)
            }
        };
        Ok(Box::new(Loaded { wanted_routes, changed_routes, memory: self.memory.clone() }))
    }
}

impl Done for Loaded {
    fn check(self: Box<Self>) -> Outcome {
        let present = routes().map(|all| all.iter().filter(|one| one.ours).count());
        let present = present.map_or_else(|cause| cause.message, |count| count.to_string());
        let result = figures::RoutingTable {
            routes: self.wanted_routes,
            changed_routes: self.changed_routes,
            memory_before: self.memory,
            memory_after: memory(),
        };
        Outcome { result: Figures::RoutingTable(result), check: present }
    }
}

fn open() -> Result<Netlink, Error> {
    Netlink::open().map_err(|cause| Error::system("netlink", &cause))
}

fn routes() -> Result<Vec<Route>, Error> {
    open()?.routes().map_err(|cause| Error::system("read routes by netlink", &cause))
}

/// Tries with the table's first route whether this kernel says later who set it: only then can a table be taken away.
fn tells_who_set_a_route(netlink: &mut Netlink, table: Table, via: Ipv4Addr) -> Result<(), Error> {
    let first = || table.prefixes().take(1);
    netlink.add_routes(first(), via).map_err(|cause| refused(via, &cause))?;
    let reported = netlink.routes().map(|all| all.iter().any(|one| one.ours));
    let gone = netlink.delete_routes(first());
    match (reported, gone) {
        (Ok(true), Ok(_)) => Ok(()),
        (Ok(false), Ok(_)) => Err(Error::unsupported(
            "its network stack takes routes by netlink and does not say later who set them, so that a table could not be \
             taken away again; use routes 0",
        )),
        (Err(cause), _) => Err(Error::system("read routes by netlink", &cause)),
        (_, Err(cause)) => Err(Error::new(
            ErrorKind::System,
            format!("take a route away by netlink: {cause}: the guest keeps it"),
        )),
    }
}

fn remove_ours(netlink: &mut Netlink) {
    if let Ok(known) = netlink.routes() {
        let ours = known.into_iter().filter(|one| one.ours).map(|one| one.prefix);
        // The refusal that led here is the one that is returned.
        let _ = netlink.delete_routes(ours);
    }
}

fn refused(via: Ipv4Addr, cause: &io::Error) -> Error {
    let sentence = format!("set routes via {via} by netlink: {cause}");
    let kind = match cause.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EACCES) => {
            ErrorKind::Unsupported
        }
        _ => ErrorKind::System,
    };
    Error::new(kind, sentence)
}

/// What the kernel says of its memory and of the size of its table of routes, in bytes; null where it says nothing.
fn memory() -> RouterMemory {
    let kernel = fs::read_to_string(MEMORY).ok().map(|text| {
        let known = text.lines().filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let name = MEMORY_FIELDS.iter().find(|wanted| **wanted == name)?;
            let kibibytes: u64 = rest.trim().strip_suffix(" kB")?.trim().parse().ok()?;
            Some(((*name).to_owned(), kibibytes * 1024))
        });
        known.collect()
    });
    let trie = fs::read_to_string(TRIE).ok().and_then(|text| read_trie(&text));
    RouterMemory { kernel, trie }
}

/// The figures of the main table, which the kernel lists first; sizes in bytes.
fn read_trie(text: &str) -> Option<RoutingTrie> {
    let main = text.split_once("Main:")?.1;
    let field = |name: &str| main.split_once(name).map(|(_, rest)| rest.trim_start());
    let first = |rest: &str| rest.split_whitespace().next().map(str::to_owned);
    let number = |name| field(name).and_then(first).and_then(|word| word.parse::<u64>().ok());
    let depth = field("Aver depth:").and_then(first).and_then(|word| word.parse::<f64>().ok());
    Some(RoutingTrie {
        prefixes: number("Prefixes:")?,
        leaves: number("Leaves:")?,
        internal_nodes: number("Internal nodes:")?,
        mean_depth: depth?,
        maximum_depth: number("Max depth:")?,
        bytes: number("Total size:")? * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["Main:", "Aver depth:", "Max depth:", "Leaves:", "Prefixes:", "Internal nodes:", "Pointers:", "Total size:", "kB", ".", "Local:"])) {
            let _ = read_trie(&text);
        }
    }

    const TOLD: &str = "Basic info: size of leaf: 48 bytes, size of tnode: 40 bytes.\nMain:\n\tAver depth:     2.42\n\tMax depth:      3\n\tLeaves:         7\n\tPrefixes:       8\n\tInternal nodes: 5\n\t  1: 1  2: 3  3: 1\n\tPointers: 22\nNull ptrs: 11\nTotal size: 2  kB\nLocal:\n\tAver depth:     9.00\n";

    #[test]
    fn the_tries_figures_are_read() {
        let reported = read_trie(TOLD).unwrap();
        assert_eq!(
            reported,
            RoutingTrie {
                prefixes: 8,
                leaves: 7,
                internal_nodes: 5,
                mean_depth: 2.42,
                maximum_depth: 3,
                bytes: 2048,
            }
        );
        assert_eq!(read_trie("nothing"), None);
    }

    #[test]
    fn a_table_needs_a_size_in_range_and_a_gateway() {
        let job = |routes, via| {
            checked(&RoutingTable { routes, seed: 1, via }).err().map(|one| one.message)
        };
        assert!(job(5, None).unwrap().contains("via"));
        let via = Some(Ipv4Addr::LOCALHOST);
        assert!(job(MOST_ROUTES + 1, via).unwrap().contains("2000000"));
    }
}
