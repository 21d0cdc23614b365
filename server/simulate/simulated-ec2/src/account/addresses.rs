//! Addresses of the subnets that instances use.

use std::collections::{BTreeMap, BTreeSet};

use crate::settings::Subnet;

/// First address of a subnet for an instance: four are reserved (VPC: subnet CIDR blocks).
const FIRST: u32 = 4;

/// Used addresses by subnet id.
#[derive(Debug, Default)]
pub(crate) struct Addresses(BTreeMap<String, Used>);

#[derive(Debug, Default)]
struct Used {
    /// Primary addresses, from the beginning of the subnet.
    primary: BTreeSet<u32>,
    /// Addresses beside the primary ones: prefixes.
    secondary: u32,
    /// The primary address that was given last.
    last: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Lease {
    /// Primary address, from the beginning of the subnet.
    pub(crate) primary: u32,
    pub(crate) secondary: u32,
}

impl Addresses {
    pub(crate) fn free(&self, subnet: &Subnet) -> u32 {
        let used = self.0.get(&subnet.id).map_or(0, |used| used.secondary.saturating_add(used.primary.len() as u32));
        subnet.addresses().saturating_sub(used)
    }

    /// Takes an address and `secondary` more; `None` when so many are not free.
    pub(crate) fn take(&mut self, subnet: &Subnet, secondary: u32) -> Option<Lease> {
        if self.free(subnet) < secondary.saturating_add(1) {
            return None;
        }
        let size = subnet.addresses();
        let used = self.0.entry(subnet.id.clone()).or_default();
        // Addresses are given in turn, so that an address is not used again at once.
        let candidate = |step: u32| FIRST + (used.last.saturating_sub(FIRST) + step) % size;
        let start = if used.last == 0 { 0 } else { 1 };
        let primary = (start..start + size).map(candidate).find(|address| !used.primary.contains(address))?;
        used.primary.insert(primary);
        used.secondary += secondary;
        used.last = primary;
        Some(Lease { primary, secondary })
    }

    pub(crate) fn release(&mut self, subnet: &str, lease: Lease) {
        if let Some(used) = self.0.get_mut(subnet)
            && used.primary.remove(&lease.primary)
        {
            used.secondary = used.secondary.saturating_sub(lease.secondary);
        }
    }
}

/// Dotted form of an address of `subnet`.
pub(crate) fn dotted(subnet: &Subnet, address: u32) -> String {
    let [a, b, c, d] = u32::from_be_bytes(subnet.cidr.0).saturating_add(address).to_be_bytes();
    format!("{a}.{b}.{c}.{d}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(bits: u8) -> Subnet {
        let text = String::new;
        Subnet { id: "s".to_owned(), zone: text(), vpc: text(), cidr: ([10, 0, 1, 0], bits), tags: Default::default() }
    }

    #[test]
    fn a_subnet_of_16_addresses_has_11_for_instances_and_gets_them_back() {
        let (subnet, mut addresses) = (subnet(28), Addresses::default());
        let leases: Vec<Lease> = (0..11).map(|_| addresses.take(&subnet, 0).unwrap()).collect();
        assert_eq!(
            (dotted(&subnet, leases[0].primary), dotted(&subnet, leases[10].primary)),
            ("10.0.1.4".into(), "10.0.1.14".into())
        );
        assert_eq!((addresses.free(&subnet), addresses.take(&subnet, 0)), (0, None));
        addresses.release("s", leases[3]);
        addresses.release("s", leases[3]);
        assert_eq!(addresses.free(&subnet), 1);
        assert_eq!(addresses.take(&subnet, 0), Some(leases[3]));
    }

    #[test]
    fn a_prefix_takes_sixteen() {
        let (subnet, mut addresses) = (subnet(27), Addresses::default());
        // 32 - 5 = 27: one instance with a prefix takes 17.
        let lease = addresses.take(&subnet, 16).unwrap();
        assert_eq!(addresses.free(&subnet), 10);
        assert_eq!(addresses.take(&subnet, 16), None);
        addresses.release("s", lease);
        assert_eq!(addresses.free(&subnet), 27);
    }
}
