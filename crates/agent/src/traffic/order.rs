//! The order of arrivals as JSON: RFC 4737, and RFC 5236 where the sink examines early frames too.

use serde_json::{Value, json};
use virtoll_wire::reordering::{Counts, Reordering, THRESHOLD_FRAMES};

/// Integers alone; what the sink does not measure is null.
pub fn to_json(order: &Reordering) -> Value {
    let found = &order.out_of_order;
    let (late_sum, late_max) = found.late_ns();
    let (forgotten, forgotten_degrees) = found.forgotten();
    json!({
        "extent_frames": counts(found.extents(), forgotten),
        "n_reordering": counts(found.degrees(), forgotten_degrees),
        "late_time_ns": {"sum": late_sum, "maximum": late_max},
        "displacement": order.densities.as_ref().map(|told| json!({
            "threshold_frames": THRESHOLD_FRAMES,
            "histogram": told.displacements,
            "beyond_frames": told.beyond_frames,
        })),
        "buffer_occupancy": order.densities.as_ref().map(|told| json!({
            "threshold_frames": THRESHOLD_FRAMES,
            "histogram": told.occupancies,
            "beyond_frames": told.given_up_frames,
        })),
    })
}

fn counts(counts: &Counts, unknown_frames: u64) -> Value {
    json!({
        "count": counts.count(),
        "sum": counts.sum(),
        "maximum": counts.maximum(),
        "histogram": counts.filled(),
        "unknown_frames": unknown_frames,
    })
}
