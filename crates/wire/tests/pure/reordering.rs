//! Reordering against the definitions of RFC 4737 and the algorithms of RFC 5236 written down plainly, on their own
//! examples and on paths that lose, duplicate and reorder at random.

use std::collections::BTreeMap;

use proptest::prelude::*;
use virtoll_wire::reordering::{Reordering, THRESHOLD_FRAMES};
use virtoll_wire::sequence_accounting::SourceBook;

const CAPACITY: u64 = 5_000;

/// What the sink tells of arrivals with these numbers, 10 ns apart.
fn reordering_of(numbers: &[u64]) -> (u64, Reordering) {
    let mut book = SourceBook::new(CAPACITY);
    for (time, number) in (0..).zip(numbers) {
        assert!(book.record(*number, None, 1_000 + time * 10));
    }
    let counts = book.arrivals();
    (counts.reordered_frames, counts.reordering)
}

fn first_arrivals(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut first: Vec<(u64, u64)> = Vec::new();
    for (time, number) in (0..).zip(numbers) {
        if !first.iter().any(|(_, earlier)| earlier == number) {
            first.push((time, *number));
        }
    }
    first
}

/// Extent, late time and degree of each reordered frame, as RFC 4737 defines them: over all earlier arrivals.
fn definitions(numbers: &[u64]) -> Vec<(u64, u64, u64)> {
    let arrived = first_arrivals(numbers);
    let mut found = Vec::new();
    for (at, (time, number)) in arrived.iter().enumerate() {
        let Some(earliest) = arrived[..at].iter().position(|(_, other)| other > number) else {
            continue;
        };
        let degree = arrived[..at].iter().rev().take_while(|(_, other)| other > number).count();
        found.push(((at - earliest) as u64, (time - arrived[earliest].0) * 10, degree as u64));
    }
    found
}

fn histogram<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Vec<(T, u64)> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// RFC 5236's algorithm for RD, word by word, with sets that grow as they like. `threshold` is DT.
fn reorder_density(numbers: &[u64], threshold: usize) -> Vec<(i64, u64)> {
    let arrivals: Vec<u64> =
        first_arrivals(numbers).into_iter().map(|(_, number)| number).collect();
    let mut window: Vec<u64> = arrivals.iter().take(threshold + 1).copied().collect();
    let mut coming = arrivals.iter().skip(threshold + 1).copied();
    let (mut buffer, mut index, mut displacements) = (Vec::new(), 0_u64, Vec::new());
    while !window.is_empty() {
        if !window.contains(&index) && !buffer.contains(&index) {
            let least = *window.iter().chain(&buffer).min().unwrap();
            index = if index < least { least } else { index + 1 };
            continue;
        }
        let number = window.remove(0);
        let displacement = index as i64 - number as i64;
        if displacement.unsigned_abs() as usize <= threshold {
            displacements.push(displacement);
            buffer.retain(|other| *other != index);
            if displacement < 0 {
                buffer.push(number);
            }
            index += 1;
        }
        window.extend(coming.find(|next| *next >= index));
    }
    histogram(displacements.into_iter())
}

/// RFC 5236's algorithm for RBD with a buffer of its own. `threshold` is BT.
fn buffer_occupancy(numbers: &[u64], threshold: usize) -> Vec<(u64, u64)> {
    let (mut buffer, mut expected, mut occupancies) = (Vec::new(), 0, Vec::new());
    for (_, number) in first_arrivals(numbers) {
        if number < expected {
            continue;
        }
        buffer.push(number);
        if buffer.len() > threshold {
            expected = *buffer.iter().min().unwrap();
        }
        while buffer.contains(&expected) {
            buffer.retain(|other| *other != expected);
            expected += 1;
        }
        occupancies.push(buffer.len() as u64);
    }
    histogram(occupancies.into_iter())
}

