//! Data of an EC2 instance type, from DescribeInstanceTypes and related AWS tables.

use model::Text;

/// Virtualization of an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hypervisor {
    /// AWS Nitro.
    Nitro,
    /// Xen, before Nitro.
    Xen,
    /// Bare metal: no hypervisor at all.
    Metal,
}

/// GPUs of an instance type, all of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Manufacturer as EC2 writes it, such as `NVIDIA`.
    pub manufacturer: Text,
    /// Model as EC2 writes it, such as `T4`.
    pub name: Text,
    /// Number of GPUs; zero for a fraction of one.
    pub count: i64,
    /// Memory per GPU, in MiB.
    pub memory_mib: i64,
}

/// Other accelerators, all of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accelerator {
    /// Manufacturer as EC2 writes it, such as `AWS`.
    pub manufacturer: Text,
    /// Model as EC2 writes it, such as `Inferentia2`.
    pub name: Text,
    /// Number of devices.
    pub count: i64,
    /// Neuron cores per device; zero for other devices.
    pub cores: i64,
}

/// Data of one instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTypeInfo {
    /// `amd64` or `arm64`.
    pub arch: &'static str,
    /// CPU manufacturer as EC2 writes it, such as `Intel`.
    pub cpu_manufacturer: Text,
    /// Sustained clock speed in MHz; very old types have none.
    pub mhz: Option<i64>,
    /// Virtualization.
    pub hypervisor: Hypervisor,
    /// Virtual CPUs by default.
    pub vcpu: i64,
    /// Memory in MiB, before any overhead.
    pub memory_mib: i64,
    /// GPUs, if any.
    pub gpu: Option<Gpu>,
    /// Other accelerators, if any.
    pub accelerator: Option<Accelerator>,
    /// Elastic fabric adapters.
    pub efa: i64,
    /// Local disks together, in decimal gigabytes.
    pub nvme_gb: Option<i64>,
    /// Network interfaces of the default network card.
    pub card_enis: i64,
    /// Network interfaces of all cards.
    pub enis: i64,
    /// Network cards.
    pub cards: i64,
    /// IPv4 addresses of a network interface.
    pub ipv4_per_eni: i64,
    /// Branch interfaces for security groups of pods; zero where trunking does not work.
    pub branch_enis: i64,
    /// Network bandwidth in Mbit/s, where AWS guarantees one.
    pub mbps: Option<i64>,
    /// Bandwidth to EBS in Mbit/s of types that are EBS-optimized by default. `None` when unknown
    /// or not optimized; the embedded data has none.
    pub ebs_mbps: Option<i64>,
    /// Whether traffic between instances is encrypted; `None` when unknown, as in the embedded
    /// data.
    pub encryption_in_transit: Option<bool>,
    /// Whether Nitro Enclaves work; `None` when unknown, as in the embedded data.
    pub nitro_enclaves: Option<bool>,
}

impl InstanceTypeInfo {
    /// Maximum pods when `reserved` interfaces of the default card carry no pod addresses (AWS VPC
    /// CNI).
    pub(super) fn pods_by_interfaces(&self, reserved: i64) -> i64 {
        match (self.card_enis - reserved).max(0) {
            0 => 0,
            usable => usable * (self.ipv4_per_eni - 1) + 2,
        }
    }

    /// Network interfaces of network card `card`. AWS publishes only the default card's number and
    /// the sum; the other cards are assumed equal.
    pub(super) fn interfaces_of_card(&self, card: u32) -> i64 {
        match i64::from(card) {
            0 => self.card_enis,
            other if other < self.cards => (self.enis - self.card_enis) / (self.cards - 1),
            _ => 0,
        }
    }
}

/// Family and size: the parts before and after the dot.
pub(super) fn family_and_size(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

/// Category and generation of a family: its leading letters and the digits after them, skipping a
/// memory size right behind the letters (`m5` is `m` and 5, `u-6tb1` is `u` and 1, `u7i-12tb` is
/// `u` and 7).
pub(super) fn category_and_generation(family: &str) -> Option<(&str, &str)> {
    let letters = family.find(|c: char| !c.is_ascii_lowercase())?;
    let rest = match family[letters..].strip_prefix('-') {
        Some(size) => size.split_once("tb").filter(|(count, _)| count.bytes().all(|b| b.is_ascii_digit()))?.1,
        None => &family[letters..],
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (letters > 0 && digits > 0).then(|| (&family[..letters], &rest[..digits]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn category_and_generation_are_read_off_the_family() {
        for (family, expected) in [
            ("m5", ("m", "5")),
            ("u-6tb1", ("u", "1")),
            ("u7i-12tb", ("u", "7")),
            ("inf2", ("inf", "2")),
            ("c7i-flex", ("c", "7")),
            ("p6-b200", ("p", "6")),
            ("hpc7g", ("hpc", "7")),
        ] {
            assert_eq!(category_and_generation(family), Some(expected), "{family}");
        }
        assert_eq!(category_and_generation("rack"), None);
        assert_eq!(category_and_generation("mac-m4"), None);
    }
}
