//! Labels of instance types, as Karpenter's AWS provider sets them, and the labels that a snapshot
//! leaves undefined.

use model::labels::{ARCH, INSTANCE_TYPE, OS, REGION, WINDOWS_BUILD};
use model::node_class::AmiFamily;
use model::{Operator, Requirement, Requirements, Resources, Text};

use super::columns::{Columns, Row};
use super::instance_type_info::{Hypervisor, InstanceTypeInfo, category_and_generation, family_and_size};
use super::snapshot::{Snapshot, TypeEntry};

pub(super) const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
pub(super) const FAMILY: &str = "karpenter.k8s.aws/instance-family";
pub(super) const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
pub(super) const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
const CPU_COUNT: &str = "karpenter.k8s.aws/instance-cpu";
const CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
const CLOCK_SPEED: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
const MEMORY_MIB: &str = "karpenter.k8s.aws/instance-memory";
const NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
const EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
const SIZE: &str = "karpenter.k8s.aws/instance-size";
const FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
const LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
const GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
const GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
const ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
const ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
const ENCRYPTION_IN_TRANSIT: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
const NITRO_SANDBOX: &str = "karpenter.k8s.aws/nitro-sandbox";
const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
const PLACEMENT_GROUP: &str = "karpenter.k8s.aws/placement-group-id";
const PLACEMENT_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

/// Well-known keys that a snapshot may or may not define.
const WELL_KNOWN: [&str; 24] = [
    HYPERVISOR,
    FAMILY,
    GPU_COUNT,
    ACCELERATOR_COUNT,
    CPU_COUNT,
    CPU_MANUFACTURER,
    CLOCK_SPEED,
    MEMORY_MIB,
    NETWORK_BANDWIDTH,
    EBS_BANDWIDTH,
    CATEGORY,
    GENERATION,
    SIZE,
    FLEX,
    LOCAL_NVME,
    GPU_NAME,
    GPU_MANUFACTURER,
    GPU_MEMORY,
    ACCELERATOR_NAME,
    ACCELERATOR_MANUFACTURER,
    ENCRYPTION_IN_TRANSIT,
    NITRO_SANDBOX,
    PLACEMENT_GROUP,
    PLACEMENT_PARTITION,
];

/// Well-known label keys that `snapshot` does not define, sorted. Nodes may have them; a plan that
/// relies on one is a guess, which gets a note.
#[must_use]
pub fn unknown_label_keys(snapshot: &Snapshot) -> Vec<&'static str> {
    let mut unknown: Vec<&'static str> = WELL_KNOWN.into_iter().filter(|key| !snapshot.columns.contains(key)).collect();
    unknown.sort_unstable();
    unknown
}

/// Whether an instance type is exotic, launched only when no other fits: bare metal, or with
/// accelerators.
pub(super) fn is_exotic(name: &str, capacity: &Resources) -> bool {
    const DEVICES: [&str; 5] =
        ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"];
    family_and_size(name).1.contains("metal") || DEVICES.iter().any(|device| capacity.get(device) > 0)
}

/// Labels that EC2's data determine for every type, by being there or not.
const OF_DEVICES: [&str; 10] = [
    CLOCK_SPEED,
    NETWORK_BANDWIDTH,
    LOCAL_NVME,
    GPU_NAME,
    GPU_MANUFACTURER,
    GPU_COUNT,
    GPU_MEMORY,
    ACCELERATOR_NAME,
    ACCELERATOR_MANUFACTURER,
    ACCELERATOR_COUNT,
];

/// The columns of EC2's types. A region without, say, accelerators is known to have none.
pub(super) fn ec2_columns() -> Columns {
    let mut columns = Columns::default();
    OF_DEVICES.into_iter().for_each(|key| columns.declare(key));
    columns
}

/// Labels derived from name and data. Unpublished values have no label.
pub(super) fn labels_of_type(name: &str, info: &InstanceTypeInfo, columns: &mut Columns) -> Row {
    let mut row = Row::default();
    let mut set = |key: &'static str, value: &str| {
        columns.set(&mut row, key, value);
    };
    name_labels(name, &mut set);
    machine_labels(info, &mut set);
    device_labels(info, &mut set);
    row
}

