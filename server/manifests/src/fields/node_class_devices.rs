//! EC2NodeClass (`karpenter.k8s.aws/v1`): kubelet, disks, network cards, CPU.

use super::{Field, field, object};

const SIGNALS: &str = "memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available; a quantity or 0% to 100%";
const RESERVED: &str = "cpu, memory, ephemeral-storage, pid; not negative";

/// `spec.kubelet`.
pub(super) const KUBELET: &[Field] = &[
    object("spec.kubelet", "Object", "Settings of the kubelet; they also decide how much of a machine pods can use."),
    field("spec.kubelet.clusterDNS", "[]string", "the cluster's", "addresses", "DNS servers of the pods.", "[10.100.0.10]"),
    field("spec.kubelet.maxPods", "integer", "by the machine's network addresses; 110 on Windows", "0 or more", "Most pods on a node.", "110"),
    field("spec.kubelet.podsPerCore", "integer", "no bound", "0 or more; not with Bottlerocket", "Most pods per vCPU; maxPods bounds it further.", "10"),
    field("spec.kubelet.systemReserved", "map[string]Quantity", "nothing", RESERVED, "Kept for the operating system.", "{cpu: 100m, memory: 200Mi}"),
    field("spec.kubelet.kubeReserved", "map[string]Quantity", "by the number of vCPUs and pods", RESERVED, "Kept for kubelet and container runtime; an entry replaces the estimate for that resource.", "{cpu: 90m, memory: 500Mi}"),
    field("spec.kubelet.evictionHard", "map[string]string", "memory.available: 100Mi, nodefs.available: 10%", SIGNALS, "Pods are evicted at once below this; kept free, so pods cannot use it.", "{memory.available: 5%}"),
    field("spec.kubelet.evictionSoft", "map[string]string", "none", SIGNALS, "Pods are evicted after a grace period below this. Every key needs one in evictionSoftGracePeriod.", "{memory.available: 500Mi}"),
    field("spec.kubelet.evictionSoftGracePeriod", "map[string]string", "none", "the keys of evictionSoft; durations, not negative", "How long a soft threshold may be crossed.", "{memory.available: 1m30s}"),
    field("spec.kubelet.evictionMaxPodGracePeriod", "integer", "the pod's own", "seconds, 0 or more", "Longest grace that evicted pods get.", "60"),
    field("spec.kubelet.imageGCHighThresholdPercent", "integer", "85", "0 to 100, greater than imageGCLowThresholdPercent", "Disk use at which unused images are removed.", "85"),
    field("spec.kubelet.imageGCLowThresholdPercent", "integer", "80", "0 to 100", "Disk use down to which they are removed.", "80"),
    field("spec.kubelet.cpuCFSQuota", "boolean", "true", "", "Whether CPU limits of containers are enforced.", "true"),
];

/// Disks, network cards, CPU.
pub(super) const DEVICES: &[Field] = &[
    field(
        "spec.blockDeviceMappings",
        "[]Object",
        "AL2, AL2023: /dev/xvda 20Gi; Bottlerocket: /dev/xvda 4Gi and /dev/xvdb 20Gi; Windows: /dev/sda1 50Gi; Custom: none; all gp3, encrypted",
        "at most 50; at most one with rootVolume",
        "The machine's disks.",
        "",
    ),
    field("spec.blockDeviceMappings.deviceName", "string", "", "", "The device.", "/dev/xvda"),
    field("spec.blockDeviceMappings.rootVolume", "boolean", "false", "", "Whether pods' files live on this disk; its size is then the node's ephemeral storage.", "true"),
    object("spec.blockDeviceMappings.ebs", "Object", "The volume; snapshotID or volumeSize is needed."),
    field("spec.blockDeviceMappings.ebs.deleteOnTermination", "boolean", "EC2's", "", "Whether the volume goes with the machine.", "true"),
    field("spec.blockDeviceMappings.ebs.encrypted", "boolean", "EC2's", "", "Whether it is encrypted.", "true"),
    field("spec.blockDeviceMappings.ebs.iops", "integer", "EC2's", "by volumeType", "Operations per second.", "3000"),
    field("spec.blockDeviceMappings.ebs.kmsKeyID", "string", "the account's key", "", "The key that it is encrypted with.", "arn:aws:kms:eu-west-1:123456789012:key/1234"),
    field("spec.blockDeviceMappings.ebs.snapshotID", "string", "", "", "The snapshot that it starts from.", "snap-0123456789abcdef0"),
    field("spec.blockDeviceMappings.ebs.throughput", "integer", "EC2's", "gp3", "MiB per second.", "125"),
    field("spec.blockDeviceMappings.ebs.volumeInitializationRate", "integer", "EC2's", "100 to 300; needs snapshotID", "MiB per second at which the snapshot is loaded.", "200"),
    field("spec.blockDeviceMappings.ebs.volumeSize", "Quantity", "the snapshot's", "whole Gi to 59000, G to 64000, Ti to 58, T to 64", "Its size.", "100Gi"),
    field("spec.blockDeviceMappings.ebs.volumeType", "string", "EC2's", "standard, io1, io2, gp2, sc1, st1, gp3", "Its type.", "gp3"),
    field("spec.instanceStorePolicy", "string", "disks are left alone", "RAID0", "RAID0 joins all local NVMe disks and puts pods' files there; their size is then the ephemeral storage.", "RAID0"),
    field("spec.networkInterfaces", "[]Object", "by the machine", "at most 150; one of card 0, device 0, type interface; each (card, device) once; at most one efa-only per card", "Network interfaces at start.", ""),
    field("spec.networkInterfaces.networkCardIndex", "integer", "", "0 or more", "The card.", "0"),
    field("spec.networkInterfaces.deviceIndex", "integer", "", "0 or more", "The device on the card.", "0"),
    field("spec.networkInterfaces.interfaceType", "string", "", "interface, efa-only", "What it is for.", "interface"),
    field("spec.connectionTracking", "Object", "EC2's", "at least one field; Nitro machines only", "How long idle connections are remembered by security groups.", ""),
    field("spec.connectionTracking.tcpEstablishedTimeout", "integer", "EC2's", "60 to 432000 seconds", "Idle TCP connections.", "3600"),
    field("spec.connectionTracking.udpStreamTimeout", "integer", "EC2's", "60 to 180 seconds", "UDP flows with several packets.", "120"),
    field("spec.connectionTracking.udpTimeout", "integer", "EC2's", "30 to 60 seconds", "UDP flows in one direction or with one request.", "30"),
    object("spec.cpuOptions", "Object", "Options of the CPU."),
    field("spec.cpuOptions.nestedVirtualization", "string", "disabled", "enabled, disabled", "Whether virtual machines can run inside; only machines that can are used.", "enabled"),
];