fn check(numbers: &[u64]) -> Result<(), TestCaseError> {
    let (reordered, reported) = reordering_of(numbers);
    let wanted = definitions(numbers);
    let found = &reported.out_of_order;
    prop_assert_eq!(reordered, wanted.len() as u64);
    let (unknown, unknown_degrees) = found.forgotten();
    prop_assert_eq!(found.extents().count() + unknown, reordered);
    prop_assert_eq!(found.degrees().count() + unknown_degrees, reordered);
    if unknown == 0 {
        prop_assert_eq!(found.extents().sum(), wanted.iter().map(|one| one.0).sum::<u64>());
        prop_assert_eq!(
            found.extents().maximum(),
            wanted.iter().map(|one| one.0).max().unwrap_or(0)
        );
        let exact =
            |all: Vec<(u64, u64)>| all.into_iter().filter(|one| one.0 < 64).collect::<Vec<_>>();
        prop_assert_eq!(
            exact(found.extents().filled()),
            exact(histogram(wanted.iter().map(|one| one.0)))
        );
        let late = wanted.iter().map(|one| one.1);
        prop_assert_eq!(found.late_ns(), (late.clone().sum(), late.max().unwrap_or(0)));
    }
    if unknown_degrees == 0 {
        let degrees = histogram(wanted.iter().map(|one| one.2));
        prop_assert_eq!(found.degrees().sum(), wanted.iter().map(|one| one.2).sum::<u64>());
        prop_assert!(degrees.iter().any(|one| one.0 >= 64) || found.degrees().filled() == degrees);
    }
    if numbers.is_empty() {
        prop_assert!(reported.densities.is_none(), "of nothing there is no density");
        return Ok(());
    }
    let Some(densities) = &reported.densities else {
        return Err(TestCaseError::fail("no densities"));
    };
    prop_assert_eq!(&densities.displacements, &reorder_density(numbers, THRESHOLD_FRAMES));
    prop_assert_eq!(&densities.occupancies, &buffer_occupancy(numbers, THRESHOLD_FRAMES));
    let arrived = first_arrivals(numbers).len() as u64;
    let counted = densities.displacements.iter().map(|one| one.1).sum::<u64>();
    prop_assert_eq!(counted + densities.beyond_frames, arrived);
    let counted = densities.occupancies.iter().map(|one| one.1).sum::<u64>();
    prop_assert_eq!(counted + densities.given_up_frames, arrived);
    Ok(())
}

