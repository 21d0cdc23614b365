//! What it costs to evict a pod, in the choice of nodes to remove (Karpenter: EvictionCost).

/// Annotation of a pod that says what its disruption costs (Karpenter 1.15). It takes precedence over
/// [`POD_DELETION_COST`], which also tells ReplicaSets which of their pods to delete.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";

/// Annotation of a pod that says what its deletion costs (Kubernetes: pod deletion cost).
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Eviction costs are counted in parts of 2^27.
pub const UNIT: i128 = 1 << 27;

/// The cost that a pod states by its annotations, which `annotation` returns by key: the first one that is a
/// number, or 0.
pub fn stated_cost<'a>(annotation: impl Fn(&'static str) -> Option<&'a str>) -> i32 {
    let stated = |key: &&'static str| annotation(key).and_then(|cost| cost.parse().ok());
    [DISRUPTION_COST, POD_DELETION_COST].iter().find_map(stated).unwrap_or(0)
}

/// The eviction cost of a pod with this stated cost and priority, in parts of 2^27: 1, and more for a high cost or
/// priority, between −10 and 10.
#[must_use]
pub fn eviction_cost(stated: i32, priority: i32) -> i128 {
    // priority / 2^25 is priority × 4 / 2^27.
    let cost = UNIT + i128::from(stated) + 4 * i128::from(priority);
    cost.clamp(-10 * UNIT, 10 * UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disruption_cost_is_read_before_the_deletion_cost_and_what_is_no_number_is_ignored() {
        let stated = |disruption: Option<&'static str>, deletion: Option<&'static str>| {
            stated_cost(|key| if key == DISRUPTION_COST { disruption } else { deletion })
        };
        assert_eq!(stated(Some("7"), Some("9")), 7);
        assert_eq!(stated(None, Some("-9")), -9);
        assert_eq!(stated(Some("much"), Some("9")), 9);
        assert_eq!(stated(Some("2147483648"), None), 0, "beyond 32 bits");
        assert_eq!(stated(None, None), 0);
    }

    #[test]
    fn a_pod_costs_at_most_as_much_as_ten() {
        // 1 + 2^26 / 2^27 = 1.5, and 1 + 2^25 / 2^25 = 2.
        assert_eq!((eviction_cost(0, 0), eviction_cost(1 << 26, 0)), (UNIT, UNIT * 3 / 2));
        assert_eq!(eviction_cost(0, 1 << 25), 2 * UNIT);
        assert_eq!((eviction_cost(0, i32::MAX), eviction_cost(0, i32::MIN)), (10 * UNIT, -10 * UNIT));
    }
}
