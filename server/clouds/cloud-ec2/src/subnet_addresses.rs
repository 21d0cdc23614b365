//! Free addresses of subnets, with those that launches under way will take.
//!
//! EC2's own count lags behind: instances take addresses while they boot. A launch therefore takes
//! the addresses of its pods off at once, until EC2's next count (Karpenter AWS: subnet choice).

use std::collections::BTreeMap;

/// Free addresses by subnet id.
#[derive(Debug, Default)]
pub(crate) struct SubnetAddresses {
    free: BTreeMap<String, i64>,
}

impl SubnetAddresses {
    /// EC2's count of a subnet's free addresses.
    pub(crate) fn observe(&mut self, subnet: &str, free: i64) {
        self.free.insert(subnet.to_owned(), free);
    }

    /// The subnet with most free addresses; the first of equals. One that was never counted comes
    /// after every counted one with an address left.
    pub(crate) fn best<'s>(&self, subnets: impl IntoIterator<Item = &'s str>) -> Option<&'s str> {
        let free = |subnet: &str| self.free.get(subnet).copied().unwrap_or(0);
        let mut best: Option<&str> = None;
        for subnet in subnets {
            if best.is_none_or(|known| free(subnet) > free(known)) {
                best = Some(subnet);
            }
        }
        best
    }

    /// A launch into the subnet may take `addresses`.
    pub(crate) fn reserve(&mut self, subnet: &str, addresses: i64) {
        if let Some(free) = self.free.get_mut(subnet) {
            *free = free.saturating_sub(addresses);
        }
    }

    /// The launch took none of the addresses it had reserved.
    pub(crate) fn release(&mut self, subnet: &str, addresses: i64) {
        if let Some(free) = self.free.get_mut(subnet) {
            *free = free.saturating_add(addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_under_way_moves_the_next_one_to_the_subnet_with_more_room() {
        let mut addresses = SubnetAddresses::default();
        addresses.observe("subnet-a", 100);
        addresses.observe("subnet-b", 80);
        let both = ["subnet-b", "subnet-a"];
        assert_eq!(addresses.best(both), Some("subnet-a"));
        addresses.reserve("subnet-a", 29);
        assert_eq!(addresses.best(both), Some("subnet-b"), "71 are left in a");
        addresses.release("subnet-a", 29);
        assert_eq!(addresses.best(both), Some("subnet-a"));
        assert_eq!(addresses.best(["subnet-x", "subnet-y"]), Some("subnet-x"), "the first of equals");
        assert_eq!(addresses.best([]), None);
    }
}
