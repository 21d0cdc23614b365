//! EBS volume limits of instance types.
//!
//! AWS documents the limits under "Amazon EBS volume limits for Amazon EC2 instances"; the EBS CSI
//! driver reports what remains after the root volume and the network interfaces. Exact values are
//! published for running instances only; this rule stays at or below them, so that a plan never
//! relies on a missing slot.

use super::instance_type_info::{Hypervisor, InstanceTypeInfo, category_and_generation, family_and_size};

/// Resource name of the EBS CSI driver's limit.
pub(super) const EBS_DRIVER_LIMIT: &str = "attachable-volumes-ebs.csi.aws.com";

/// Slots of a Xen instance, beside the root volume.
const XEN_SLOTS: i64 = 39;
/// Slots shared by volumes, interfaces and local disks on most Nitro instances, minus the first
/// interface, the root volume, and the spare interface that the VPC CNI attaches at start.
const SHARED_SLOTS: i64 = 28 - 3;
/// The same with local disks or accelerators, which take up to eight slots.
const SHARED_SLOTS_WITH_DEVICES: i64 = SHARED_SLOTS - 8;
/// Instance types with more devices, and the slots left beside interfaces.
const FEW_SLOTS: [(&str, i64); 8] = [
    ("d3.4xlarge", 15),
    ("d3.8xlarge", 3),
    ("d3en.6xlarge", 15),
    ("d3en.8xlarge", 11),
    ("d3en.12xlarge", 3),
    ("g5.48xlarge", 9),
    ("inf1.24xlarge", 11),
    ("p3dn.24xlarge", 17),
];
/// Families with dedicated volume slots, besides the eighth generation of general families.
const DEDICATED_SLOT_FAMILIES: [&str; 22] = [
    "c7a", "c7i", "c7i-flex", "m7a", "m7i", "m7i-flex", "r7a", "r7i", "r7iz", "i7i", "i7ie", "f2", "g6", "g6e", "g6f",
    "gr6", "gr6f", "g7e", "p5", "p5e", "p5en", "u7i-12tb",
];

/// Maximum volumes of pods on an instance; at least one.
pub(super) fn ebs_volumes(name: &str, info: &InstanceTypeInfo) -> i64 {
    let (family, size) = family_and_size(name);
    if info.hypervisor == Hypervisor::Xen {
        return XEN_SLOTS - 1;
    }
    if dedicated(family) {
        return dedicated_limit(size) - 1;
    }
    if let Some((_, slots)) = FEW_SLOTS.iter().find(|(full, _)| *full == name) {
        return (slots - 2).max(1);
    }
    let has_devices = info.nvme_gb.is_some() || info.gpu.is_some() || info.accelerator.is_some();
    if has_devices { SHARED_SLOTS_WITH_DEVICES } else { SHARED_SLOTS }
}

fn dedicated(family: &str) -> bool {
    let eighth = |(category, generation)| generation == "8" && ["c", "m", "r", "i", "x"].contains(&category);
    DEDICATED_SLOT_FAMILIES.contains(&family) || category_and_generation(family).is_some_and(eighth)
}

/// The minimum over all families of the limit for a size.
fn dedicated_limit(size: &str) -> i64 {
    match size {
        _ if size.starts_with("metal") => 39,
        "16xlarge" | "18xlarge" => 48,
        "24xlarge" | "32xlarge" | "48xlarge" | "96xlarge" | "112xlarge" | "224xlarge" => 64,
        _ => 32,
    }
}
