//! An instance type of `DescribeInstanceTypes` as the catalogue's data.

use std::collections::BTreeSet;

use aws_sdk_ec2::types::{
    ArchitectureType, EbsOptimizedSupport, EphemeralNvmeSupport, InstanceTypeHypervisor, InstanceTypeInfo as Described,
    NetworkCardInfo, NetworkInfo, NitroEnclavesSupport, ProcessorInfo, UsageClassType,
};
use cloud::catalogue::discovered::DiscoveredType;
use cloud::catalogue::{Hypervisor, InstanceTypeInfo, Snapshot};
use model::{InstanceTypeName, Text};

use super::devices;
use super::left_out::{LeftOut, Reason, at_least, positive, text};

/// The type without zones and spot prices; branch interfaces and bandwidth from `hardware`.
///
/// # Errors
/// Names the type and the field that is missing or contradictory.
pub(super) fn read(described: &Described, hardware: &Snapshot) -> Result<DiscoveredType, LeftOut> {
    let name = described.instance_type().map(|name| name.as_str()).filter(|name| !name.is_empty());
    let Some(name) = name else {
        let item = Text::from("an instance type without a name");
        return Err(LeftOut { item, reason: Reason::Missing("InstanceType") });
    };
    let refuse = |reason| LeftOut { item: Text::from(name), reason };
    let info = read_info(described, hardware.instance_type_info(name)).map_err(refuse)?;
    let usage = described.supported_usage_classes();
    Ok(DiscoveredType {
        name: InstanceTypeName::from(name),
        info,
        on_demand: usage.contains(&UsageClassType::OnDemand),
        spot: usage.contains(&UsageClassType::Spot),
        zones: BTreeSet::new(),
        on_demand_price: None,
        spot_prices: None,
    })
}

/// Removes types that are described more than once: which description holds is not known.
pub(super) fn remove_duplicates(types: &mut Vec<DiscoveredType>, left_out: &mut Vec<LeftOut>) {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<InstanceTypeName> =
        types.iter().map(|found| &found.name).filter(|name| !seen.insert(*name)).cloned().collect();
    types.retain(|found| !twice.contains(&found.name));
    left_out.extend(twice.iter().map(|name| LeftOut { item: name.as_text().clone(), reason: Reason::Duplicate }));
}

fn read_info(described: &Described, known: Option<&InstanceTypeInfo>) -> Result<InstanceTypeInfo, Reason> {
    let processor = described.processor_info().ok_or(Reason::Missing("ProcessorInfo"))?;
    let network = described.network_info().ok_or(Reason::Missing("NetworkInfo"))?;
    let card_enis = default_card_interfaces(network)?;
    Ok(InstanceTypeInfo {
        arch: arch(processor)?,
        cpu_manufacturer: text(processor.manufacturer(), "ProcessorInfo.Manufacturer")?,
        mhz: mhz(processor)?,
        hypervisor: hypervisor(described)?,
        vcpu: positive(described.v_cpu_info().and_then(|info| info.default_v_cpus()), "VCpuInfo.DefaultVCpus")?,
        memory_mib: positive(described.memory_info().and_then(|info| info.size_in_mib()), "MemoryInfo.SizeInMiB")?,
        gpu: devices::gpu(described)?,
        accelerator: devices::accelerator(described)?,
        efa: efa(network)?,
        nvme_gb: nvme_gb(described)?,
        card_enis,
        enis: all_interfaces(network, card_enis)?,
        cards: cards(network)?,
        ipv4_per_eni: positive(network.ipv4_addresses_per_interface(), "NetworkInfo.Ipv4AddressesPerInterface")?,
        branch_enis: known.map_or(0, |known| known.branch_enis),
        mbps: known.map_or_else(|| baseline_mbps(network), |known| known.mbps),
        ebs_mbps: ebs_mbps(described),
        encryption_in_transit: network.encryption_in_transit_supported(),
        nitro_enclaves: nitro_enclaves(described),
    })
}

/// The first architecture that Kubernetes has a name for.
fn arch(processor: &ProcessorInfo) -> Result<&'static str, Reason> {
    const FIELD: &str = "ProcessorInfo.SupportedArchitectures";
    let name = |arch: &ArchitectureType| match arch {
        ArchitectureType::X8664 => Some("amd64"),
        ArchitectureType::Arm64 => Some("arm64"),
        _ => None,
    };
    let listed = processor.supported_architectures();
    let missing = if listed.is_empty() { Reason::Missing(FIELD) } else { Reason::Invalid(FIELD) };
    listed.iter().find_map(name).ok_or(missing)
}

/// EC2 states gigahertz.
fn mhz(processor: &ProcessorInfo) -> Result<Option<i64>, Reason> {
    let Some(ghz) = processor.sustained_clock_speed_in_ghz() else { return Ok(None) };
    thousandfold(ghz).map(Some).ok_or(Reason::Invalid("ProcessorInfo.SustainedClockSpeedInGhz"))
}

