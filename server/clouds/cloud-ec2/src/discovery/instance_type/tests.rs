use aws_sdk_ec2::types::builders::{InstanceTypeInfoBuilder, NetworkInfoBuilder};
use aws_sdk_ec2::types::{
    EbsInfo, EbsOptimizedInfo, EfaInfo, GpuDeviceInfo, GpuDeviceMemoryInfo, GpuInfo, InferenceAcceleratorInfo,
    InferenceDeviceInfo, InstanceStorageInfo, MemoryInfo, NeuronDeviceCoreInfo, NeuronDeviceInfo, NeuronInfo, VCpuInfo,
};
use cloud::catalogue::{Accelerator, Gpu};

use super::*;

fn card(index: i32, interfaces: i32, gbps: f64) -> NetworkCardInfo {
    let card = NetworkCardInfo::builder().network_card_index(index).maximum_network_interfaces(interfaces);
    card.baseline_bandwidth_in_gbps(gbps).build()
}

/// Two cards: 2 interfaces and 0.5 Gbit/s on the default card 1, 3 and 0.25 on the other.
fn network() -> NetworkInfoBuilder {
    let network = NetworkInfo::builder().network_cards(card(0, 3, 0.25)).network_cards(card(1, 2, 0.5));
    let network = network.default_network_card_index(1).maximum_network_cards(2).maximum_network_interfaces(5);
    network.ipv4_addresses_per_interface(10)
}

fn processor(arch: &[ArchitectureType]) -> ProcessorInfo {
    let processor = ProcessorInfo::builder().set_supported_architectures(Some(arch.to_vec()));
    processor.manufacturer("Intel").sustained_clock_speed_in_ghz(3.1).build()
}

/// A complete type without devices, which the embedded data lacks.
fn complete() -> InstanceTypeInfoBuilder {
    Described::builder()
        .instance_type("z99.large".into())
        .supported_usage_classes(UsageClassType::OnDemand)
        .bare_metal(false)
        .hypervisor(InstanceTypeHypervisor::Nitro)
        .processor_info(processor(&[ArchitectureType::X8664]))
        .v_cpu_info(VCpuInfo::builder().default_v_cpus(2).build())
        .memory_info(MemoryInfo::builder().size_in_mib(8192).build())
        .network_info(network().build())
}

fn info(described: InstanceTypeInfoBuilder) -> InstanceTypeInfo {
    read(&described.build(), Snapshot::builtin().unwrap()).unwrap().info
}

fn reason(described: InstanceTypeInfoBuilder) -> Reason {
    read(&described.build(), Snapshot::builtin().unwrap()).unwrap_err().reason
}

#[test]
fn every_field_comes_from_its_place() {
    let expected = InstanceTypeInfo {
        arch: "amd64",
        cpu_manufacturer: "Intel".into(),
        mhz: Some(3100),
        hypervisor: Hypervisor::Nitro,
        vcpu: 2,
        memory_mib: 8192,
        gpu: None,
        accelerator: None,
        efa: 0,
        nvme_gb: None,
        card_enis: 2,
        enis: 5,
        cards: 2,
        ipv4_per_eni: 10,
        branch_enis: 0,
        mbps: Some(750),
        ebs_mbps: None,
        encryption_in_transit: None,
        nitro_enclaves: None,
    };
    assert_eq!(info(complete()), expected);
    let (on_demand, spot) = {
        let read = read(&complete().build(), Snapshot::builtin().unwrap()).unwrap();
        (read.on_demand, read.spot)
    };
    assert_eq!((on_demand, spot), (true, false));
}

#[test]
fn branch_interfaces_and_bandwidth_of_a_known_type_are_the_embedded_ones() {
    // m5.large: 9 branch interfaces, 750 Mbit/s; m4.large is rated "Moderate".
    let silent = || network().set_network_cards(Some(vec![card(1, 2, 9.0)])).maximum_network_cards(1).build();
    let of = |name: &str| info(complete().instance_type(name.into()).network_info(silent()));
    assert_eq!((of("m5.large").branch_enis, of("m5.large").mbps), (9, Some(750)));
    assert_eq!(of("m4.large").mbps, None);
    assert_eq!(of("z99.large").mbps, Some(9000));
}

#[test]
fn a_missing_field_is_named() {
    for (described, field) in [
        (complete().set_instance_type(None), "InstanceType"),
        (complete().set_processor_info(None), "ProcessorInfo"),
        (complete().processor_info(processor(&[])), "ProcessorInfo.SupportedArchitectures"),
        (complete().set_network_info(None), "NetworkInfo"),
        (complete().set_hypervisor(None), "Hypervisor"),
        (complete().set_v_cpu_info(None), "VCpuInfo.DefaultVCpus"),
        (complete().set_memory_info(None), "MemoryInfo.SizeInMiB"),
        (complete().gpu_info(GpuInfo::builder().build()), "GpuInfo.Gpus"),
        (complete().neuron_info(NeuronInfo::builder().build()), "NeuronInfo.NeuronDevices"),
        (complete().instance_storage_info(InstanceStorageInfo::builder().build()), "InstanceStorageInfo.TotalSizeInGB"),
        (of_network(network().set_default_network_card_index(None)), "NetworkInfo.DefaultNetworkCardIndex"),
        (of_network(network().set_maximum_network_interfaces(None)), "NetworkInfo.MaximumNetworkInterfaces"),
        (of_network(network().set_maximum_network_cards(None)), "NetworkInfo.MaximumNetworkCards"),
        (of_network(network().set_ipv4_addresses_per_interface(None)), "NetworkInfo.Ipv4AddressesPerInterface"),
        (of_network(network().efa_supported(true)), "NetworkInfo.EfaInfo.MaximumEfaInterfaces"),
    ] {
        assert_eq!(reason(described), Reason::Missing(field));
    }
}

