//! Instance types as `DescribeInstanceTypes` shows them.

use crate::catalogue::{RegionCatalogue, TypeRow};
use crate::value::{Fields, Node};

fn value<'r>(row: &'r TypeRow, column: &str) -> Option<&'r str> {
    RegionCatalogue::column(row, column)
}

/// A number; a damaged one is not shown.
fn number(row: &TypeRow, column: &str) -> Option<i64> {
    value(row, column)?.parse().ok()
}

/// Architecture as EC2 names it.
pub(crate) fn architecture(row: &TypeRow) -> &str {
    match value(row, "arch") {
        Some("amd64") => "x86_64",
        other => other.unwrap_or(""),
    }
}

/// One item of `instanceTypeSet`.
pub(crate) fn shown(row: &TypeRow) -> Fields {
    let spot = value(row, "spot") == Some("y");
    let usage = value(row, "usage").unwrap_or(if spot { "on-demand spot" } else { "on-demand" });
    let is_metal = value(row, "hypervisor") == Some("metal");
    let fields = Fields::new()
        .maybe("instanceType", value(row, "name"))
        .list("supportedUsageClasses", usage.split(' '))
        .with("bareMetal", is_metal)
        .maybe("hypervisor", value(row, "hypervisor").filter(|_| !is_metal))
        .with("processorInfo", processor(row))
        .with("vCpuInfo", Fields::new().maybe("defaultVCpus", value(row, "vcpu")))
        .with("memoryInfo", Fields::new().maybe("sizeInMiB", value(row, "memoryMib")))
        .maybe("instanceStorageInfo", value(row, "nvmeGb").map(disks))
        .with("ebsInfo", ebs(row))
        .with("networkInfo", network(row))
        .maybe("gpuInfo", device(row, "gpu").map(gpu));
    accelerator(fields, row).maybe("nitroEnclavesSupport", value(row, "enclaves"))
}

fn processor(row: &TypeRow) -> Fields {
    let ghz = number(row, "mhz").map(|mhz| mhz as f64 / 1000.0);
    Fields::new()
        .list("supportedArchitectures", [architecture(row)])
        .maybe("sustainedClockSpeedInGhz", ghz)
        .maybe("manufacturer", value(row, "cpu"))
}

fn disks(size: &str) -> Fields {
    Fields::new().with("totalSizeInGB", size).with("nvmeSupport", "required")
}

fn ebs(row: &TypeRow) -> Fields {
    let bandwidth = Fields::new().maybe("maximumBandwidthInMbps", value(row, "ebsMbps"));
    Fields::new().maybe("ebsOptimizedSupport", value(row, "ebsSupport")).with("ebsOptimizedInfo", bandwidth)
}

fn network(row: &TypeRow) -> Fields {
    // The default card is listed last: its index counts, not its position.
    let count = number(row, "cards").unwrap_or(1);
    let cards = (0..count).rev().map(|index| card(row, index, count));
    let efa = number(row, "efa").filter(|count| *count > 0);
    Fields::new()
        .maybe("maximumNetworkInterfaces", value(row, "enis"))
        .with("maximumNetworkCards", count)
        .with("defaultNetworkCardIndex", 0_i64)
        .list("networkCards", cards)
        .maybe("ipv4AddressesPerInterface", value(row, "ipv4"))
        .with("efaSupported", efa.is_some())
        .maybe("efaInfo", efa.map(|count| Fields::new().with("maximumEfaInterfaces", count)))
        .maybe("encryptionInTransitSupported", value(row, "encryption"))
}

/// The interfaces beyond the default card's and the bandwidth are shared equally.
fn card(row: &TypeRow, index: i64, count: i64) -> Fields {
    let own = number(row, "cardEnis");
    let beyond = || Some((number(row, "enis")? - own?) / (count - 1));
    let interfaces = if index == 0 { own } else { beyond() };
    let gbps = number(row, "mbps").map(|mbps| mbps as f64 / 1000.0 / count as f64);
    Fields::new()
        .with("networkCardIndex", index)
        .maybe("maximumNetworkInterfaces", interfaces)
        .maybe("baselineBandwidthInGbps", gbps)
}

/// Manufacturer, name, count and detail of a device column.
fn device<'r>(row: &'r TypeRow, column: &str) -> Option<[&'r str; 4]> {
    let parts: Vec<&str> = value(row, column)?.split(':').collect();
    parts.try_into().ok()
}

fn gpu([manufacturer, name, count, memory]: [&str; 4]) -> Fields {
    let gpu = Fields::new()
        .with("name", name)
        .with("manufacturer", manufacturer)
        .with("count", count)
        .with("memoryInfo", Fields::new().with("sizeInMiB", memory));
    Fields::new().list("gpus", [gpu])
}

/// Neuron devices have cores and no manufacturer; other accelerators have no cores.
fn accelerator(fields: Fields, row: &TypeRow) -> Fields {
    let Some([manufacturer, name, count, cores]) = device(row, "accelerator") else { return fields };
    let named = Fields::new().with("name", name).with("count", count);
    if cores == "0" {
        // EC2 calls the items of this one list `member`.
        let member: Node = named.with("manufacturer", manufacturer).into();
        let accelerators = Fields::new().with("member", member);
        return fields.with("inferenceAcceleratorInfo", Fields::new().with("accelerators", accelerators));
    }
    let device = named.with("coreInfo", Fields::new().with("count", cores));
    fields.with("neuronInfo", Fields::new().list("neuronDevices", [device]))
}