fn name_labels(name: &str, set: &mut impl FnMut(&'static str, &str)) {
    let (family, size) = family_and_size(name);
    set(FAMILY, family);
    set(SIZE, size);
    set(FLEX, if family.contains("-flex") { "true" } else { "false" });
    if let Some((category, generation)) = category_and_generation(family) {
        set(CATEGORY, category);
        set(GENERATION, generation);
    }
}

fn machine_labels(info: &InstanceTypeInfo, set: &mut impl FnMut(&'static str, &str)) {
    let hypervisor = match info.hypervisor {
        Hypervisor::Nitro => "nitro",
        Hypervisor::Xen => "xen",
        Hypervisor::Metal => "",
    };
    set(ARCH, info.arch);
    set(HYPERVISOR, hypervisor);
    set(CPU_COUNT, &info.vcpu.to_string());
    set(CPU_MANUFACTURER, &kebab(&info.cpu_manufacturer));
    set(MEMORY_MIB, &info.memory_mib.to_string());
    let numbers = [
        (CLOCK_SPEED, info.mhz),
        (NETWORK_BANDWIDTH, info.mbps),
        (EBS_BANDWIDTH, info.ebs_mbps),
        (LOCAL_NVME, info.nvme_gb),
    ];
    let flags = [(ENCRYPTION_IN_TRANSIT, info.encryption_in_transit), (NITRO_SANDBOX, info.nitro_enclaves)];
    let numbers = numbers.into_iter().filter_map(|(key, value)| Some((key, value?.to_string())));
    let flags = flags.into_iter().filter_map(|(key, value)| Some((key, value?.to_string())));
    for (key, value) in numbers.chain(flags) {
        set(key, &value);
    }
}

fn device_labels(info: &InstanceTypeInfo, set: &mut impl FnMut(&'static str, &str)) {
    if let Some(gpu) = &info.gpu {
        set(GPU_NAME, &kebab(&gpu.name));
        set(GPU_MANUFACTURER, &kebab(&gpu.manufacturer));
        set(GPU_COUNT, &gpu.count.to_string());
        set(GPU_MEMORY, &gpu.memory_mib.to_string());
    }
    if let Some(accelerator) = &info.accelerator {
        set(ACCELERATOR_NAME, &kebab(&accelerator.name));
        set(ACCELERATOR_MANUFACTURER, &kebab(&accelerator.manufacturer));
        set(ACCELERATOR_COUNT, &accelerator.count.to_string());
    }
}

fn kebab(text: &str) -> String {
    text.to_ascii_lowercase().replace(' ', "-")
}

/// Builds the requirements of instance types for one region and image family.
pub(super) struct LabelBuilder<'a> {
    snapshot: &'a Snapshot,
    region: Requirement,
    tenancy: Requirement,
    windows_build: Requirement,
    windows: bool,
}

impl<'a> LabelBuilder<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, region: &str, family: AmiFamily) -> Self {
        let build = family.windows_build();
        Self {
            snapshot,
            region: Requirement::equals(REGION, region),
            tenancy: Requirement::new(TENANCY, Operator::In, [Text::from("default"), Text::from("dedicated")]),
            windows_build: build
                .map_or_else(|| absent(WINDOWS_BUILD), |build| Requirement::equals(WINDOWS_BUILD, build)),
            windows: build.is_some(),
        }
    }

    /// Labels of a type, its known absences, and labels of region and NodeClass. Windows images
    /// exist for amd64 only: other types have no possible operating system there.
    pub(super) fn requirements(&self, entry: &TypeEntry) -> Requirements {
        let columns = &self.snapshot.columns;
        let arch = columns.value(&entry.labels, ARCH).map_or("amd64", AsRef::as_ref);
        let os = match (self.windows, arch) {
            (true, "amd64") => Requirement::equals(OS, "windows"),
            (true, _) => Requirement::new(OS, Operator::In, []),
            (false, _) => {
                let stated = columns.value(&entry.labels, OS).cloned();
                Requirement::equals(OS, stated.unwrap_or_else(|| Text::from("linux")))
            }
        };
        let own = |requirement: &&Requirement| !matches!(requirement.key().as_ref(), OS | ARCH | INSTANCE_TYPE);
        let name = Requirement::equals(INSTANCE_TYPE, entry.name.clone());
        let added = [os, Requirement::equals(ARCH, arch), name, self.region.clone(), self.windows_build.clone()];
        let tenancy = (!columns.contains(TENANCY)).then(|| self.tenancy.clone());
        columns.requirements(&entry.labels).filter(own).cloned().chain(added).chain(tenancy).collect()
    }
}

fn absent(key: &str) -> Requirement {
    Requirement::new(key, Operator::DoesNotExist, [])
}
