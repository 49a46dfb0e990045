//! What `make fuzz` checks, for its stored inputs and for damaged copies of them: the same ones each time that
//! `PROPTEST_RNG_SEED` says so. The crate `wire` checks its answers of the kernel itself.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

#[path = "../../../fuzz/checks/books.rs"]
mod books;
#[path = "../../../fuzz/checks/echo_frame.rs"]
mod echo_frame;
#[path = "../../../fuzz/checks/http_reply.rs"]
mod http_reply;
#[path = "../../../fuzz/checks/reply_line.rs"]
mod reply_line;
#[path = "../../../fuzz/checks/request_line.rs"]
mod request_line;
#[path = "../../../fuzz/checks/test_frame.rs"]
mod test_frame;

const MOST_CHANGES: usize = 8;
const DAMAGED_INPUTS: u32 = 2_000;

fn stored_inputs(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let files = fs::read_dir(&folder).expect("the folder of stored inputs");
    let mut paths: Vec<_> = files.map(|file| file.expect("a stored input").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a stored input")).collect()
}

/// Some bytes of a stored input are others, and its end may be missing.
fn damaged(inputs: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<Index>(), any::<u8>()), 0..MOST_CHANGES);
    (select(inputs), changes, any::<Index>(), any::<bool>()).prop_map(
        |(mut input, changes, end, is_cut)| {
            for (place, byte) in changes {
                if !input.is_empty() {
                    let at = place.index(input.len());
                    input[at] = byte;
                }
            }
            if is_cut {
                input.truncate(end.index(input.len() + 1));
            }
            input
        },
    )
}

fn holds_for_stored_and_damaged(name: &str, holds: fn(&[u8])) {
    let inputs = stored_inputs(name);
    assert!(!inputs.is_empty(), "fuzz/seeds/{name}");
    holds(&[]);
    for input in &inputs {
        holds(input);
    }
    let config = Config { cases: DAMAGED_INPUTS, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&damaged(inputs), |input| {
            holds(&input);
            Ok(())
        })
        .unwrap();
}

#[test]
fn books_holds() {
    holds_for_stored_and_damaged("books", books::holds);
}

#[test]
fn echo_frame_holds() {
    holds_for_stored_and_damaged("echo_frame", echo_frame::holds);
}

#[test]
fn http_reply_holds() {
    holds_for_stored_and_damaged("http_reply", http_reply::holds);
}

#[test]
fn reply_line_holds() {
    holds_for_stored_and_damaged("reply_line", reply_line::holds);
}

#[test]
fn request_line_holds() {
    holds_for_stored_and_damaged("request_line", request_line::holds);
}

#[test]
fn test_frame_holds() {
    holds_for_stored_and_damaged("test_frame", test_frame::holds);
}
