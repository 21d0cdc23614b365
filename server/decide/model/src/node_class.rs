//! Settings of a NodeClass that determine what its instances offer to pods. Reading an EC2NodeClass
//! produces them; a catalogue is built for them.

mod hashed_fields;
mod kubelet_options;
mod spec;
mod status;
mod threshold;

use std::collections::BTreeMap;

pub use hashed_fields::{HashedFields, HashedValue};
pub use kubelet_options::{KubeletOptions, SoftThreshold};
pub use spec::{
    AmiTerm, BlockDevice, ConnectionTracking, EbsVolume, InstanceIdentity, MetadataOptions, NodeClassSpec,
    ReservationTerm, ResourceTerm,
};
pub use status::{
    ImageEntry, NodeClassQuery, NodeClassStatus, RESOLVED_CONDITIONS, ReservationStatus, Resolution, ResolvedNodeClass,
    SecurityGroupEntry, SubnetEntry,
};
pub use threshold::{Threshold, ThresholdError};

use crate::{InstanceTypeName, Requirements, Resources, Text, Zone};

/// Image family. It determines the maximum pods, the reserved resources, and which instance types
/// boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum AmiFamily {
    /// Amazon Linux 2.
    Al2,
    /// Amazon Linux 2023.
    #[default]
    Al2023,
    /// Bottlerocket, in the variant of the instance type.
    Bottlerocket,
    /// The user's own images and user data.
    Custom,
    /// Windows Server 2019.
    Windows2019,
    /// Windows Server 2022.
    Windows2022,
    /// Windows Server 2025.
    Windows2025,
}

impl AmiFamily {
    /// All families, in the order of messages.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// The name in `spec.amiFamily`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// The family named in `spec.amiFamily`, or by the part of an alias before the `@`
    /// (`al2023@latest`).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str().eq_ignore_ascii_case(name))
    }

    /// The value of `node.kubernetes.io/windows-build`; `None` for Linux.
    #[must_use]
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            Self::Al2 | Self::Al2023 | Self::Bottlerocket | Self::Custom => None,
        }
    }
}

/// Fields of `spec.kubelet` that change allocatable resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KubeletSettings {
    /// `maxPods`.
    pub max_pods: Option<i64>,
    /// `podsPerCore`; 0 means no such limit.
    pub pods_per_core: Option<i64>,
    /// `systemReserved`.
    pub system_reserved: Resources,
    /// `kubeReserved`; each entry replaces the computed one.
    pub kube_reserved: Resources,
    /// `evictionHard` by signal; only `memory.available` and `nodefs.available` reduce allocatable
    /// resources.
    pub eviction_hard: BTreeMap<Text, Threshold>,
}

impl KubeletSettings {
    fn add_to(&self, fields: &mut HashedFields) {
        let Self { max_pods, pods_per_core, system_reserved, kube_reserved, eviction_hard } = self;
        fields.add("kubelet.maxPods", max_pods.as_ref());
        fields.add("kubelet.podsPerCore", pods_per_core.filter(|count| *count != 0));
        for (name, reserved) in [("systemReserved", system_reserved), ("kubeReserved", kube_reserved)] {
            reserved.iter().for_each(|(key, amount)| fields.add(&format!("kubelet.{name}/{key}"), Some(amount)));
        }
        for (signal, threshold) in eviction_hard {
            fields.add(&format!("kubelet.evictionHard/{signal}"), Some(threshold));
        }
    }
}

/// One entry of `spec.networkInterfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkInterface {
    /// `networkCardIndex`.
    pub card: u32,
    /// `deviceIndex`.
    pub device: u32,
    /// Whether `interfaceType` is `efa-only`, which carries no pod addresses.
    pub efa_only: bool,
}

impl NetworkInterface {
    fn hashed_text(&self) -> String {
        let Self { card, device, efa_only } = self;
        format!("{card}/{device}/{efa_only}")
    }
}

/// One entry of `status.capacityReservations`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationEntry {
    /// Reservation id, `cr-…`.
    pub id: Text,
    /// Zone of the reserved instances.
    pub zone: Zone,
    /// Type of the reserved instances.
    pub instance_type: InstanceTypeName,
    /// Whether `state` is `expiring`: nothing is launched into it.
    pub expiring: bool,
    /// `reservationType`: `default` or `capacity-block`.
    pub reservation_type: Text,
    /// Whether the owner may reclaim the instances.
    pub interruptible: bool,
    /// Remaining instances; one is assumed when unknown.
    pub count: Option<i64>,
}

/// A zone in which a NodeClass has a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubnetZone {
    /// Name, such as `us-east-1a`.
    pub name: Zone,
    /// Id, such as `use1-az1`, when it is known.
    pub id: Option<Text>,
}

/// Settings of a NodeClass that affect its catalogue. NodeClasses with equal settings share a
/// catalogue. The default is AL2023 without settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeClassSettings {
    /// The effective image family.
    pub ami_family: AmiFamily,
    /// `spec.kubelet`.
    pub kubelet: KubeletSettings,
    /// Size of the pod disk, in bytes; `None` means the family's default.
    pub ephemeral_storage: Option<i64>,
    /// `instanceStorePolicy: RAID0`: local disks, if present, hold the pods instead.
    pub instance_store_raid0: bool,
    /// Zones of `status.subnets`; `None` means a subnet in every zone.
    pub zones: Option<Vec<SubnetZone>>,
    /// `status.capacityReservations`.
    pub reservations: Vec<ReservationEntry>,
    /// `spec.networkInterfaces`; empty means that EC2 decides.
    pub network_interfaces: Vec<NetworkInterface>,
    /// `spec.connectionTracking` is set, which requires Nitro.
    pub connection_tracking: bool,
    /// `spec.cpuOptions.nestedVirtualization` is `enabled`.
    pub nested_virtualization: bool,
    /// Requirements of `status.amis`; a type that matches none cannot be launched. Empty means the
    /// images of the family's alias.
    pub ami_requirements: Vec<Requirements>,
}
