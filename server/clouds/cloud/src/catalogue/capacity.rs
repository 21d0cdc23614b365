//! Capacity of an instance type, and what the kubelet leaves allocatable.
//!
//! The formulas are Karpenter's (AWS provider, instance types): they estimate what the joining node
//! will report.

use model::node_class::{AmiFamily, KubeletSettings, NodeClassSettings};
use model::resources::{ATTACHABLE_VOLUMES_PREFIX, CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, PODS};
use model::{Resources, Text};

use super::attach;
use super::build_notes::BuildNotes;
use super::instance_type_info::InstanceTypeInfo;
use super::region_options::RegionOptions;
use super::snapshot::Hardware;

const MIB: i64 = 1 << 20;
/// Default `maxPods` of the kubelet (Kubernetes).
const DEFAULT_MAX_PODS: i64 = 110;

/// Capacity and allocatable resources.
pub(super) struct Allocatable {
    pub(super) capacity: Resources,
    pub(super) allocatable: Resources,
}

/// Capacity and allocatable resources of `machine`. Kubelet settings always determine the number of
/// pods; they determine the overhead of explicit types only where the catalogue states none.
pub(super) fn allocatable(
    machine: &Hardware,
    name: &str,
    region_options: &RegionOptions<'_>,
    settings: &NodeClassSettings,
    tally: &mut BuildNotes,
) -> Allocatable {
    match machine {
        Hardware::Ec2(info) => {
            let capacity = ec2_capacity(info, region_options, settings);
            let overhead = overhead(&capacity, ec2_memory_pods(info, &capacity, settings), &settings.kubelet);
            let mut allocatable = split_allocatable(capacity, &overhead);
            // Set after the split, which removes attach limits from the capacity.
            allocatable.allocatable.set(attach::EBS_DRIVER_LIMIT, attach::ebs_volumes(name, info));
            allocatable
        }
        Hardware::Explicit { capacity, overhead: given } => {
            let capacity = with_defaults(capacity.clone(), settings);
            match given {
                Some(overhead) => {
                    if has_reservations(&settings.kubelet) {
                        tally.notes.insert(IGNORED_RESERVATIONS.to_owned());
                    }
                    split_allocatable(capacity, overhead)
                }
                None => {
                    let overhead = overhead(&capacity, capacity.get(PODS), &settings.kubelet);
                    split_allocatable(capacity, &overhead)
                }
            }
        }
    }
}

const IGNORED_RESERVATIONS: &str = "systemReserved, kubeReserved and evictionHard of the NodeClass have no effect on instance \
                                    types for which the catalogue states an overhead";

fn has_reservations(kubelet: &KubeletSettings) -> bool {
    !(kubelet.system_reserved.is_empty() && kubelet.kube_reserved.is_empty() && kubelet.eviction_hard.is_empty())
}

/// Capacity of an EC2 instance type.
pub(super) fn ec2_capacity(
    info: &InstanceTypeInfo,
    region_options: &RegionOptions<'_>,
    settings: &NodeClassSettings,
) -> Resources {
    let mut capacity = Resources::from_iter([
        (CPU, info.vcpu * 1000),
        (MEMORY, visible_memory(info, region_options.memory_overhead_per_mille) * MIB),
        (EPHEMERAL_STORAGE, ephemeral_storage(info.nvme_gb, settings)),
        (PODS, ec2_pods(info, region_options.reserved_enis, settings)),
    ]);
    // Zero amounts are omitted, so that a missing device is absent from the capacity.
    let mut set = |name: &'static str, amount: i64| {
        if amount > 0 {
            capacity.set(name, amount);
        }
    };
    if let Some(gpu) = &info.gpu {
        match gpu.manufacturer.as_ref() {
            "NVIDIA" => set("nvidia.com/gpu", gpu.count),
            "AMD" => set("amd.com/gpu", gpu.count),
            "Habana" => set("habana.ai/gaudi", gpu.count),
            _ => {}
        }
    }
    if let Some(neuron) = info.accelerator.as_ref().filter(|accelerator| accelerator.cores > 0) {
        set("aws.amazon.com/neuron", neuron.count);
        set("aws.amazon.com/neuroncore", neuron.count * neuron.cores);
    }
    set("vpc.amazonaws.com/pod-eni", info.branch_enis);
    let efa_only = settings.network_interfaces.iter().filter(|interface| interface.efa_only).count();
    let efa = if settings.network_interfaces.is_empty() { info.efa } else { i64::try_from(efa_only).unwrap_or(0) };
    set("vpc.amazonaws.com/efa", efa);
    if is_windows(settings.ami_family) {
        set("vpc.amazonaws.com/PrivateIPv4Address", info.ipv4_per_eni - 1);
    }
    capacity
}

/// Memory visible to the guest, in MiB: arm64 instances reserve 64 MiB for firmware, all reserve a
/// share for the hypervisor, rounded up.
fn visible_memory(info: &InstanceTypeInfo, overhead_per_mille: i64) -> i64 {
    let memory = info.memory_mib - if info.arch == "arm64" { 64 } else { 0 };
    memory - (memory * overhead_per_mille + 999) / 1000
}

fn ephemeral_storage(nvme_gb: Option<i64>, settings: &NodeClassSettings) -> i64 {
    match nvme_gb.filter(|_| settings.instance_store_raid0) {
        Some(gigabytes) => gigabytes * 1_000_000_000,
        None => settings.ephemeral_storage.unwrap_or_else(|| default_disk(settings.ami_family)),
    }
}

/// Default size of the pod disk, in bytes.
fn default_disk(family: AmiFamily) -> i64 {
    (if is_windows(family) { 50 } else { 20 }) << 30
}

