//! Whether a NodeClass can launch an instance type.

use model::labels::{ARCH, OS, WINDOWS_BUILD};
use model::node_class::{AmiFamily, NetworkInterface, NodeClassSettings};
use model::{Operator, Requirement, Requirements};

use super::instance_type_info::family_and_size;
use super::labels::{ACCELERATOR_COUNT, FAMILY, GPU_COUNT, HYPERVISOR};
use super::snapshot::{Hardware, TypeEntry};

/// Requirements of one NodeClass on instance types.
pub(super) struct LaunchCheck<'a> {
    settings: &'a NodeClassSettings,
    /// Requirements of the images, one of which must match; empty permits every type.
    images: Vec<Requirements>,
}

impl<'a> LaunchCheck<'a> {
    pub(super) fn new(settings: &'a NodeClassSettings) -> Self {
        let given = &settings.ami_requirements;
        let images = if given.is_empty() { alias_images(settings.ami_family) } else { given.clone() };
        Self { settings, images }
    }

    /// Whether the type can be launched. Labels missing in a user's catalogue are assumed to match.
    pub(super) fn allows(&self, entry: &TypeEntry, labels: &Requirements) -> bool {
        let family = family_and_size(&entry.name).0;
        let hypervisor = only_value(labels, HYPERVISOR);
        let settings = self.settings;
        let boots = |image: &Requirements| labels.first_incompatible(image, |_| true).is_none();
        (self.images.is_empty() || self.images.iter().any(boots))
            && !(settings.ami_family == AmiFamily::Al2023 && family == "a1")
            && (!settings.connection_tracking || hypervisor.is_none_or(|hypervisor| hypervisor == "nitro"))
            && (!settings.nested_virtualization || nests(&entry.name, labels))
            && (settings.network_interfaces.is_empty()
                || (hypervisor != Some("xen") && takes_interfaces(entry, &settings.network_interfaces)))
    }
}

/// Nested virtualization: AWS offers it on the eighth generation of Intel instances, except bare
/// metal.
fn nests(name: &str, labels: &Requirements) -> bool {
    only_value(labels, FAMILY).is_none_or(|family| {
        ["c8i", "m8i", "r8i"].iter().any(|supported| family.starts_with(supported)) && !name.contains("metal")
    })
}

fn only_value<'l>(labels: &'l Requirements, key: &str) -> Option<&'l str> {
    labels.get(key)?.finite_values()?.first().map(AsRef::as_ref)
}

/// Whether the type has the cards, devices and EFA of the interfaces. Explicit interfaces need
/// enhanced networking, which the snapshot does not record for types before Nitro, so those are
/// excluded.
fn takes_interfaces(entry: &TypeEntry, interfaces: &[NetworkInterface]) -> bool {
    let Hardware::Ec2(info) = &entry.hardware else { return true };
    let efa_only = interfaces.iter().filter(|interface| interface.efa_only).count();
    i64::try_from(efa_only).is_ok_and(|count| count <= info.efa)
        && interfaces.iter().all(|i| i64::from(i.device) < info.interfaces_of_card(i.card))
}

/// Images of a family's alias (Karpenter AWS: AMI variants). `Custom` has no alias.
fn alias_images(family: AmiFamily) -> Vec<Requirements> {
    let standard = |arch| [arch_is(arch), absent(ACCELERATOR_COUNT), absent(GPU_COUNT)].into_iter().collect();
    let nvidia = |arch| [arch_is(arch), exists(GPU_COUNT)].into_iter().collect();
    let neuron = |arch| [arch_is(arch), exists(ACCELERATOR_COUNT)].into_iter().collect();
    let (amd64, arm64) = ("amd64", "arm64");
    match family {
        AmiFamily::Al2 => vec![standard(amd64), standard(arm64), nvidia(amd64), neuron(amd64)],
        AmiFamily::Al2023 | AmiFamily::Bottlerocket => {
            vec![standard(amd64), standard(arm64), nvidia(amd64), nvidia(arm64), neuron(amd64)]
        }
        AmiFamily::Custom => Vec::new(),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            let build = family.windows_build().unwrap_or_default();
            let windows =
                [arch_is(amd64), Requirement::equals(OS, "windows"), Requirement::equals(WINDOWS_BUILD, build)];
            vec![windows.into_iter().collect()]
        }
    }
}

fn arch_is(arch: &str) -> Requirement {
    Requirement::equals(ARCH, arch)
}

fn absent(key: &str) -> Requirement {
    Requirement::new(key, Operator::DoesNotExist, [])
}

fn exists(key: &str) -> Requirement {
    Requirement::new(key, Operator::Exists, [])
}
