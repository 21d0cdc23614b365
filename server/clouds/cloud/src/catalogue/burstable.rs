//! Burstable instance types of EC2: baselines, and prices of surplus credits.
//!
//! Source: "Key concepts for burstable performance instances" of the EC2 user guide, and the price
//! of CPU credits in unlimited mode for Linux.

use model::{Burstable, MicroUsd};

use super::instance_type_info::family_and_size;

/// Surplus credits of t2, t3 and t3a, per vCPU and hour.
const CREDIT_PRICE: MicroUsd = MicroUsd(50_000);
/// Surplus credits of t4g, per vCPU and hour.
const CREDIT_PRICE_OF_T4G: MicroUsd = MicroUsd(40_000);

/// The baseline and credit price of type `name` with `vcpu_milli` millicores; `None` when it is not
/// burstable.
pub(super) fn burstable(name: &str, vcpu_milli: i64) -> Option<Burstable> {
    let (family, size) = family_and_size(name);
    let credit_price = match family {
        "t2" | "t3" | "t3a" => CREDIT_PRICE,
        "t4g" => CREDIT_PRICE_OF_T4G,
        _ => return None,
    };
    // Per vCPU, in thousandths.
    let per_mille = match (family, size) {
        (_, "nano") => 50,
        (_, "micro") => 100,
        (_, "small" | "medium") => 200,
        (_, "large") => 300,
        ("t2", "xlarge") => 225,
        ("t2", "2xlarge") => 170,
        (_, "xlarge" | "2xlarge") => 400,
        _ => return None,
    };
    Some(Burstable { baseline: vcpu_milli * per_mille / 1000, credit_price })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, vcpu: i64) -> Option<(i64, i64)> {
        burstable(name, vcpu * 1000).map(|burstable| (burstable.baseline, burstable.credit_price.0))
    }

    #[test]
    fn a_baseline_is_a_share_of_all_vcpus() {
        // 2 vCPUs × 5 % = 100 millicores.
        assert_eq!(figures("t3.nano", 2), Some((100, 50_000)));
        assert_eq!(figures("t3a.micro", 2), Some((200, 50_000)));
        // 2 × 20 % = 400.
        assert_eq!(figures("t3a.medium", 2), Some((400, 50_000)));
        assert_eq!(figures("t4g.small", 2), Some((400, 40_000)));
        // 2 × 30 % = 600; 4 × 40 % = 1,600; 8 × 40 % = 3,200.
        assert_eq!(figures("t4g.large", 2), Some((600, 40_000)));
        assert_eq!(figures("t3.xlarge", 4), Some((1_600, 50_000)));
        assert_eq!(figures("t3.2xlarge", 8), Some((3_200, 50_000)));
    }

    #[test]
    fn t2_has_lower_baselines_in_its_large_sizes() {
        // 4 × 22.5 % = 900; 8 × 17 % = 1,360.
        assert_eq!(figures("t2.xlarge", 4), Some((900, 50_000)));
        assert_eq!(figures("t2.2xlarge", 8), Some((1_360, 50_000)));
        // One vCPU each: 50, 100, 200.
        assert_eq!(figures("t2.nano", 1), Some((50, 50_000)));
        assert_eq!(figures("t2.micro", 1), Some((100, 50_000)));
        assert_eq!(figures("t2.small", 1), Some((200, 50_000)));
    }

    #[test]
    fn other_families_are_not_burstable() {
        for name in ["m7g.large", "c6a.medium", "trn1.2xlarge", "t1.micro"] {
            assert_eq!(figures(name, 2), None, "{name}");
        }
    }
}