fn is_windows(family: AmiFamily) -> bool {
    family.windows_build().is_some()
}

/// Whether kube-reserved memory depends on the pods that the network interfaces allow, regardless
/// of `maxPods`.
fn reserves_by_interfaces(family: AmiFamily) -> bool {
    matches!(family, AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom)
}

fn ec2_pods(info: &InstanceTypeInfo, reserved_enis: i64, settings: &NodeClassSettings) -> i64 {
    let without_addresses = settings.network_interfaces.iter().filter(|i| i.efa_only && i.card == 0).count();
    let reserved = reserved_enis + i64::try_from(without_addresses).unwrap_or(0);
    let by_family = if is_windows(settings.ami_family) { DEFAULT_MAX_PODS } else { info.pods_by_interfaces(reserved) };
    let pods = settings.kubelet.max_pods.unwrap_or(by_family);
    per_core(pods, info.vcpu, settings.ami_family, &settings.kubelet)
}

fn per_core(pods: i64, cores: i64, family: AmiFamily, kubelet: &KubeletSettings) -> i64 {
    match kubelet.pods_per_core {
        Some(each) if each > 0 && family != AmiFamily::Bottlerocket => pods.min(each.saturating_mul(cores)),
        _ => pods,
    }
}

/// Number of pods that the reserved memory is computed from: for families that count by interfaces,
/// independent of `maxPods` and reserved interfaces.
fn ec2_memory_pods(info: &InstanceTypeInfo, capacity: &Resources, settings: &NodeClassSettings) -> i64 {
    if reserves_by_interfaces(settings.ami_family) { info.pods_by_interfaces(0) } else { capacity.get(PODS) }
}

/// An explicit capacity, completed with the defaults of the NodeClass.
fn with_defaults(mut capacity: Resources, settings: &NodeClassSettings) -> Resources {
    let stated = if capacity.contains(PODS) { capacity.get(PODS) } else { DEFAULT_MAX_PODS };
    let pods = settings.kubelet.max_pods.unwrap_or(stated);
    let cores = capacity.get(CPU) / 1000;
    capacity.set(PODS, per_core(pods, cores, settings.ami_family, &settings.kubelet));
    if !capacity.contains(EPHEMERAL_STORAGE) {
        capacity.set(EPHEMERAL_STORAGE, ephemeral_storage(None, settings));
    }
    capacity
}

/// Overhead: kube-reserved, system-reserved and eviction thresholds.
pub(super) fn overhead(capacity: &Resources, memory_pods: i64, kubelet: &KubeletSettings) -> Resources {
    let mut overhead = Resources::from_iter([
        (CPU, reserved_cpu(capacity.get(CPU))),
        (MEMORY, memory_pods.saturating_mul(11).saturating_add(255).saturating_mul(MIB)),
        (EPHEMERAL_STORAGE, 1 << 30),
    ]);
    for (name, amount) in kubelet.kube_reserved.iter() {
        overhead.set(name.clone(), amount);
    }
    overhead.add(&kubelet.system_reserved);
    let threshold = |signal: &str, resource: &str| {
        kubelet.eviction_hard.get(signal).map(|threshold| threshold.bytes_of(capacity.get(resource)))
    };
    let disk = capacity.get(EPHEMERAL_STORAGE);
    overhead.add(&Resources::from_iter([
        (MEMORY, threshold("memory.available", MEMORY).unwrap_or(100 * MIB)),
        (EPHEMERAL_STORAGE, threshold("nodefs.available", EPHEMERAL_STORAGE).unwrap_or(disk.saturating_add(9) / 10)),
    ]));
    overhead
}

/// Millicores reserved by the kubelet: 6% of the first core, 1% of the second, 0.5% of the next
/// two, 0.25% of the rest, each truncated to whole millicores.
fn reserved_cpu(millicores: i64) -> i64 {
    const STEPS: [(i64, i64, i64); 4] = [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];
    let kept = |(from, to, share): &(i64, i64, i64)| {
        let part = i128::from((millicores.min(*to) - from).max(0));
        i64::try_from(part * i128::from(*share) / 10_000).unwrap_or(i64::MAX)
    };
    STEPS.iter().map(kept).sum()
}

/// Splits capacity and allocatable resources. Attach limits are not capacity; huge pages are
/// subtracted from memory.
fn split_allocatable(mut capacity: Resources, overhead: &Resources) -> Allocatable {
    let mut allocatable = capacity.clone();
    allocatable.subtract(&overhead.iter().filter(|(name, _)| capacity.contains(name)).map(owned).collect());
    let limits: Vec<Text> = capacity
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with(ATTACHABLE_VOLUMES_PREFIX))
        .cloned()
        .collect();
    for limit in limits {
        capacity.remove(&limit);
    }
    reserve_hugepages(&mut allocatable, &capacity);
    Allocatable { capacity, allocatable }
}

fn owned((name, amount): (&Text, i64)) -> (Text, i64) {
    (name.clone(), amount)
}

/// Subtracts the bytes of all huge pages of `pages` from allocatable memory, down to zero
/// (Karpenter: allocatable).
pub(super) fn reserve_hugepages(allocatable: &mut Resources, pages: &Resources) {
    let bytes = |(name, amount): (&Text, i64)| if name.starts_with(HUGEPAGES_PREFIX) { amount } else { 0 };
    let total: i64 = pages.iter().map(bytes).fold(0, i64::saturating_add);
    if total > 0 {
        allocatable.set(MEMORY, allocatable.get(MEMORY).saturating_sub(total).max(0));
    }
}
