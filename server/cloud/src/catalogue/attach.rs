//! How many EBS volumes pods may have on a machine.
//!
//! AWS documents the limits under "Amazon EBS volume limits for Amazon EC2 instances"; the EBS CSI driver reports to Kubernetes
//! what is left of them when the root volume and the network interfaces are attached. The figure by type is published for
//! running machines; this rule stays at or below it, so that a plan never counts on a slot that is not there.

use super::figures::{Hypervisor, InstanceTypeInfo, category_and_generation, family_and_size};

/// The resource that carries the limit of the EBS CSI driver.
pub(super) const EBS_DRIVER_LIMIT: &str = "attachable-volumes-ebs.csi.aws.com";

/// Slots of a machine without Nitro, beside the root volume.
const XEN: i64 = 39;
/// Slots that volumes, interfaces and local disks share on most Nitro machines, less the first interface and the root volume,
/// less the spare interface that the VPC CNI attaches at start.
const SHARED: i64 = 28 - 3;
/// The same on machines with local disks or accelerators: up to eight of them take slots.
const SHARED_WITH_DEVICES: i64 = SHARED - 8;
/// Machines with more devices than that, and the slots that are left beside interfaces.
const FULL: [(&str, i64); 8] = [
    ("d3.4xlarge", 15),
    ("d3.8xlarge", 3),
    ("d3en.6xlarge", 15),
    ("d3en.8xlarge", 11),
    ("d3en.12xlarge", 3),
    ("g5.48xlarge", 9),
    ("inf1.24xlarge", 11),
    ("p3dn.24xlarge", 17),
];
/// Families whose volumes have slots of their own, besides the eighth generation of ordinary machines.
const DEDICATED: [&str; 22] = [
    "c7a", "c7i", "c7i-flex", "m7a", "m7i", "m7i-flex", "r7a", "r7i", "r7iz", "i7i", "i7ie", "f2", "g6", "g6e", "g6f",
    "gr6", "gr6f", "g7e", "p5", "p5e", "p5en", "u7i-12tb",
];

/// Volumes that pods may attach to a machine; at least one.
pub(super) fn ebs_volumes(name: &str, figures: &InstanceTypeInfo) -> i64 {
    let (family, size) = family_and_size(name);
    if figures.hypervisor == Hypervisor::Xen {
        return XEN - 1;
    }
    if dedicated(family) {
        return dedicated_limit(size) - 1;
    }
    if let Some((_, slots)) = FULL.iter().find(|(full, _)| *full == name) {
        return (slots - 2).max(1);
    }
    let has_devices = figures.nvme_gb.is_some() || figures.gpu.is_some() || figures.accelerator.is_some();
    if has_devices { SHARED_WITH_DEVICES } else { SHARED }
}

fn dedicated(family: &str) -> bool {
    let eighth = |(category, generation)| generation == "8" && ["c", "m", "r", "i", "x"].contains(&category);
    DEDICATED.contains(&family) || category_and_generation(family).is_some_and(eighth)
}

/// The limit grows with size, and not alike in all families: this is the least of them.
fn dedicated_limit(size: &str) -> i64 {
    match size {
        _ if size.starts_with("metal") => 39,
        "16xlarge" | "18xlarge" => 48,
        "24xlarge" | "32xlarge" | "48xlarge" | "96xlarge" | "112xlarge" | "224xlarge" => 64,
        _ => 32,
    }
}
