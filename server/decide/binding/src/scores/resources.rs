//! NodeResourcesFit (`LeastAllocated`) and NodeResourcesBalancedAllocation, over CPU and memory with
//! equal weights.

use super::MAX;

/// CPU in millicores and memory in bytes.
pub(crate) type CpuAndMemory = [i64; 2];

/// What a pod without requests counts as in `LeastAllocated`: 100 millicores and 200 MiB
/// (`scheduler/util/pod_resources.go`). kube-scheduler applies them to each container; the planning
/// input has the sums of pods.
pub(crate) const DEFAULT_REQUESTS: CpuAndMemory = [100, 200 << 20];

/// The share of `allocatable` that is free once `requested` is taken, on average of CPU and memory.
/// `requested` includes the pod and [`DEFAULT_REQUESTS`].
pub(crate) fn least_allocated(requested: CpuAndMemory, allocatable: CpuAndMemory) -> i64 {
    let (mut sum, mut weights) = (0, 0);
    for (requested, allocatable) in requested.into_iter().zip(allocatable).filter(|(_, all)| *all > 0) {
        let free = (allocatable - requested).max(0);
        // Exact in i64 up to 90 petabytes; a division in i128 takes several times as long.
        sum += match free.checked_mul(MAX) {
            Some(share) => share / allocatable,
            None => i64::try_from(i128::from(free) * i128::from(MAX) / i128::from(allocatable)).unwrap_or(0),
        };
        weights += 1;
    }
    if weights == 0 { 0 } else { sum / weights }
}

/// How much the pod improves the balance of CPU and memory: 75 if not at all, 50 to 100. `before`
/// and `after` are the requests without and with the pod. (Before v1.36 it was [`balance`] of
/// `after`.)
pub(crate) fn balanced_allocation(before: CpuAndMemory, after: CpuAndMemory, allocatable: CpuAndMemory) -> i64 {
    MAX / 2 + (MAX / 2 + balance(after, allocatable) - balance(before, allocatable)) / 2
}

/// 100 if CPU and memory are used in equal shares, 50 if one of them is full and the other unused.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "kube-scheduler computes with doubles; amounts stay below 2^53"
)]
fn balance(requested: CpuAndMemory, allocatable: CpuAndMemory) -> i64 {
    let share = |at: usize| (requested[at] as f64 / allocatable[at] as f64).min(1.0);
    let deviation = if allocatable.contains(&0) { 0.0 } else { ((share(0) - share(1)) / 2.0).abs() };
    ((1.0 - deviation) * MAX as f64) as i64
}
