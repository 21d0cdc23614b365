//! EC2NodeClass (`karpenter.k8s.aws/v1`).

mod devices;
mod kubelet;
mod selectors;
mod status;

use super::definition::{Column, Definition, READY};
use super::part::{Part, boolean, integer, map, object, one_of, text};

/// The CustomResourceDefinition of EC2NodeClass.
pub(super) fn definition() -> Definition {
    Definition {
        kind: "EC2NodeClass",
        group: "karpenter.k8s.aws",
        version: "v1",
        short_names: &["ec2nc", "ec2ncs"],
        columns: vec![READY, Column::AGE, Column::text("Role", ".spec.role").wide()],
        scale: None,
        spec: spec(),
        status: status::schema(),
        spec_required: false,
    }
}

fn spec() -> Part {
    const FAMILIES: [&str; 7] =
        ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"];
    let filled = |what: &str| text().rule("self != ''", format!("{what} is empty; write its name or leave it out"));
    // Alphabetical, in the order of the printed definition.
    object([
        ("amiFamily", one_of(&FAMILIES)),
        ("amiSelectorTerms", selectors::images()),
        ("associatePublicIPAddress", boolean()),
        ("blockDeviceMappings", devices::disks()),
        ("capacityReservationSelectorTerms", selectors::reservations()),
        ("connectionTracking", devices::connection_tracking()),
        ("context", text()),
        ("cpuOptions", object([("nestedVirtualization", one_of(&["enabled", "disabled"]))])),
        ("detailedMonitoring", boolean()),
        ("instanceProfile", filled("instanceProfile")),
        ("instanceStorePolicy", one_of(&["RAID0"])),
        ("ipPrefixCount", integer("int32").at_least(0)),
        ("kubelet", kubelet::schema()),
        ("metadataOptions", devices::metadata_options()),
        ("networkInterfaces", devices::network_interfaces()),
        ("placementGroupSelector", selectors::placement_group()),
        ("role", filled("role")),
        ("securityGroupSelectorTerms", selectors::security_groups()),
        ("subnetSelectorTerms", selectors::subnets()),
        ("tags", tags()),
        ("userData", text()),
    ])
    .required(&["amiSelectorTerms", "securityGroupSelectorTerms", "subnetSelectorTerms"])
    .rule("has(self.role) != has(self.instanceProfile)", "exactly one of role and instanceProfile is needed")
    .rule(
        "!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.find('^[^@]+') == self.amiFamily.lowerAscii())",
        "amiFamily and the alias in amiSelectorTerms name different families; beside an alias amiFamily is its family or Custom",
    )
    .rule(
        "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
        "amiFamily is needed when amiSelectorTerms has no alias",
    )
}

/// Tags of all created resources; users cannot set the tags of the system.
fn tags() -> Part {
    const OWN: [&str; 4] =
        ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];
    let mut tags = map(text()).rule("self.all(k, k != '')", "a tag needs a key");
    for own in OWN {
        tags =
            tags.rule(format!("!('{own}' in self)"), format!("the tag {own} is set by the system itself; remove it"));
    }
    tags.rule(
        "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
        "tags that begin with kubernetes.io/cluster are set by the system itself; remove them",
    )
}