/// `value` × 1000, rounded; `None` unless above zero and below a million.
fn thousandfold(value: f64) -> Option<i64> {
    let plausible = value > 0.0 && value < 1e6;
    plausible.then(|| (value * 1000.0).round() as i64)
}

/// EC2 states no hypervisor for bare metal.
fn hypervisor(described: &Described) -> Result<Hypervisor, Reason> {
    match (described.bare_metal(), described.hypervisor()) {
        (Some(true), None) => Ok(Hypervisor::Metal),
        (Some(true), Some(_)) => Err(Reason::Contradicts("Hypervisor", "BareMetal")),
        (_, Some(InstanceTypeHypervisor::Nitro)) => Ok(Hypervisor::Nitro),
        (_, Some(InstanceTypeHypervisor::Xen)) => Ok(Hypervisor::Xen),
        (_, Some(_)) => Err(Reason::Invalid("Hypervisor")),
        (_, None) => Err(Reason::Missing("Hypervisor")),
    }
}

fn nvme_gb(described: &Described) -> Result<Option<i64>, Reason> {
    const SIZE: &str = "InstanceStorageInfo.TotalSizeInGB";
    match described.instance_storage_info() {
        Some(disks) if disks.nvme_support() != Some(&EphemeralNvmeSupport::Unsupported) => {
            positive(disks.total_size_in_gb(), SIZE).map(Some)
        }
        _ => Ok(None),
    }
}

fn efa(network: &NetworkInfo) -> Result<i64, Reason> {
    const FIELD: &str = "NetworkInfo.EfaInfo.MaximumEfaInterfaces";
    let stated = network.efa_info().and_then(|efa| efa.maximum_efa_interfaces());
    match network.efa_supported() {
        Some(true) => positive(stated, FIELD),
        Some(false) if stated.is_some_and(|count| count > 0) => {
            Err(Reason::Contradicts(FIELD, "NetworkInfo.EfaSupported"))
        }
        _ => stated.map_or(Ok(0), |count| at_least(0, Some(count), FIELD)),
    }
}

/// Interfaces of the default network card: pods use no other.
fn default_card_interfaces(network: &NetworkInfo) -> Result<i64, Reason> {
    const DEFAULT: &str = "NetworkInfo.DefaultNetworkCardIndex";
    let default = network.default_network_card_index().ok_or(Reason::Missing(DEFAULT))?;
    let is_default = |card: &&NetworkCardInfo| card.network_card_index() == Some(default);
    let card = network.network_cards().iter().find(is_default);
    let card = card.ok_or(Reason::Contradicts(DEFAULT, "NetworkInfo.NetworkCards"))?;
    positive(card.maximum_network_interfaces(), "NetworkInfo.NetworkCards.MaximumNetworkInterfaces")
}

fn all_interfaces(network: &NetworkInfo, card_enis: i64) -> Result<i64, Reason> {
    const FIELD: &str = "NetworkInfo.MaximumNetworkInterfaces";
    let all = positive(network.maximum_network_interfaces(), FIELD)?;
    if all < card_enis { Err(Reason::Contradicts(FIELD, "NetworkInfo.NetworkCards")) } else { Ok(all) }
}

fn cards(network: &NetworkInfo) -> Result<i64, Reason> {
    const FIELD: &str = "NetworkInfo.MaximumNetworkCards";
    let cards = positive(network.maximum_network_cards(), FIELD)?;
    let listed = i64::try_from(network.network_cards().len()).unwrap_or(i64::MAX);
    if cards < listed { Err(Reason::Contradicts(FIELD, "NetworkInfo.NetworkCards")) } else { Ok(cards) }
}

/// The baselines of all cards, in Mbit/s; `None` unless every card has one.
fn baseline_mbps(network: &NetworkInfo) -> Option<i64> {
    let baselines = network.network_cards().iter().map(NetworkCardInfo::baseline_bandwidth_in_gbps);
    baselines.sum::<Option<f64>>().and_then(thousandfold)
}

/// Only types that are EBS-optimized by default have this bandwidth without asking.
fn ebs_mbps(described: &Described) -> Option<i64> {
    let ebs = described.ebs_info()?;
    let default = ebs.ebs_optimized_support() == Some(&EbsOptimizedSupport::Default);
    let mbps = ebs.ebs_optimized_info().filter(|_| default)?.maximum_bandwidth_in_mbps()?;
    Some(i64::from(mbps)).filter(|mbps| *mbps > 0)
}

fn nitro_enclaves(described: &Described) -> Option<bool> {
    match described.nitro_enclaves_support()? {
        NitroEnclavesSupport::Supported => Some(true),
        NitroEnclavesSupport::Unsupported => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
