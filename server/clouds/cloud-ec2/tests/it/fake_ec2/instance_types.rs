//! Instance types as `DescribeInstanceTypes` shows them, from rows of the embedded catalogue's
//! columns.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use super::{Answer, Form, element, error, numbered};

/// An instance type: values by the column names of `ec2-catalogue.csv`, and of `encryption`,
/// `enclaves`, `ebsSupport`, `ebsMbps`, `virtualization` and `usage`, which the file lacks. EC2 does
/// not show a missing or empty value.
pub(crate) type TypeRow = BTreeMap<String, String>;

/// The types that pass the filters of the call.
pub(super) fn filtered(types: &[TypeRow], form: &Form) -> Result<Vec<String>, Answer> {
    let filter = |number: usize| {
        let name = form.get(&format!("Filter.{number}.Name"))?;
        Some((name.as_str(), numbered(form, &format!("Filter.{number}.Value"))))
    };
    let filters: Vec<_> = (1..).map_while(filter).collect();
    let known = ["supported-virtualization-type", "processor-info.supported-architecture"];
    if let Some((unknown, _)) = filters.iter().find(|(name, _)| !known.contains(name)) {
        return Err(error(StatusCode::BAD_REQUEST, "InvalidParameterValue", unknown));
    }
    let passes = |row: &&TypeRow| {
        let has = |(name, values): &(&str, Vec<&str>)| match *name {
            "supported-virtualization-type" => values.contains(&value(row, "virtualization").unwrap_or("hvm")),
            _ => values.contains(&ec2_arch(row)),
        };
        filters.iter().all(has)
    };
    Ok(types.iter().filter(passes).map(shown).collect())
}

fn value<'r>(row: &'r TypeRow, column: &str) -> Option<&'r str> {
    row.get(column).map(String::as_str).filter(|value| !value.is_empty())
}

fn number(row: &TypeRow, column: &str) -> Option<i64> {
    value(row, column).map(|value| value.parse().unwrap())
}

fn ec2_arch(row: &TypeRow) -> &str {
    match value(row, "arch") {
        Some("amd64") => "x86_64",
        other => other.unwrap_or(""),
    }
}

/// The element, or nothing where there is no value.
fn optional(name: &str, value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| element(name, &value.to_string()))
}

fn shown(row: &TypeRow) -> String {
    let spot = value(row, "spot") == Some("y");
    let usage = value(row, "usage").unwrap_or(if spot { "on-demand spot" } else { "on-demand" });
    let usage: String = usage.split(' ').map(|class| element("item", class)).collect();
    let metal = value(row, "hypervisor") == Some("metal");
    [
        optional("instanceType", value(row, "name")),
        element("supportedUsageClasses", &usage),
        element("bareMetal", if metal { "true" } else { "false" }),
        optional("hypervisor", value(row, "hypervisor").filter(|_| !metal)),
        element("processorInfo", &processor(row)),
        element("vCpuInfo", &optional("defaultVCpus", value(row, "vcpu"))),
        element("memoryInfo", &optional("sizeInMiB", value(row, "memoryMib"))),
        disks(row),
        ebs(row),
        element("networkInfo", &network(row)),
        gpu(row),
        accelerator(row),
        optional("nitroEnclavesSupport", value(row, "enclaves")),
    ]
    .concat()
}

fn processor(row: &TypeRow) -> String {
    let ghz = number(row, "mhz").map(|mhz| mhz as f64 / 1000.0);
    element("supportedArchitectures", &element("item", ec2_arch(row)))
        + &optional("sustainedClockSpeedInGhz", ghz)
        + &optional("manufacturer", value(row, "cpu"))
}

fn disks(row: &TypeRow) -> String {
    let shown = |size| element("totalSizeInGB", size) + &element("nvmeSupport", "required");
    optional("instanceStorageInfo", value(row, "nvmeGb").map(shown))
}

fn ebs(row: &TypeRow) -> String {
    let bandwidth = optional("maximumBandwidthInMbps", value(row, "ebsMbps"));
    let support = optional("ebsOptimizedSupport", value(row, "ebsSupport"));
    element("ebsInfo", &(support + &element("ebsOptimizedInfo", &bandwidth)))
}

fn network(row: &TypeRow) -> String {
    // The default card is listed last: its index counts, not its position.
    let count = number(row, "cards").unwrap();
    let cards: String = (0..count).rev().map(|index| card(row, index, count)).collect();
    let efa = number(row, "efa").filter(|count| *count > 0);
    [
        optional("maximumNetworkInterfaces", value(row, "enis")),
        element("maximumNetworkCards", &count.to_string()),
        element("defaultNetworkCardIndex", "0"),
        element("networkCards", &cards),
        optional("ipv4AddressesPerInterface", value(row, "ipv4")),
        element("efaSupported", if efa.is_some() { "true" } else { "false" }),
        optional("efaInfo", efa.map(|count| element("maximumEfaInterfaces", &count.to_string()))),
        optional("encryptionInTransitSupported", value(row, "encryption")),
    ]
    .concat()
}

/// The interfaces beyond the default card's and the bandwidth are shared equally.
fn card(row: &TypeRow, index: i64, count: i64) -> String {
    let own = number(row, "cardEnis");
    let beyond = || Some((number(row, "enis")? - own?) / (count - 1));
    let interfaces = if index == 0 { own } else { beyond() };
    let gbps = number(row, "mbps").map(|mbps| mbps as f64 / 1000.0 / count as f64);
    let fields = [
        element("networkCardIndex", &index.to_string()),
        optional("maximumNetworkInterfaces", interfaces),
        optional("baselineBandwidthInGbps", gbps),
    ];
    element("item", &fields.concat())
}

/// Manufacturer, name, count and detail of a device column.
fn device<'r>(row: &'r TypeRow, column: &str) -> Option<[&'r str; 4]> {
    let parts: Vec<&str> = value(row, column)?.split(':').collect();
    Some(parts.try_into().unwrap())
}

fn gpu(row: &TypeRow) -> String {
    let shown = |[manufacturer, name, count, memory]: [&str; 4]| {
        let memory = element("memoryInfo", &element("sizeInMiB", memory));
        let named = element("name", name) + &element("manufacturer", manufacturer);
        element("gpus", &element("item", &(named + &element("count", count) + &memory)))
    };
    optional("gpuInfo", device(row, "gpu").map(shown))
}

/// Neuron devices have cores and no manufacturer; other accelerators have no cores.
fn accelerator(row: &TypeRow) -> String {
    let Some([manufacturer, name, count, cores]) = device(row, "accelerator") else { return String::new() };
    let named = element("name", name) + &element("count", count);
    if cores == "0" {
        // EC2 calls the items of this one list `member`.
        let item = element("member", &(named + &element("manufacturer", manufacturer)));
        return element("inferenceAcceleratorInfo", &element("accelerators", &item));
    }
    let item = element("item", &(named + &element("coreInfo", &element("count", cores))));
    element("neuronInfo", &element("neuronDevices", &item))
}