fn of_network(network: NetworkInfoBuilder) -> InstanceTypeInfoBuilder {
    complete().network_info(network.build())
}

#[test]
fn values_out_of_range_and_contradictions_are_named() {
    let vcpu = |count| VCpuInfo::builder().default_v_cpus(count).build();
    let efa = EfaInfo::builder().maximum_efa_interfaces(1).build();
    let fast = ProcessorInfo::builder().manufacturer("AMD").supported_architectures(ArchitectureType::X8664);
    for (described, expected) in [
        (complete().v_cpu_info(vcpu(0)), Reason::Invalid("VCpuInfo.DefaultVCpus")),
        (
            complete().processor_info(processor(&[ArchitectureType::I386])),
            Reason::Invalid("ProcessorInfo.SupportedArchitectures"),
        ),
        (
            complete().processor_info(fast.sustained_clock_speed_in_ghz(f64::NAN).build()),
            Reason::Invalid("ProcessorInfo.SustainedClockSpeedInGhz"),
        ),
        (complete().hypervisor("other".into()), Reason::Invalid("Hypervisor")),
        (complete().bare_metal(true), Reason::Contradicts("Hypervisor", "BareMetal")),
        (
            of_network(network().default_network_card_index(2)),
            Reason::Contradicts("NetworkInfo.DefaultNetworkCardIndex", "NetworkInfo.NetworkCards"),
        ),
        (
            of_network(network().maximum_network_interfaces(1)),
            Reason::Contradicts("NetworkInfo.MaximumNetworkInterfaces", "NetworkInfo.NetworkCards"),
        ),
        (
            of_network(network().maximum_network_cards(1)),
            Reason::Contradicts("NetworkInfo.MaximumNetworkCards", "NetworkInfo.NetworkCards"),
        ),
        (
            of_network(network().efa_supported(false).efa_info(efa)),
            Reason::Contradicts("NetworkInfo.EfaInfo.MaximumEfaInterfaces", "NetworkInfo.EfaSupported"),
        ),
        (complete().gpu_info(gpus(&[1, 1])), Reason::SeveralModels("GpuInfo.Gpus")),
        (complete().gpu_info(gpus(&[-1])), Reason::Invalid("GpuInfo.Gpus.Count")),
    ] {
        assert_eq!(reason(described), expected);
    }
}

fn gpus(counts: &[i32]) -> GpuInfo {
    let memory = || GpuDeviceMemoryInfo::builder().size_in_mib(16_384).build();
    let gpu = |count: &i32| {
        GpuDeviceInfo::builder().manufacturer("NVIDIA").name("T4").count(*count).memory_info(memory()).build()
    };
    GpuInfo::builder().set_gpus(Some(counts.iter().map(gpu).collect())).build()
}

#[test]
fn devices_are_read() {
    let t4 = |count| Some(Gpu { manufacturer: "NVIDIA".into(), name: "T4".into(), count, memory_mib: 16_384 });
    assert_eq!(info(complete().gpu_info(gpus(&[4]))).gpu, t4(4));
    // A fraction of one.
    assert_eq!(info(complete().gpu_info(gpus(&[0]))).gpu, t4(0));
    let core = NeuronDeviceCoreInfo::builder().count(4).build();
    let device = NeuronDeviceInfo::builder().name("Inferentia").count(16).core_info(core).build();
    let neuron = NeuronInfo::builder().neuron_devices(device).build();
    let inference = |manufacturer: &str, name: &str, count| {
        let device = InferenceDeviceInfo::builder().manufacturer(manufacturer).name(name).count(count).build();
        InferenceAcceleratorInfo::builder().accelerators(device).build()
    };
    let accelerator = |manufacturer: &str, name: &str, count, cores| {
        Some(Accelerator { manufacturer: manufacturer.into(), name: name.into(), count, cores })
    };
    let both = complete().neuron_info(neuron).inference_accelerator_info(inference("Amazon", "Inferentia", 3));
    assert_eq!(info(both).accelerator, accelerator("AWS", "Inferentia", 16, 4));
    let other = complete().inference_accelerator_info(inference("Qualcomm", "Qualcomm AI100", 8));
    assert_eq!(info(other).accelerator, accelerator("Qualcomm", "Qualcomm AI100", 8, 0));
}

#[test]
fn disks_count_where_nvme_works() {
    let disks = |support| InstanceStorageInfo::builder().total_size_in_gb(125).nvme_support(support).build();
    let nvme = |support| info(complete().instance_storage_info(disks(support))).nvme_gb;
    assert_eq!(nvme(EphemeralNvmeSupport::Required), Some(125));
    assert_eq!(nvme(EphemeralNvmeSupport::Supported), Some(125));
    assert_eq!(nvme(EphemeralNvmeSupport::Unsupported), None);
}

#[test]
fn bandwidth_to_ebs_counts_where_it_is_the_default() {
    let bandwidth = EbsOptimizedInfo::builder().maximum_bandwidth_in_mbps(4750).build();
    let ebs = |support| EbsInfo::builder().ebs_optimized_support(support).ebs_optimized_info(bandwidth.clone()).build();
    let mbps = |support| info(complete().ebs_info(ebs(support))).ebs_mbps;
    assert_eq!(mbps(EbsOptimizedSupport::Default), Some(4750));
    assert_eq!(mbps(EbsOptimizedSupport::Supported), None);
}

#[test]
fn the_first_architecture_with_a_name_counts() {
    let old = processor(&[ArchitectureType::I386, ArchitectureType::X8664]);
    assert_eq!(info(complete().processor_info(old)).arch, "amd64");
    assert_eq!(info(complete().processor_info(processor(&[ArchitectureType::Arm64]))).arch, "arm64");
}
