//! The order of arrivals in the protocol's words: RFC 4737, and RFC 5236 where the sink examines early frames too.

use virtoll_proto::reply::traffic::{self, LateTime, ReorderDensity, ReorderingCounts};
use virtoll_wire::reordering::{Counts, Reordering, THRESHOLD_FRAMES};

/// The metrics as integers; none for what the sink does not measure.
pub fn reordering(order: &Reordering) -> traffic::Reordering {
    let found = &order.out_of_order;
    let (sum, maximum) = found.late_ns();
    let (forgotten, forgotten_degrees) = found.forgotten();
    let densities = order.densities.as_ref();
    traffic::Reordering {
        extent_frames: counts(found.extents(), forgotten),
        n_reordering: counts(found.degrees(), forgotten_degrees),
        late_time_ns: LateTime { sum, maximum },
        displacement: densities.map(|all| density(&all.displacements, all.beyond_frames)),
        buffer_occupancy: densities.map(|all| density(&all.occupancies, all.given_up_frames)),
    }
}

fn density<T: Clone>(histogram: &[(T, u64)], beyond_frames: u64) -> ReorderDensity<T> {
    ReorderDensity {
        threshold_frames: THRESHOLD_FRAMES,
        histogram: histogram.to_vec(),
        beyond_frames,
    }
}

fn counts(counts: &Counts, unknown_frames: u64) -> ReorderingCounts {
    ReorderingCounts {
        count: counts.count(),
        sum: counts.sum(),
        maximum: counts.maximum(),
        histogram: counts.filled(),
        unknown_frames,
    }
}
