//! The hash of an EC2NodeClass, which a NodeClaim carries from its creation.
//!
//! It covers what Karpenter's hash covers: `spec` without what a selector finds (that is compared by itself) and without
//! `ipPrefixCount`. Of the image family it covers the effective one.

use std::fmt::Display;

use model::Text;
use model::node_class::{
    BlockDevice, ConnectionTracking, EbsVolume, InstanceIdentity, KubeletOptions, KubeletSettings, MetadataOptions,
    NetworkInterface, NodeClassSpec,
};

use crate::fnv::Fnv1a;

/// Version of [`node_class_hash`]; another one than Karpenter's, so that neither judges NodeClaims by the hash of the
/// other. It changes with the function, with a default of a hashed field, and when a field with existing values joins or
/// leaves.
pub const NODE_CLASS_HASH_VERSION: &str = "fleetwright-1";

/// The hash of an EC2NodeClass, as 16 hexadecimal digits. The order of lists does not matter, and a default equals an
/// absent field. A field that no EC2NodeClass had before may be added without another version: absent fields are no part
/// of it.
#[must_use]
pub fn node_class_hash(spec: &NodeClassSpec) -> Text {
    // Every field is named, so that an additional one does not compile until it is covered.
    let NodeClassSpec {
        ami_family,
        ami_terms: _,
        subnet_terms: _,
        security_group_terms: _,
        reservation_terms: _,
        placement_group,
        identity,
        associate_public_ip,
        ip_prefix_count: _,
        user_data,
        tags,
        kubelet,
        kubelet_options,
        block_devices,
        instance_store_raid0,
        network_interfaces,
        connection_tracking,
        detailed_monitoring,
        metadata_options,
        nested_virtualization,
        context,
    } = spec;
    let mut fields = Fields::default();
    fields.add("amiFamily", Some(ami_family.as_str()));
    fields.add("placementGroupSelector", placement_group.then_some(true));
    match identity {
        InstanceIdentity::Role(role) => fields.add("role", Some(role)),
        InstanceIdentity::Profile(profile) => fields.add("instanceProfile", Some(profile)),
    }
    fields.add("associatePublicIPAddress", associate_public_ip.as_ref());
    fields.add("userData", user_data.as_ref());
    tags.iter().for_each(|(key, value)| fields.add(&format!("tags/{key}"), Some(value)));
    fields.add_kubelet(kubelet);
    fields.add_kubelet_options(kubelet_options);
    block_devices.iter().for_each(|device| fields.add("blockDeviceMappings", Some(block_device(device))));
    fields.add("instanceStorePolicy", instance_store_raid0.then_some("RAID0"));
    network_interfaces.iter().for_each(|one| fields.add("networkInterfaces", Some(network_interface(one))));
    fields.add_connection_tracking(*connection_tracking);
    fields.add("detailedMonitoring", detailed_monitoring.then_some(true));
    fields.add_metadata_options(*metadata_options);
    fields.add("cpuOptions.nestedVirtualization", nested_virtualization.filter(|enabled| *enabled));
    fields.add("context", context.as_ref());
    fields.hash()
}

fn block_device(device: &BlockDevice) -> Text {
    let BlockDevice { device_name, root_volume, ebs } = device;
    let mut fields = Fields::default();
    fields.add("deviceName", device_name.as_ref());
    fields.add("rootVolume", root_volume.then_some(true));
    fields.add("ebs", ebs.as_ref().map(volume));
    fields.hash()
}

fn volume(ebs: &EbsVolume) -> Text {
    let EbsVolume {
        delete_on_termination,
        encrypted,
        iops,
        kms_key_id,
        snapshot_id,
        throughput,
        initialization_rate,
        size,
        volume_type,
    } = ebs;
    let mut fields = Fields::default();
    fields.add("deleteOnTermination", delete_on_termination.as_ref());
    fields.add("encrypted", encrypted.as_ref());
    fields.add("kmsKeyID", kms_key_id.as_ref());
    fields.add("snapshotID", snapshot_id.as_ref());
    fields.add("volumeType", volume_type.as_ref());
    for (name, number) in
        [("iops", iops), ("throughput", throughput), ("volumeInitializationRate", initialization_rate), ("size", size)]
    {
        fields.add(name, number.as_ref());
    }
    fields.hash()
}