/// A path: how likely loss, duplication and delay are (in 64ths), and how far a frame is put off at most.
fn path() -> impl Strategy<Value = Vec<u64>> {
    let shape = (0_u8..30, 0_u8..8, 0_u8..40, 1_u64..200, 0_u64..300, 0_usize..2_000);
    shape.prop_flat_map(|(loss, copies, delays, furthest, first, frames)| {
        let fate = (0_u8..64, 0_u8..64, 0_u8..64, 0..furthest);
        prop::collection::vec(fate, frames).prop_map(move |fates| {
            let mut arrivals = Vec::new();
            for (number, (lost, copied, delayed, delay)) in (first..).zip(&fates) {
                if *lost < loss {
                    continue;
                }
                let late = if *delayed < delays { *delay } else { 0 };
                arrivals.push((number + late, number));
                if *copied < copies {
                    arrivals.push((number + delay, number));
                }
            }
            arrivals.sort_by_key(|(time, _)| *time);
            arrivals.into_iter().map(|(_, number)| number).collect()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_path_that_loses_duplicates_and_reorders(numbers in path()) {
        check(&numbers)?;
    }

    #[test]
    fn any_permutation(numbers in Just((0..300).collect::<Vec<u64>>()).prop_shuffle()) {
        check(&numbers)?;
    }

    #[test]
    fn any_numbers_at_all(numbers in prop::collection::vec(0..CAPACITY, 0..600)) {
        check(&numbers)?;
    }
}

/// The examples count from 1.
fn counted_from_one(numbers: &[u64]) -> Vec<u64> {
    numbers.iter().map(|number| number - 1).collect()
}

#[test]
fn the_examples_of_rfc_4737() {
    // Section 7: packet 4 alone, packets 5 and 6, and packets 4 to 6 together; extents, then degrees.
    let examples: [(&[u64], &[u64], &[u64]); 3] = [
        (&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10], &[4], &[4]),
        (&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10], &[1, 2], &[1, 0]),
        (&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11], &[4, 5, 6], &[4, 0, 0]),
    ];
    for (numbers, extents, degrees) in examples {
        let numbers = counted_from_one(numbers);
        let (reordered, reported) = reordering_of(&numbers);
        assert_eq!(reordered, extents.len() as u64);
        assert_eq!(reported.out_of_order.extents().filled(), histogram(extents.iter().copied()));
        assert_eq!(reported.out_of_order.degrees().filled(), histogram(degrees.iter().copied()));
        check(&numbers).unwrap();
    }
}

#[test]
fn the_examples_of_rfc_5236() {
    // Packet 3 comes two places late: 4 and 5 are one place early, and wait in the buffer.
    let (_, found) = reordering_of(&counted_from_one(&[1, 2, 4, 5, 3]));
    let densities = found.densities.unwrap();
    assert_eq!(densities.displacements, [(-1, 2), (0, 2), (2, 1)]);
    assert_eq!(densities.occupancies, [(0, 3), (1, 1), (2, 1)]);
    // Packet 2 is lost and its index skipped, packet 3 comes twice and counts once.
    let (_, found) = reordering_of(&counted_from_one(&[1, 4, 3, 5, 3, 8, 7, 6]));
    assert_eq!(found.densities.unwrap().displacements, [(-2, 1), (-1, 1), (0, 3), (1, 1), (2, 1)]);
}

#[test]
fn large_extents_are_counted_by_octaves() {
    // Number 1 is late, after so many arrivals with larger ones; then as many again without a late one.
    for (extent, end) in [(63, 63), (64, 127), (127, 127), (128, 255), (1_000, 1_023)] {
        let numbers = [vec![0], (2..2 + extent).collect(), vec![1]].concat();
        let (_, found) = reordering_of(&numbers);
        assert_eq!(
            found.out_of_order.extents().filled(),
            [(extent, 1)],
            "no end beyond the maximum"
        );
        let again = 2 + extent;
        let further = [vec![again], (again + 2..again + 2_002).collect(), vec![again + 1]].concat();
        let (_, found) = reordering_of(&[numbers, further].concat());
        assert_eq!(found.out_of_order.extents().filled(), [(end, 1), (2_000, 1)]);
        assert_eq!(found.out_of_order.degrees().filled(), [(end, 1), (2_000, 1)]);
    }
}

#[test]
fn a_number_that_a_window_in_order_is_far_from_is_early() {
    for early in [2, 3, 5, 8].map(|windows| windows * THRESHOLD_FRAMES as u64) {
        // The window is full, and has moved on by as many numbers as it fits into the early one.
        let next = THRESHOLD_FRAMES as u64 + early / THRESHOLD_FRAMES as u64;
        let numbers = [(0..next).collect(), vec![early], (next..early).collect()].concat();
        check(&numbers).unwrap();
    }
}

#[test]
fn loss_alone_is_no_reordering() {
    let numbers: Vec<u64> = (0..CAPACITY).filter(|number| number % 7 != 3).collect();
    let (reordered, found) = reordering_of(&numbers);
    assert_eq!((reordered, found.out_of_order.extents().count()), (0, 0));
    assert_eq!(found.densities.unwrap().displacements, [(0, numbers.len() as u64)]);
}

#[test]
fn what_is_longer_ago_than_is_remembered_is_unknown_and_counted() {
    // 300 numbers skipped one by one, and all of them late: the first 44 gaps are forgotten.
    let mut numbers: Vec<u64> = (0..600).filter(|number| number % 2 == 1).collect();
    numbers.extend((0..600).filter(|number| number % 2 == 0));
    let (reordered, found) = reordering_of(&numbers);
    assert_eq!((reordered, found.out_of_order.forgotten().0), (300, 300 - 256));
    check(&numbers).unwrap();
}

#[test]
fn a_degree_is_unknown_where_the_frame_that_ends_its_run_is_forgotten() {
    // Number 20 skips all below it. Of 17 late frames the first, number 1, is no longer remembered; it ends the runs of
    // larger numbers before 2 and 0.
    let numbers = [vec![20, 1], (3..=18).collect(), vec![2, 0]].concat();
    let (reordered, found) = reordering_of(&numbers);
    assert_eq!((reordered, found.out_of_order.forgotten()), (19, (0, 2)));
    assert_eq!(found.out_of_order.degrees().filled(), [(0, 16), (1, 1)]);
    check(&numbers).unwrap();
}
