//! Settings of a NodeClass and an operator: the arguments of [`build`](super::build) besides the
//! snapshot.

use std::collections::BTreeMap;

use model::{MicroUsd, Requirements, Resources, Text};

use super::threshold::Threshold;

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

    /// Whether kube-reserved memory depends on the pods that the network interfaces allow,
    /// regardless of `maxPods`.
    pub(super) fn reserves_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    pub(super) fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    pub(super) fn counts_pods_by_interfaces(self) -> bool {
        self.windows_build().is_none()
    }

    /// Default size of the pod disk, in bytes.
    pub(super) fn default_disk(self) -> i64 {
        (if self.windows_build().is_some() { 50 } else { 20 }) << 30
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

/// One entry of `status.capacityReservations`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationEntry {
    /// Reservation id, `cr-…`.
    pub id: Text,
    /// Zone of the reserved instances.
    pub zone: Text,
    /// Type of the reserved instances.
    pub instance_type: Text,
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
    pub name: Text,
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

/// Region, and the operator's settings for all its instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionOptions<'a> {
    /// Name of the region, such as `us-east-1`.
    pub region: &'a str,
    /// Zones named by the input; used only where the snapshot has no zones for the region.
    pub extra_zones: &'a [Text],
    /// Prices of types without another price (a NodeOverlay that prices a preview type).
    pub preview_prices: BTreeMap<Text, MicroUsd>,
    /// Spot price in thousandths of the on-demand price where neither a spot price nor the region's
    /// own share is known.
    pub spot_per_mille: i64,
    /// Whether a pool permits spot; otherwise spot estimates get no note.
    pub spot_wanted: bool,
    /// Network interfaces reserved by custom networking (`RESERVED_ENIS`).
    pub reserved_enis: i64,
    /// Share of memory, in thousandths, reserved by hypervisor and firmware
    /// (`VM_MEMORY_OVERHEAD_PERCENT`).
    pub memory_overhead_per_mille: i64,
}

impl<'a> RegionOptions<'a> {
    /// Options for `region` with Karpenter's defaults, and spot at 0.35 of on-demand where the
    /// catalogue has no share.
    #[must_use]
    pub fn new(region: &'a str) -> Self {
        Self {
            region,
            extra_zones: &[],
            preview_prices: BTreeMap::new(),
            spot_per_mille: 350,
            spot_wanted: true,
            reserved_enis: 0,
            memory_overhead_per_mille: 75,
        }
    }
}
