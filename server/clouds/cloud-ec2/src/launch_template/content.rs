//! The content of a launch template, and its name.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Version of every template: a name means one content.
pub(crate) const TEMPLATE_VERSION: &str = "1";

/// Prefix of the names of our templates.
const PREFIX: &str = "fleetwright.dev/";

/// Length of a name's hash in hexadecimal digits: 128 bits.
const DIGITS: usize = 32;

/// Everything in a launch template. Changing the serialised form renames all templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TemplateContent {
    pub(crate) image: String,
    /// User data before base64; empty for none.
    pub(crate) user_data: String,
    pub(crate) instance_profile: String,
    pub(crate) block_devices: Vec<BlockDeviceMapping>,
    pub(crate) metadata: Metadata,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) detailed_monitoring: bool,
    pub(crate) enclave: bool,
    pub(crate) nested_virtualization: Option<bool>,
    /// `Placement.Tenancy`.
    pub(crate) tenancy: String,
    /// The capacity reservation of all instances.
    pub(crate) reservation: Option<ReservationTarget>,
    /// The instances are spot: their requests are tagged too.
    pub(crate) spot: bool,
    /// Tags of network interfaces and spot requests, in request order.
    pub(crate) tags: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BlockDeviceMapping {
    pub(crate) device: Option<String>,
    pub(crate) ebs: Option<Ebs>,
}

/// An EBS volume; fields as in EC2's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub(crate) struct Ebs {
    pub(crate) delete_on_termination: Option<bool>,
    pub(crate) encrypted: Option<bool>,
    pub(crate) iops: Option<i32>,
    pub(crate) kms_key_id: Option<String>,
    pub(crate) snapshot_id: Option<String>,
    pub(crate) throughput: Option<i32>,
    pub(crate) initialization_rate: Option<i32>,
    pub(crate) size_gib: Option<i32>,
    pub(crate) volume_type: Option<String>,
}

/// Options of the instance metadata service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Metadata {
    pub(crate) endpoint: bool,
    /// `None` in regions that do not know the field.
    pub(crate) ipv6: Option<bool>,
    pub(crate) hop_limit: i32,
    pub(crate) tokens_required: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Interface {
    pub(crate) card: Option<i32>,
    pub(crate) device: i32,
    /// `interface`, `efa` or `efa-only`; `None` leaves it to EC2.
    pub(crate) kind: Option<&'static str>,
    pub(crate) security_groups: Vec<String>,
    pub(crate) associate_public_ip: Option<bool>,
    pub(crate) ipv4_prefixes: Option<i32>,
    pub(crate) ipv6_prefixes: Option<i32>,
    /// The interface gets a primary IPv6 address.
    pub(crate) primary_ipv6: bool,
    pub(crate) connection_tracking: Option<Timeouts>,
}

/// Timeouts of tracked connections, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Timeouts {
    pub(crate) tcp_established: Option<i32>,
    pub(crate) udp_stream: Option<i32>,
    pub(crate) udp: Option<i32>,
}

/// A capacity reservation to launch into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ReservationTarget {
    pub(crate) id: String,
    /// The owner may reclaim the instances.
    pub(crate) interruptible: bool,
}

impl TemplateContent {
    /// Name of the template with this content.
    pub(crate) fn name(&self) -> String {
        // Strings, numbers and lists of them always serialize.
        let digest = Sha256::digest(serde_json::to_vec(self).unwrap_or_default());
        let hash: String = digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{hash}")
    }
}