fn network_interface(interface: &NetworkInterface) -> String {
    let NetworkInterface { card, device, efa_only } = interface;
    format!("{card}/{device}/{efa_only}")
}

/// Fields that are set, by name; a list has its name once for each entry.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn add(&mut self, name: &str, value: Option<impl Display>) {
        self.0.extend(value.map(|value| (name.to_owned(), value.to_string())));
    }

    fn add_kubelet(&mut self, kubelet: &KubeletSettings) {
        let KubeletSettings { max_pods, pods_per_core, system_reserved, kube_reserved, eviction_hard } = kubelet;
        self.add("kubelet.maxPods", max_pods.as_ref());
        self.add("kubelet.podsPerCore", pods_per_core.filter(|count| *count != 0));
        for (name, reserved) in [("systemReserved", system_reserved), ("kubeReserved", kube_reserved)] {
            reserved.iter().for_each(|(key, amount)| self.add(&format!("kubelet.{name}/{key}"), Some(amount)));
        }
        for (signal, threshold) in eviction_hard {
            self.add(&format!("kubelet.evictionHard/{signal}"), Some(threshold));
        }
    }

    fn add_kubelet_options(&mut self, options: &KubeletOptions) {
        let KubeletOptions {
            cluster_dns,
            eviction_soft,
            eviction_max_pod_grace_period,
            image_gc_high_threshold_percent,
            image_gc_low_threshold_percent,
            cpu_cfs_quota,
        } = options;
        cluster_dns.iter().for_each(|address| self.add("kubelet.clusterDNS", Some(address)));
        for (signal, soft) in eviction_soft {
            let value = format!("{}/{}", soft.threshold, soft.grace_period.get());
            self.add(&format!("kubelet.evictionSoft/{signal}"), Some(value));
        }
        self.add("kubelet.evictionMaxPodGracePeriod", eviction_max_pod_grace_period.as_ref());
        self.add("kubelet.imageGCHighThresholdPercent", image_gc_high_threshold_percent.as_ref());
        self.add("kubelet.imageGCLowThresholdPercent", image_gc_low_threshold_percent.as_ref());
        self.add("kubelet.cpuCFSQuota", cpu_cfs_quota.as_ref());
    }

    fn add_connection_tracking(&mut self, tracking: ConnectionTracking) {
        let ConnectionTracking { tcp_established, udp_stream, udp } = tracking;
        self.add("connectionTracking.tcpEstablishedTimeout", tcp_established);
        self.add("connectionTracking.udpStreamTimeout", udp_stream);
        self.add("connectionTracking.udpTimeout", udp);
    }

    fn add_metadata_options(&mut self, options: MetadataOptions) {
        let MetadataOptions { http_endpoint, http_protocol_ipv6, http_put_response_hop_limit, http_tokens_required } =
            options;
        self.add("metadataOptions.httpEndpoint", Some(http_endpoint));
        self.add("metadataOptions.httpProtocolIPv6", Some(http_protocol_ipv6));
        self.add("metadataOptions.httpPutResponseHopLimit", Some(http_put_response_hop_limit));
        self.add("metadataOptions.httpTokens", Some(http_tokens_required));
    }

    fn hash(mut self) -> Text {
        self.0.sort();
        self.0.dedup();
        let mut hash = Fnv1a::default();
        hash.number(self.0.len());
        self.0.iter().for_each(|(name, value)| hash.texts([name, value]));
        hash.hex()
    }
}

#[cfg(test)]
mod tests;
