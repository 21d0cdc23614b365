//! Data of an EC2 instance type, from DescribeInstanceTypes and related AWS tables.

/// Virtualization of an instance type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hypervisor {
    Nitro,
    Xen,
    /// Bare metal: no hypervisor at all.
    Metal,
}

/// GPUs of an instance type, all of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) manufacturer: &'static str,
    pub(super) name: &'static str,
    /// Number of GPUs; zero for a fraction of one.
    pub(super) count: i64,
    /// Memory per GPU, in MiB.
    pub(super) memory_mib: i64,
}

/// Other accelerators, all of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accelerator {
    pub(super) manufacturer: &'static str,
    pub(super) name: &'static str,
    pub(super) count: i64,
    /// Neuron cores per device; zero for other devices.
    pub(super) cores: i64,
}

/// Data of one instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstanceTypeInfo {
    /// `amd64` or `arm64`.
    pub(super) arch: &'static str,
    pub(super) cpu_manufacturer: &'static str,
    /// Sustained clock speed; very old types have none.
    pub(super) mhz: Option<i64>,
    pub(super) hypervisor: Hypervisor,
    pub(super) vcpu: i64,
    pub(super) memory_mib: i64,
    pub(super) gpu: Option<Gpu>,
    pub(super) accelerator: Option<Accelerator>,
    /// Elastic fabric adapters.
    pub(super) efa: i64,
    /// Local disks together, in decimal gigabytes.
    pub(super) nvme_gb: Option<i64>,
    /// Network interfaces of the default network card.
    pub(super) card_enis: i64,
    /// Network interfaces of all cards.
    pub(super) enis: i64,
    pub(super) cards: i64,
    pub(super) ipv4_per_eni: i64,
    /// Branch interfaces for security groups of pods; zero where trunking does not work.
    pub(super) branch_enis: i64,
    /// Network bandwidth in Mbit/s, where AWS guarantees one.
    pub(super) mbps: Option<i64>,
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
